"""An enqueuing process is killed before each change of the disk, and the hook that called it calls it again."""

from __future__ import annotations

import signal

import pytest

from tests.laboratory import Laboratory

pytestmark = [pytest.mark.crash, pytest.mark.slow]
STEPS = {
    "after the temporary file": "after:kranzq.disk.atomic:write_new:1",
    "after kranz's lock": "after:kranzq.backends.file.change:_create:1",
    "after the number": "after:kranzq.backends.file.sequence:record:1",
    "after its name": "after:kranzq.disk.atomic:appear:2",
    "after the entry": "after:kranzq.disk.atomic:publish:1",
    "after all": "after:kranzq.backends.file.enqueueing:enqueue:1",
}


def enqueue_killed(lab: Laboratory, point: str, mission: str) -> int:
    """Enqueue by the real verb in a process that is killed at a point; its exit code."""
    return lab.killed(point, "enqueue", mission, "--", *lab.alone(mission))


@pytest.mark.parametrize("step", STEPS)
def test_an_enqueue_killed_at_any_step_can_be_repeated(lab: Laboratory, step: str) -> None:
    """After a repeat the mission is queued once, and it runs once."""
    killed = enqueue_killed(lab, STEPS[step], "m1")
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    lab.run("enqueue", "m2", "--", *lab.alone("m2"))
    numbers = [name.split("-")[1] for name in lab.entries()]
    lab.run("drain")

    assert killed == -signal.SIGKILL, lab.log()
    assert len(set(numbers)) == len(numbers) == 2
    assert lab.told() == ["start m1", "end m1", "start m2", "end m2"]
    lab.assert_nothing_left()


def test_enqueues_killed_before_every_change_of_the_disk_leave_all_or_nothing(lab: Laboratory) -> None:
    """Each mission is there once after its repeat, with a number of its own, whatever others left behind."""
    for number in range(1, 200):
        killed = enqueue_killed(lab, f"change:{number}", f"m{number}")
        there = [name for name in lab.entries() if name.endswith(f"-m{number}.json")]
        lab.run("enqueue", f"m{number}", "--", *lab.alone(f"m{number}"))

        assert len(there) <= 1
        if killed == 0:
            break
    entries = lab.entries()
    lab.run("drain", seconds=120)

    assert len({name.split("-")[1] for name in entries}) == len(entries) == number > 10
    assert sorted(lab.told()) == sorted(
        [*(f"start m{one + 1}" for one in range(number)), *(f"end m{one + 1}" for one in range(number))]
    )
    lab.assert_nothing_left()
