"""kranzq itself as a subject: a home and checkouts of the benchmark's own, daemons that end with it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kranzq import queue
from kranzq.disk import atomic
from kranzq.model.checkout import Checkout
from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId

REPO = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
LEFT_OUT = ("KRANZQ_", "KRANZ_", "GIT_", "XDG_", "PYTHON")
"""What steers kranzq, git or the interpreter: one that may not keep its bytecode compiles everything at each start."""
_NUMBERS = iter(range(1, sys.maxsize))


@contextlib.contextmanager
def home(folder: Path) -> Iterator[None]:
    """A home of one's own, with no settings of whoever runs this; missions' keys are made in it."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(LEFT_OUT) and not name.startswith("KRANZQ_BENCH_"):
            del os.environ[name]
    mine = folder / "home"
    mine.mkdir(exist_ok=True)
    names = {"XDG_CONFIG_HOME": mine / "config", "XDG_STATE_HOME": mine / "state", "XDG_RUNTIME_DIR": mine}
    os.environ.update(HOME=str(mine), **{name: str(path) for name, path in names.items()})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def checkout(root: Path) -> Checkout:
    """A git repository with one commit and a queue."""
    root.mkdir(parents=True)
    who = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgSign=false")
    for words in (("init", "--quiet"), ("commit", "--quiet", "--allow-empty", "-m", "begin")):
        subprocess.run(["git", *who, *words], cwd=root, check=True, stdin=subprocess.DEVNULL)
    made = Checkout(os.path.realpath(root), has_git=True)
    queue.enqueue(made, "first")
    queue.remove(made, "first")
    return made


def program() -> list[str]:
    """The words by which a person starts kranzq: the installed script, or the module where there is none."""
    script = Path(sys.executable).with_name("kranzq")
    return [str(script)] if script.exists() else [sys.executable, "-m", "kranzq"]


def mission(command: Sequence[str] = ()) -> Entry:
    """A mission that nobody had yet."""
    own = Own(id=secrets.token_hex(16), command=tuple(command))
    return Entry(MissionId(f"mission-{next(_NUMBERS)}"), 2, own=own)


def enqueued(repo: Checkout, command: Sequence[str]) -> int:
    """Queue a mission as the library does; the moment just before its entry appeared under its name."""
    seen: list[int] = []
    original = atomic.appear

    def noted(dir_fd: int, temporary: str, name: str, inode: int) -> None:
        if name.endswith(".json"):
            seen.append(time.monotonic_ns())
        original(dir_fd, temporary, name, inode)

    vars(atomic)["appear"] = noted
    try:
        queue.enqueue(repo, mission(command))
    finally:
        vars(atomic)["appear"] = original
    return seen[-1]


@contextlib.contextmanager
def started(
    words: Sequence[str],
    log: Path,
    ready: Callable[[], bool],
    *,
    cwd: Path = REPO,
    env: dict[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A program in the background, from when it is ready; it and its group are gone at the end."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(words),
            cwd=cwd,
            env=os.environ | (env or {}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        wait_for(lambda: _is_ready(process, ready, log), f"{words[0]} is ready")
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _is_ready(process: subprocess.Popen[bytes], ready: Callable[[], bool], log: Path) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"ended at once: {log.read_text(errors='replace')[-400:]}")
    return ready()


@contextlib.contextmanager
def daemon(
    repo: Checkout, log: Path, *, before: Sequence[str] = (), env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that has said who it is and whose first keeper is warm."""
    words = [*before, *program(), "-C", repo.root, "daemon"]
    told = Path(repo.queue) / ".daemon.json"
    with started(words, log, told.exists, env=env) as process:
        wait_for(lambda: keepers_of(process.pid), "a keeper is there")
        yield process


def keepers_of(pid: int) -> list[int]:
    """The keepers below a process, however many wrappers are between."""
    found = []
    for child in children_of(pid):
        words = _read(f"/proc/{child}/cmdline").split(b"\0")
        found += [child] if any(word.endswith(b"keeper.py") for word in words) else keepers_of(child)
    return found


def children_of(pid: int) -> list[int]:
    """The children of a process."""
    return [int(one) for one in _read(f"/proc/{pid}/task/{pid}/children").split()]


def settled(repo: Checkout) -> bool:
    """Whether nothing of the queue is claimed or waits for its turn."""
    return not any(name.endswith(".json") or ".claimed." in name for name in os.listdir(repo.queue) if name[0] != ".")


def wait_for(condition: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Look until it is true. Raises TimeoutError."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.002)


def cpu_s(pids: Sequence[int]) -> float:
    """What processes have computed so far, with the children that they have buried."""
    ticks = 0
    for pid in pids:
        parts = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        ticks += sum(int(part) for part in parts[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def clear(folder: Path) -> None:
    """Remove a folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
