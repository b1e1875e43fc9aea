"""A cancel is killed before each change of the disk: nothing is lost, nothing runs by halves, a repeat completes it."""

from __future__ import annotations

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
    code = killed(lab, "before:kranzq.backends.file.withdrawing:Withdrawing.take_out:1", "cancel", "m1")
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
