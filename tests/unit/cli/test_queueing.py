"""The verbs of the approver, called in this process: what becomes of arguments, and what people are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kranzq.cli.main import run


def enqueue(root: Path, *args: str) -> int:
    """Approve in a checkout; the exit code."""
    return run(["-C", str(root), "enqueue", *args])


def commands(root: Path) -> list[list[str]]:
    """The commands of the entries in order."""
    files = sorted(path for path in (root / ".kranz/queue").glob("*.json") if not path.name.startswith("."))
    return [json.loads(path.read_bytes())["kranzq"].get("command", []) for path in files]


@pytest.mark.parametrize("command", [["a", "--", "b"], ["--", "--"], ["-x", "--json"], ["sh", "-c", "echo ü\n"]])
def test_a_command_is_kept_as_it_is(checkout: Path, command: list[str]) -> None:
    """Behind the first `--` everything is the command's, also what looks like an option or another `--`."""
    assert enqueue(checkout, "m1", "--", *command) == 0
    assert commands(checkout) == [command]


def test_options_may_stand_behind_the_mission(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Options are read on both sides of the mission's name, up to the `--`."""
    assert enqueue(checkout, "--priority", "1", "m1", "--json", "--", "true") == 0
    assert json.loads(capsys.readouterr().out)["priority"] == 1


def test_help_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """The usage line shows where the mission's command goes."""
    assert run(["enqueue", "--help"]) == 0
    assert "[-- COMMAND...]" in capsys.readouterr().out


def test_people_are_told_what_was_not_taken(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A repeat with another priority says that the first one stays."""
    enqueue(checkout, "m1", "--priority", "5", "--", "true")
    enqueue(checkout, "m1", "--priority", "1", "--", "true")
    first, second = capsys.readouterr().out.splitlines()

    assert first == "m1 is queued (priority 5, number 0)."
    assert second == "m1 is queued already (priority 5, number 0); nothing was changed. Its priority stays 5."


def test_a_mission_that_nothing_would_run_is_named(
    checkout: Path, isolated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a command of its own and a configured one a mission is queued, and what it lacks is said."""
    assert enqueue(checkout, "m1") == 0
    assert "m1 has no command, and none is configured" in capsys.readouterr().err
    (isolated / "config/kranzq").mkdir(parents=True)
    (isolated / "config/kranzq/config.toml").write_text('[mission]\ncommand = ["true"]\n')
    assert enqueue(checkout, "m2") == 0
    assert capsys.readouterr().err == ""


def test_files_are_found_from_where_one_works(checkout: Path, tmp_path: Path) -> None:
    """A relative --file is looked for in the directory of -C, and keeps its own name only."""
    (checkout / "docs").mkdir()
    (checkout / "docs/prompt.md").write_bytes(b"\xff do it")

    assert run(["-C", str(checkout), "enqueue", "m1", "--file", "docs/prompt.md", "--", "true"]) == 0
    assert (checkout / ".kranz/missions/m1/input/prompt.md").read_bytes() == b"\xff do it"
    assert enqueue(checkout, "m2", "--file", "docs/prompt.md", "--file", "./docs/prompt.md", "--", "true") == 2


def test_a_timeout_is_written_like_any_duration(checkout: Path) -> None:
    """5m is five minutes, in the entry as a number of seconds."""
    assert enqueue(checkout, "m1", "--timeout", "5m", "--retries", "2", "--", "true") == 0
    entry = json.loads(next((checkout / ".kranz/queue").glob("[0-9]*.json")).read_bytes())
    assert (entry["kranzq"]["timeoutSeconds"], entry["kranzq"]["retries"]) == (300.0, 2)


def test_a_link_in_the_place_of_a_mission_folder_is_refused(checkout: Path, tmp_path: Path) -> None:
    """Nothing is written through a link that somebody put where a mission's folder would be."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (checkout / ".kranz/missions").mkdir(parents=True)
    (checkout / ".kranz/missions/m1").symlink_to(elsewhere)
    (checkout / "f").touch()

    assert enqueue(checkout, "m1", "--file", "f", "--", "true") == 5
    assert enqueue(checkout, "m1", "--source", "t:1", "--", "true") == 5
    assert list(elsewhere.iterdir()) == []
    assert commands(checkout) == []


@pytest.mark.parametrize("number", ["+5", "1_0", " 5 ", "\u0665", "5.0", ""])
@pytest.mark.parametrize(
    "words",
    [
        ("enqueue", "m1", "--priority"),
        ("enqueue", "m1", "--retries"),
        ("edit", "m1", "--priority"),
        ("history", "--last"),
        ("logs", "m1", "--run"),
        ("logs", "m1", "--tail"),
        ("enqueue", "m1", "--timeout"),
        ("edit", "m1", "--timeout"),
        ("wait", "m1", "--timeout"),
        ("enqueue", "m1", "--not-before"),
    ],
)
def test_numbers_are_digits_alone(
    checkout: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], number: str
) -> None:
    """Every option with a number refuses what only looks like one, and names itself; a duration may have a fraction."""
    if words[-1] == "--timeout" and number == "5.0":
        number = "5.0.0"
    code = run(["-C", str(checkout), *words, number])

    assert code == 2
    assert words[-1] in capsys.readouterr().err
    assert not (checkout / ".kranz").exists()


def test_a_command_without_its_dashes_is_told_how(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever types a command behind the id reads where the dashes belong; nothing is queued."""
    assert run(["-C", str(checkout), "enqueue", "m1", "make", "test"]) == 2
    assert "Put -- before the command: MISSION -- COMMAND" in capsys.readouterr().err
    assert not (checkout / ".kranz").exists()
