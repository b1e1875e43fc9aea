"""A cancel is killed before each change of the disk: nothing is lost, nothing runs by halves, a repeat completes it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.wiring import queues
from tests.factories import kranz_entry
from tests.laboratory import Laboratory, laboratory

pytestmark = [pytest.mark.crash, pytest.mark.slow]
MOST_CHANGES = 60
TAKING_OUT = "before:kranzq.backends.file.withdrawing:Withdrawing.take_out:1"


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A laboratory in a checkout with git."""
    with laboratory(checkout) as one:
        yield one


def queued(lab: Laboratory, mission: str) -> None:
    """One that may run."""
    lab.enqueue(mission)


def waiting(lab: Laboratory, mission: str) -> None:
    """One that waits for its time."""
    lab.enqueue(mission, not_before="2090-01-01T00:00:00Z")


def parked(lab: Laboratory, mission: str) -> None:
    """One that is parked, with a reason."""
    lab.enqueue(mission)
    with queues.make_queue(lab.checkout) as queue, queue.change():
        queue.set_aside(queue.places(MissionId(mission))[0], "to begin with")


def dropped(lab: Laboratory, mission: str) -> None:
    """One that lies in the inbox."""
    queues.make_queue(lab.checkout).close()
    (lab.queue / "inbox" / mission).write_bytes(kranz_entry(mission))


def killed(lab: Laboratory, point: str, *words: str) -> int:
    """The exit code of a verb that is killed there."""
    code = lab.killed(point, *words)
    assert code in {0, -signal.SIGKILL}, lab.log()
    return code


@pytest.mark.parametrize("before", [queued, waiting, parked, dropped], ids=lambda one: str(one.__name__))
def test_a_cancel_killed_before_every_change_can_be_repeated(
    lab: Laboratory, before: Callable[[Laboratory, str], None]
) -> None:
    """Until it is done the entry is there; then exactly one end is recorded, and nothing of the mission is left."""
    for number in range(1, MOST_CHANGES):
        mission = f"m{number}"
        before(lab, mission)
        code = killed(lab, f"change:{number}", "cancel", mission, "--why", "no more")
        lab.run("cancel", mission, "--why", "no more")

        records = lab.records(mission)
        assert [record.outcome for record in records if record.state == "ended"] == [Outcome.CANCELLED]
        assert "no more" in records[-1].reason
        assert lab.entries() == []
        assert lab.names("inbox") == []
        assert lab.names("parked") == []
        if code == 0:
            break

    assert 5 < number < MOST_CHANGES
    assert lab.told() == []


def test_a_recorded_end_is_carried_out_instead_of_a_run(lab: Laboratory) -> None:
    """Killed between record and removal: the next turn takes the entry out, and whoever waits for it is parked."""
    lab.enqueue("m1")
    lab.run("enqueue", "after", "--after", "m1", "--", *lab.alone("after"))
    code = killed(lab, TAKING_OUT, "cancel", "m1")
    there = lab.names()
    lab.run("drain", code=None)

    assert code == -signal.SIGKILL
    assert [name for name in there if "-m1.json" in name]
    assert lab.told() == []
    assert lab.outcomes("m1") == ["cancelled"]
    assert "m1 was cancelled" in lab.run("why", "after").stdout


def test_a_batch_that_was_killed_is_completed_by_a_repeat(lab: Laboratory) -> None:
    """Some are out and some are not: the same pattern once more takes the rest out, and each has one end."""
    for number in range(6):
        lab.enqueue(f"m-{number}")
    code = killed(lab, "after:kranzq.disk.atomic:remove:3", "cancel", "m-*", "--yes")
    left = len(lab.entries())
    lab.run("cancel", "m-*", "--yes")

    assert code == -signal.SIGKILL
    assert 0 < left < 6
    assert lab.entries() == []
    assert [lab.outcomes(f"m-{number}") for number in range(6)] == [["cancelled"]] * 6


def half_cancelled(lab: Laboratory, *prepare: str) -> None:
    """An entry whose cancel was killed after its end was recorded."""
    lab.enqueue("m1")
    if prepare:
        lab.run(*prepare)
    assert killed(lab, TAKING_OUT, "cancel", "m1") == -signal.SIGKILL
    assert lab.outcomes("m1") == ["cancelled"]


@pytest.mark.parametrize(
    "verb", [("park", "m1"), ("unpark", "m1"), ("edit", "m1", "--priority", "0")], ids=lambda v: v[0]
)
def test_what_a_killed_cancel_has_ended_cannot_be_amended(lab: Laboratory, verb: tuple[str, ...]) -> None:
    """The recorded end is carried out first, and told: nothing is called parked or queued that would not run."""
    half_cancelled(lab, *(("park", "m1") if verb[0] == "unpark" else ()))
    done = lab.run(*verb, code=3)

    assert "cancelled" in done.stderr
    assert lab.entries() == []
    assert lab.outcomes("m1") == ["cancelled"]


@pytest.mark.parametrize("how", ["enqueue", "once", "retry", "inbox"])
def test_who_asks_for_it_again_after_a_killed_cancel_gets_a_new_entry(lab: Laboratory, how: str) -> None:
    """The entry that is cancelled does not pass for the one that is asked for now: that would be lost."""
    half_cancelled(lab)
    if how == "inbox":
        lab.run("trust", "--unsigned", "--yes")
        name = next(name for name in lab.names() if name.endswith(".json"))
        entry = json.loads((lab.queue / name).read_bytes())
        own = {name: value for name, value in entry["kranzq"].items() if name not in {"key", "mac"}} | {"id": "0" * 32}
        (lab.queue / "inbox" / "again").write_text(json.dumps({"missionId": "m1", "kranzq": own}))
        os.utime(lab.queue / "inbox" / "again", (1_700_000_000, 1_700_000_000))
    elif how == "retry":
        lab.run("retry", "m1")
    else:
        lab.run("enqueue", "m1", *(("--once",) if how == "once" else ()), "--", *lab.alone("m1"))
    lab.run("drain", code=None)
    queued = ["m1"] if how == "inbox" else []  # for a command that is not signed is not its own

    assert lab.told() == (["start m1", "end m1"] if how in {"enqueue", "retry"} else [])
    assert [name.split("-", 2)[2] for name in lab.entries()] == [f"{one}.json" for one in queued]
