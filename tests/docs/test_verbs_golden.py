"""Each verb's help, the keys of its JSON and its exit codes, held by files: what programs and people got used to.

`KRANZQ_GOLDEN=write` writes the files anew; then read the difference as whoever depends on it would.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kranzq.cli.examples import below
from kranzq.cli.main import VERBS, cli, run
from tests.laboratory import Laboratory

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "verbs"
WRITES = os.environ.get("KRANZQ_GOLDEN") == "write"
CALLS = """
list
init
enqueue m1 --json -- true
enqueue m1 --json -- false
enqueue m1 --timeout soon -- true
enqueue ../x -- true
enqueue m2 --priority 5 --after m1 --json -- true
enqueue m3 --source tracker:7 --json -- false
list --json
status --json
why m2 --json
why nobody
edit m2 --priority 6 --json
edit nobody --priority 1
park m3 not yet --json
list --parked --json
park nobody
unpark m3 --json
unpark nobody
drain --once
drain
drain
history --json
history m1 --last 1 --json
history nobody --json
logs m1
logs nobody
logs m1 --run 9
wait m1 --json
wait m3
wait nobody
retry m3 --json
retry nobody
cancel m3 --why done --json
cancel nobody --json
cancel * --yes --json
source list --json
source list --ended --json
source show m3 --json
source show nobody
source cancelled m3 --json
source returned nobody --json
source returned m3 --json
source reclaim --json
trust --json
trust --unsigned --yes --json
trust --withdraw --yes --json
pause until noon
status --json
drain
resume
resume
check --json
recover --json
recover --dry-run --json
repos add
repos list --json
status --all --json
repos remove
repos remove
repos forget
stop
daemon --on-stop never
guard --json
guard --mission-only
guard --item w-9 --attempt 1
service install --yes --json
service status --json
service remove --yes --json
hook install git-pre-push --yes --json
hook install nothing
hook list --json
hook remove git-pre-push --yes --json
notify list --json
notify drop
notify drop --json
notify test
KRANZQ_HOOKS_FAILED=true notify test --json
notify secret --json
presence claim src --agent ann --note n --json
presence who src --json
presence list --json
presence release --all --agent ann --json
presence release c-1
work enqueue --title t --payload p --id w1 --json
work enqueue --title t --payload p --id w2 --json
work enqueue --payload p
work list --json
work show w1 --json
work show nobody
work claim --agent ann --json
work claim --agent ann --id nobody --json
work heartbeat w1 --attempt 1 --agent ann --json
work heartbeat w1 --attempt 7 --agent ann
work release w1 --attempt 1 --agent ann --json
work claim --agent ann --id w1 --json
work complete w1 --attempt 2 --agent ann --json
work complete w1 --attempt 1 --agent ann
work cancel w2 --reason r --json
work claim --agent ann --json
work stats --json
work recover --json
work prune --json
agent add ann --token-file {home}/ann.token --json
agent add ann
agent list --json
agent rotate ann --token-file {home}/ann.token --json
agent revoke ann --json
agent revoke ann
schema show --json
schema migrate --json
mcp --server nowhere
serve --listen nowhere
mission
"""


def names() -> list[str]:
    """All verbs and all below them."""
    context = click.Context(cli)
    found = []
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        found += [name for name, _ in below(command, verb)]
    return found


def held(path: Path, text: str) -> str:
    """What the file holds, after it was written if that is wished."""
    if WRITES:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["", *names()])
def test_the_help_of_each_verb_is_held(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of an option, of its default or of its words is seen in a difference, not by a user."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out

    assert shown == held(GOLDEN / "help" / f"{name.replace(' ', '-') or 'kranzq'}.txt", shown)


def test_no_help_is_held_of_a_verb_that_is_gone() -> None:
    """The files are those of the verbs there are."""
    kept = {path.stem for path in (GOLDEN / "help").glob("*.txt")}
    assert kept == {"kranzq", *(name.replace(" ", "-") for name in names())}


def keys_in(value: object, path: str = "") -> Iterator[str]:
    """The paths of all keys in a JSON value, sorted as they come; items of a list share theirs."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}{key}"
            yield from keys_in(inner, f"{path}{key}.")
    elif isinstance(value, list):
        for inner in value:
            yield from keys_in(inner, path.removesuffix(".") + "[].")


def told(lab: Laboratory, line: str) -> str:
    """One call: its exit code, and the keys of what it says in JSON."""
    words = [word.replace("{home}", lab.home) for word in shlex.split(line)]
    given = [word for word in words[:1] if "=" in word]
    done = lab.run(*words[len(given) :], code=None, env=dict(word.split("=", 1) for word in given))
    try:
        keys = sorted(set(keys_in(json.loads(done.stdout)))) if "--json" in words and done.stdout else []
    except ValueError:
        pytest.fail(f"{line}: no JSON: {done.stdout}")
    return " ".join([f"{done.returncode:3}  {line}", *([":", *keys] if keys else [])]) + "\n"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_keys_and_exit_codes_are_held(lab: Laboratory) -> None:
    """One story through all verbs: programs that read an answer or a code go on working."""
    lines = CALLS.strip().splitlines()
    found = "".join(told(lab, line) for line in lines)

    assert found.splitlines() == held(GOLDEN / "calls.txt", found).splitlines()


def test_the_story_calls_each_verb_and_each_that_speaks_json() -> None:
    """A new verb, or a new --json, comes into the story."""
    context = click.Context(cli)
    groups, speaking = set(), set()
    for verb in VERBS:
        command = cli.get_command(context, verb)
        assert command is not None
        for name, one in below(command, verb):
            if isinstance(one, click.Group):
                groups.add(name)
            if any("--json" in each.opts for each in one.params):
                speaking.add(name)
    every = sorted(set(names()) - groups, key=len, reverse=True)
    called: dict[str, bool] = {}
    for line in CALLS.strip().splitlines():
        name = next((one for one in every if re.match(rf"(\S+=\S+ )?{one}\b", line)), "")
        called[name] = called.get(name, False) or "--json" in line

    assert set(every) - set(called) - {"agent key"} == set()  # it prints a secret
    assert {name for name in speaking if not called.get(name)} == set()
