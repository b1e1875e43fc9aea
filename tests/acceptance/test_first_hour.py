"""The first hour: what `init` asks on a terminal and nowhere else, what it proposes, and how `check` looks there."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.laboratory import REPO

pytestmark = [pytest.mark.slow, pytest.mark.system("git")]
PROGRAM = [sys.executable, "-m", "kranzq"]


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A coding agent on a search path that has nothing else but git."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "claude").write_text("#!/bin/sh\n")
    (folder / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder / "claude"


def settings() -> dict[str, Any]:
    """What the user's file says now."""
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq/config.toml"
    return tomllib.loads(path.read_text()) if path.exists() else {}


def on_terminal(where: Path, *words: str, typed: tuple[str, ...] = ()) -> str:
    """What a verb shows on a terminal, where one line is typed for each question."""
    ours, theirs = pty.openpty()
    env = os.environ | {"PYTHONPATH": str(REPO), "PYTHONUTF8": "1", "NO_COLOR": "1"}
    child = subprocess.Popen([*PROGRAM, *words], cwd=where, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown, asked, left = b"", 0, list(typed)
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                part = os.read(ours, 4096)
            except OSError:  # its end of the terminal is closed
                break
            shown += part
        if left and shown.count(b"]: ") > asked:
            asked += 1
            os.write(ours, f"{left.pop(0)}\n".encode())
    os.close(ours)
    assert child.wait(20) == 0, shown.decode()
    return shown.decode()


def test_on_a_terminal_three_questions_are_asked_and_written(checkout: Path, agent: Path) -> None:
    """The agent that is there is proposed; an answer that would not do is asked for again; then two commands."""
    shown = on_terminal(checkout, "init", typed=("", "soon", "2h", "https://example.org/hook"))

    assert f"Found on your PATH: {agent}" in shown
    assert "must be a number of seconds" in shown
    assert settings()["mission"]["command"][:2] == ["claude", "-p"]
    assert settings()["mission"]["timeout"] == "2h"
    assert settings()["hooks"] == {"failed": ["https://example.org/hook"], "needs_person": ["https://example.org/hook"]}
    assert [line.strip() for line in shown.splitlines()][-2:] == ["kranzq enqueue first -- echo hello", "kranzq drain"]
    assert "Three questions" not in on_terminal(checkout, "init")


def test_a_program_that_is_not_there_is_named_at_once(checkout: Path, agent: Path) -> None:
    """It is taken, since it may come later; but nobody learns of it only when a mission has failed."""
    assert agent.exists()
    shown = on_terminal(checkout, "init", typed=("none", "", "/no/such/teller"))

    assert settings()["hooks"]["failed"] == ["/no/such/teller"]
    assert "/no/such/teller is not there, or not executable" in shown
    assert shown.count("kranzq notify test") == 1


def test_none_is_an_answer(checkout: Path, agent: Path) -> None:
    """Whoever wants none of it gets a queue and no settings."""
    assert agent.exists()
    on_terminal(checkout, "init", typed=("none", "", ""))
    assert settings() == {}
    assert (checkout / ".kranz/queue").is_dir()


def test_a_blank_is_none(checkout: Path, agent: Path) -> None:
    """Who types blanks at each question gets what `none` gives: no empty command that runs nothing, and no fault."""
    assert agent.exists()
    on_terminal(checkout, "init", typed=(" ", "  ", " "))
    assert settings() == {}
    assert (checkout / ".kranz/queue").is_dir()


def test_without_a_terminal_nothing_is_asked_nor_written(checkout: Path, agent: Path) -> None:
    """It says how to get what it would propose; with `--yes` it takes it, and what stood in the file stays."""
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("# mine\n[daemon]\npoll_seconds = 7")
    env = os.environ | {"PYTHONPATH": str(REPO)}

    def init(*words: str) -> str:
        argv = [*PROGRAM, "init", *words]
        done = subprocess.run(argv, cwd=checkout, env=env, input="", capture_output=True, text=True, check=True)
        return done.stdout

    assert f"{agent.name} is on your PATH. To let it run missions, type: kranzq init --yes" in init()
    assert settings() == {"daemon": {"poll_seconds": 7}}
    assert str(path) in init("--yes")
    assert settings()["daemon"] == {"poll_seconds": 7}
    assert settings()["mission"]["command"][0] == "claude"
    assert path.read_text().startswith("# mine\n[daemon]\n")
    assert "Written" not in init("--yes")


def test_a_table_that_is_there_is_left_to_the_person(checkout: Path, agent: Path) -> None:
    """What somebody wrote is never changed: the lines are shown instead."""
    assert agent.exists()
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq/config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("[mission]\ntimeout = '1h'\n")
    shown = on_terminal(checkout, "init", "--yes")

    assert "has such a table already. Put this into it:" in shown
    assert path.read_text() == "[mission]\ntimeout = '1h'\n"


def test_check_ticks_on_a_terminal_and_has_words_elsewhere(checkout: Path) -> None:
    """A list to look over; in a pipe each line begins with its word."""
    on_terminal(checkout, "init", "--yes")
    shown = on_terminal(checkout, "check")
    assert "\N{CHECK MARK} checkout: " in shown
    env = os.environ | {"PYTHONPATH": str(REPO)}
    argv = [*PROGRAM, "check"]
    done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert "ok       checkout: " in done.stdout
