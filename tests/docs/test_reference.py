"""Every error, event, setting, state and verb stands on its reference page, as the code has it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import click
import pytest

from kranzq import errors, events, queue
from kranzq.backends.file.folders import IGNORED
from kranzq.cli.main import VERBS, cli, run
from kranzq.config import SETTINGS
from kranzq.dispatch import turn
from kranzq.model.outcome import Outcome
from kranzq.model.state import MOVES
from kranzq.model.work import ItemState
from kranzq.runs import folder

T = TypeVar("T")
DOCS = Path(__file__).resolve().parents[2] / "docs"


def rows(page: str, width: int) -> Iterator[list[str]]:
    """The rows of all tables of a page that have at least `width` columns, cell by cell."""
    for line in (DOCS / page).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) >= width and not set(line) <= set("|- "):
            yield cells


def words(cell: str) -> set[str]:
    """What stands in backticks."""
    return set(re.findall(r"`([^`]+)`", cell))


def classes(module: object, root: type[T]) -> set[type[T]]:
    """The classes of a module that descend from `root`, itself left out where it is only a root."""
    return {one for one in vars(module).values() if isinstance(one, type) and issubclass(one, root)}


def test_every_error_is_described_with_its_exit_code() -> None:
    """A person who meets an exit code finds the fault behind it."""
    found = {cells[0]: cells[1] for cells in rows("reference/errors.md", 3)}

    expected = {f"`{one.__name__}`": str(one.exit_code) for one in classes(errors, errors.KranzqError)}
    assert {name: code for name, code in found.items() if name.startswith("`")} == expected


def test_every_event_is_described_with_its_fields() -> None:
    """Whoever listens knows what comes."""
    found = {cells[0]: words(cells[1]) for cells in rows("reference/events.md", 3) if cells[0].startswith("`")}

    expected = {f"`{one.__name__}`": set(one.field_names) for one in classes(events, events.Event) - {events.Event}}
    assert found == expected


def test_every_setting_is_described_with_variable_and_default() -> None:
    """The page is the table of settings, no more and no less."""
    found = {tuple(cell.strip("`") for cell in (*cells[:2], cells[3])) for cells in rows("reference/config.md", 5)}

    expected = {
        (one.name, one.variable, one.default if isinstance(one.default, str) else json.dumps(one.default))
        for one in SETTINGS
    }
    assert found - {("setting", "variable", "default")} == expected


def test_the_table_of_states_is_the_table_of_moves() -> None:
    """What the page says may happen is what the code lets happen."""
    found = {
        cells[0].strip("`"): words(cells[2]) for cells in rows("reference/states.md", 4) if cells[0].startswith("`")
    }

    assert found == {state.value: {to.value for to in moves} for state, moves in MOVES.items()}


def test_every_outcome_is_described() -> None:
    """Each way to end has its row, with what becomes of the entry."""
    found = {cells[0].strip("*") for cells in rows("reference/states.md", 3)}

    assert {outcome.value for outcome in Outcome} <= found


def test_every_file_of_a_run_is_described() -> None:
    """No file lies about that the page does not explain."""
    text = (DOCS / "reference/files-on-disk.md").read_text()

    names = {folder.RUN, folder.EXIT, folder.OUTPUT, folder.LOG, folder.CANCEL, folder.RETURN, folder.STUCK}
    names |= {folder.ENTRY}
    assert {name for name in names | {IGNORED[0]} if name not in text} == set()


def test_the_steps_of_a_turn_are_those_of_the_page() -> None:
    """The architecture page and the module tell the same eleven steps."""
    page = [cells[0] for cells in rows("explanation/architecture.md", 3)]
    steps = [cell.partition(" ")[2] for cell in page if re.match(r"\d+ ", cell)]

    assert len(steps) == 11
    package = turn.__name__.rpartition(".")[0]
    docstring = (Path(turn.__file__).parent / "__init__.py").read_text()
    assert f"One turn: {', '.join(steps)}." in docstring, package


def test_every_public_name_of_the_library_is_described() -> None:
    """Whoever imports the queue finds each of its names on the page."""
    page = (DOCS / "reference/python.md").read_text()
    described = words(re.sub(r"```.*?```", "", page, flags=re.DOTALL)) | set(re.findall(r"queue\.(\w+)", page))

    assert set(queue.__all__) - described == set()


def test_every_promise_names_tests_that_exist() -> None:
    """A promise without a test behind it is an advertisement."""
    promises = [cells for cells in rows("explanation/guarantees-and-assumptions.md", 4) if cells[0].isdigit()]

    assert len(promises) == 7
    for promise in promises:
        named = words(promise[3])
        assert named, promise[0]
        assert {name for name in named if not (DOCS.parent / name).exists()} == set(), promise[0]


def sections() -> dict[str, str]:
    """The sections of the page about the command line, by verb."""
    parts = re.split(r"^## ", (DOCS / "reference/cli.md").read_text(), flags=re.MULTILINE)
    heads = {part: re.match(r"`kranzq ([a-z]+)`", part) for part in parts}
    return {head[1]: part for part, head in heads.items() if head is not None}


def test_every_verb_has_its_section() -> None:
    """No more verbs are described than there are, and no fewer."""
    assert set(sections()) == set(VERBS)


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_option_is_described(verb: str) -> None:
    """Each option of a verb stands in its section, and no option stands there that it has not."""
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    section = sections()[verb]

    inner = list(command.commands.values()) if isinstance(command, click.Group) else []
    options = [one for each in (command, *inner) for one in each.params if isinstance(one, click.Option)]
    has = {name for one in options for name in (*one.opts, *one.secondary_opts)}
    has -= {"-h", "--help"}
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*|(?<![\w-])-[a-zA-Z]\b", section))
    assert {name for name in has if name not in shown} == set()
    assert {name for name in shown if name.startswith("--")} <= has


def keys_of(value: object) -> set[str]:
    """All keys in a JSON value, however deep."""
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys_of(inner)}
    return {key for inner in value for key in keys_of(inner)} if isinstance(value, list) else set()


@pytest.mark.slow
def test_every_key_of_json_is_described(checkout: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Whoever writes a program against the answers finds each key on the page."""

    def ask(*words: str) -> set[str]:
        capfd.readouterr()
        run(["-C", str(checkout), *words, "--json"])
        return keys_of(json.loads(capfd.readouterr().out))

    run(["-C", str(checkout), "init"])
    run(["-C", str(checkout), "enqueue", "waits", "--source", "tracker:7", "--", "true"])
    asked = {
        "enqueue": ask("enqueue", "other", "--priority", "9"),
        "list": ask("list"),
        "status": ask("status"),
        "why": ask("why", "waits"),
        "history": ask("history"),
        "source": ask("source", "list") | ask("source", "show", "waits") | ask("source", "reclaim"),
        "trust": ask("trust"),
        "recover": ask("recover"),
        "check": ask("check"),
        "edit": ask("edit", "waits", "--priority", "9"),
        "park": ask("park", "waits"),
        "unpark": ask("unpark", "waits"),
        "retry": ask("retry", "waits"),
        "service": ask("service", "install", "--yes") | ask("service", "status") | ask("service", "remove", "--yes"),
        "cancel": ask("cancel", "waits") | ask("cancel", "*", "--yes"),
        "guard": ask("guard"),
        "notify": ask("notify", "list") | ask("notify", "drop") | ask("notify", "secret"),
        "hook": ask("hook", "install", "git-pre-push", "--yes")
        | ask("hook", "list")
        | ask("hook", "remove", "mcp", "--yes"),
        "presence": ask("presence", "claim", "src", "--agent", "ann")
        | ask("presence", "claim", "src")
        | ask("presence", "who", "src")
        | ask("presence", "list")
        | ask("presence", "release", "--all"),
    }

    text = sections()
    missing = {verb: {key for key in keys if f"`{key}`" not in text[verb]} for verb, keys in asked.items()}
    assert {verb: keys for verb, keys in missing.items() if keys} == {}


def test_every_key_of_the_work_queue_is_described(capfd: pytest.CaptureFixture[str]) -> None:
    """The keys of items, of what verbs answer, and of the schema."""

    def ask(*words: str) -> set[str]:
        capfd.readouterr()
        run([*words, "--json"])
        return keys_of(json.loads(capfd.readouterr().out))

    keys = ask("work", "enqueue", "--title", "t", "--payload", "p", "--id", "one")
    keys |= ask("work", "claim") | ask("work", "heartbeat", "one", "--attempt", "1")
    keys |= ask("work", "release", "one", "--attempt", "1") | ask("work", "claim")
    keys |= ask("work", "complete", "one", "--attempt", "2") | ask("work", "cancel", "one")
    keys |= ask("work", "list") | ask("work", "show", "one") | ask("work", "stats") | ask("work", "recover")
    keys |= ask("work", "prune")
    states = {state.value for state in ItemState}  # of `stats`, where the page about items has them

    text = sections()
    assert {key for key in keys - states if f"`{key}`" not in text["work"]} == set()
    assert {key for key in ask("schema", "show") if f"`{key}`" not in text["schema"]} == set()


def test_every_state_of_an_item_is_described() -> None:
    """Each with what it means, who moves it and where to."""
    found = {word for cells in rows("reference/work.md", 4) for word in words(cells[0])}

    assert {state.value for state in ItemState} <= found
