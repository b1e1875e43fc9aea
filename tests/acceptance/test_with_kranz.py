"""kranzq where kranz works, too: what kranz says is shown, and what it would not see is said at once."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laboratory import Laboratory

pytestmark = pytest.mark.slow
IGNORES = "kranz works in this checkout, too"


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A checkout to experiment in."""
    with Laboratory(checkout) as one:
        one.run("init")
        yield one


def kranz_tells(lab: Laboratory, mission: str, status: object) -> Path:
    """Let kranz have written a status."""
    folder = lab.root / ".kranz/missions" / mission
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"mission": {"status": status}}))
    return folder


def test_what_kranz_would_not_see_is_said_at_enqueue(lab: Laboratory) -> None:
    """One line, only where kranz has left its traces, and only for what it would not see."""
    assert IGNORES not in lab.run("enqueue", "m1", "--", "true").stderr
    (kranz_tells(lab, "other", "running") / "events.jsonl").touch()

    said = lab.run("enqueue", "m2", "--timeout", "5m", "--", "true").stderr
    assert IGNORES in said
    assert "command and timeout" in said
    assert "only kranzq lets it go" in lab.run("enqueue", "m3", "--not-before", "+1h", "--", "true").stderr
    assert IGNORES not in lab.run("enqueue", "m4").stderr
    assert IGNORES not in lab.run("enqueue", "m2", "--timeout", "5m", "--", "true").stderr


def test_what_kranz_says_of_a_mission_is_shown(lab: Laboratory) -> None:
    """In `why` and `history`, for people and for programs."""
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    kranz_tells(lab, "m1", "validating")
    answer = json.loads(lab.run("why", "m1", "--json").stdout)
    assert [one["text"] for one in answer["reasons"] if one["reason"] == "kranz"] == [
        "kranz says that the mission is validating"
    ]
    lab.run("drain")
    kranz_tells(lab, "m1", "complete")

    assert json.loads(lab.run("history", "--json").stdout)["runs"][-1]["kranzStatus"] == "complete"
    assert "kranz says complete" in lab.run("history").stdout
    assert "complete" in lab.run("why", "m1").stdout


@pytest.mark.parametrize("status", ["", 7, "a\x1b[31mb", "x" * 99, None, ["running"]])
def test_a_status_that_is_none_is_not_shown(lab: Laboratory, status: object) -> None:
    """Nothing strange reaches a terminal."""
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    lab.run("drain")
    kranz_tells(lab, "m1", status)

    assert json.loads(lab.run("history", "--json").stdout)["runs"][-1]["kranzStatus"] is None


def test_a_status_behind_a_link_is_not_read(lab: Laboratory) -> None:
    """Whatever lies elsewhere says nothing of this mission."""
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    lab.run("drain")
    elsewhere = kranz_tells(lab, "m2", "complete") / "state.json"
    (lab.root / ".kranz/missions/m1/state.json").symlink_to(elsewhere)

    assert json.loads(lab.run("history", "m1", "--json").stdout)["runs"][-1]["kranzStatus"] is None


def test_the_claim_of_a_dead_kranz_has_nothing_to_do_with_an_earlier_run(lab: Laboratory) -> None:
    """A mission that has run here was queued anew, and a kranz died with it: its entry comes back and runs."""
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    lab.run("drain")
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    dead = subprocess.Popen(["true"])
    dead.wait(30)
    (name,) = [name for name in lab.names() if name.endswith(".json")]
    (lab.queue / name).rename(lab.queue / f"{name}.claimed.{dead.pid}")
    os.utime(lab.queue / f"{name}.claimed.{dead.pid}", (1_700_000_000, 1_700_000_000))
    lab.run("drain")

    assert lab.told() == ["start m1", "end m1"] * 2
    assert lab.outcomes("m1") == ["succeeded"] * 2
    lab.assert_nothing_left()
