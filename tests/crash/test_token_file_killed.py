"""Killed anywhere between the file and the database, a verb that makes a token leaves what the how-to says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kranzq import work
from kranzq.cli.main import run
from tests.laboratory import REPO

pytestmark = [pytest.mark.crash, pytest.mark.slow]
STORE = "kranzq.backends.sql.agents:SqlAgents"
POINTS = {
    "in the file beside": "after:kranzq.trust.token_file:_write_beside:1",
    "in the database": f"after:{STORE}.{{verb}}:1",
    "in its place": "after:kranzq.trust.token_file:put_over:1",
}


def opens(path: Path) -> bool | None:
    """Whether the token in a file opens; None where there is no file."""
    if not path.exists():
        return None
    with work.open() as store:
        return store.agents.by_token(path.read_text().strip()) is not None


def killed(point: str, *words: str) -> None:
    """Run the verb in a process that ends there by SIGKILL."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.crash.killed", point, "agent", *words],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-9, ""), done.stderr


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_add_is_cleared_up_by_the_next_verb(point: str, isolated: Path, tmp_path: Path) -> None:
    """Before the database knows the agent, `add` again; after it, `rotate`: then the file's token opens."""
    del isolated
    file, beside = tmp_path / "t", tmp_path / "t.new"
    killed(POINTS[point].format(verb="add"), "add", "ann", "--token-file", str(file))
    assert (opens(file), opens(beside)) == {
        "in the file beside": (None, False),
        "in the database": (None, True),
        "in its place": (True, None),
    }[point]

    again = run(["agent", "add", "ann", "--token-file", str(file)])
    assert again == (0 if point == "in the file beside" else 4)
    if again:
        assert run(["agent", "rotate", "ann", "--token-file", str(file)]) == 0
    assert (opens(file), opens(beside)) == (True, None)
    with work.open() as store:
        assert [one.name for one in store.agents.all()] == ["ann"]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_rotation_is_cleared_up_by_itself(point: str, isolated: Path, tmp_path: Path) -> None:
    """Until the database knows the new token the old one opens from its file; typed again, a new one does."""
    del isolated
    file, beside = tmp_path / "t", tmp_path / "t.new"
    assert run(["agent", "add", "ann", "--token-file", str(file)]) == 0
    killed(POINTS[point].format(verb="rotate"), "rotate", "ann", "--token-file", str(file))
    assert (opens(file), opens(beside)) == {
        "in the file beside": (True, False),
        "in the database": (False, True),
        "in its place": (True, None),
    }[point]

    assert run(["agent", "rotate", "ann", "--token-file", str(file)]) == 0
    assert (opens(file), opens(beside)) == (True, None)
