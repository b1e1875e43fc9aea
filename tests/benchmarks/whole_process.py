"""(b) One command from its start to its end, as a person or a hook runs it: mostly an interpreter that starts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from kranzq.model.checkout import Checkout
from tests.benchmarks import checkouts, figures
from tests.benchmarks.asked import Asked, Result, Target
from tests.benchmarks.peers.known import taking_part
from tests.benchmarks.places import disk
from tests.benchmarks.rounds import Measured, Subject, measure, timed_ms

BASE = 'python -c "import click"'
RECIPE = "shell alone, into the inbox"
NQ = "nq -q true"
HOW = "Milliseconds from the start of the process to its end. What it enqueues is removed before the next one."
SHELL = (
    'f=.kranz/queue/inbox/.fix-login.$$ && echo \'{"missionId": "fix-login"}\' > "$f"'
    ' && mv "$f" .kranz/queue/inbox/fix-login'
)
"""The line of docs/howto/enqueue-from-any-language.md."""
WANTED = {"kranzq enqueue": 1.6, "kranzq --help": 1.5, "kranzq status": 1.5, "kranzq, completion of a word": 1.5}


def run(asked: Asked) -> Result:
    """One table of everything that is started from a shell."""
    here = disk(asked.folder).there / "b"
    here.mkdir()
    repo = checkouts.checkout(here / "checkout")
    (Path(repo.queue) / "inbox").mkdir(exist_ok=True)
    peers, absent = taking_part("commands")
    with contextlib.ExitStack() as stack:
        subjects = [*_floors(), *_ours(repo)]
        for peer in peers:
            offered = stack.enter_context(peer.commands(here))
            subjects += [
                Subject(name, "peer", _command(words, env=env), peer.PROMISES) for name, (words, env) in offered.items()
            ]
        measured = measure(subjects, asked.so_many_rounds(15), asked.so_many(2, 5), here)
    table = measured.table("one command", "ms", HOW, base=BASE, absent=absent)
    return Result([table], [*_targets(measured)], canary=measured.canary)


def _floors() -> Iterator[Subject]:
    python = sys.executable
    for name, words in {
        "/bin/true": ["/bin/true"],
        "python -I -S -c pass": [python, "-I", "-S", "-c", "pass"],
        "python -c pass": [python, "-c", "pass"],
        BASE: [python, "-c", "import click"],
    }.items():
        yield Subject(name, "floor", _command(words))


def _ours(repo: Checkout) -> Iterator[Subject]:
    program = [*checkouts.program(), "-C", repo.root]

    def enqueue() -> float:
        words = [*program, "enqueue", checkouts.mission().mission, "--", "true"]
        return _emptied(repo.queue, lambda: _run(words))

    inbox = os.path.join(repo.queue, "inbox")
    yield Subject("kranzq enqueue", "ours", enqueue, "durable")
    yield Subject("kranzq status", "ours", _command([*program, "status"]))
    yield Subject("kranzq --help", "ours", _command([*checkouts.program(), "--help"]))
    words = {"_KRANZQ_COMPLETE": "bash_complete", "COMP_WORDS": "kranzq enq", "COMP_CWORD": "1"}
    yield Subject("kranzq, completion of a word", "ours", _command(checkouts.program(), env=words))
    recipe = ["sh", "-c", SHELL]
    yield Subject(RECIPE, "ours", lambda: _emptied(inbox, lambda: _run(recipe, cwd=repo.root)), "not durable")


def _command(words: Sequence[str], *, env: Mapping[str, str] | None = None) -> Callable[[], float]:
    return lambda: _run(words, env=env)


def _run(words: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None) -> float:
    whole = {**os.environ, **(env or {})}

    def once() -> None:
        done = subprocess.run(
            words, env=whole, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-150:]}")

    return timed_ms(once)


def _emptied(folder: str, act: Callable[[], float]) -> float:
    taken = act()
    for name in os.listdir(folder):
        if name[0] != "." and os.path.isfile(f"{folder}/{name}"):
            os.unlink(f"{folder}/{name}")
    return taken


def _targets(measured: Measured) -> Iterator[Target]:
    for name, wanted in WANTED.items():
        found = figures.ratios(measured.rounds_of(name), measured.rounds_of(BASE))
        yield figures.rounds_target(name, found, wanted, 2.0, BASE)
    found = figures.ratios(measured.rounds_of(RECIPE), measured.rounds_of(NQ))
    yield figures.rounds_target(RECIPE, found, 2.0, 3.0, NQ)
