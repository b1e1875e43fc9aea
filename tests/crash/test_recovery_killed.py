"""Whoever recovers is killed, too, at each step of recovery; the third one finds everything where it belongs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kranzq.dispatch import aftermath
from kranzq.model.outcome import Outcome
from kranzq.model.tree import Tree
from kranzq.runs.tree import look_at_tree
from kranzq.wiring import checkouts, dispatching
from tests.laboratory import Laboratory, is_alive, wait_for
from tests.scenes import kill_points

pytestmark = [pytest.mark.crash, pytest.mark.slow]
FIRST = {  # where the first dispatcher dies, whether the keeper is killed too, how often the mission starts
    "a claim of a try that never began": ("after:kranzq.dispatch.turn:launch.claim:1", False, 1),
    "an end that nobody settled": ("before:kranzq.dispatch.settle:_decided:1", False, 1),
    "a fate that nobody carried out": ("after:kranzq.runs.folder:RunFolder.write:4", False, 1),
    "a mission whose keeper was killed": ("after:kranzq.runs.folder:RunFolder.write:3", True, 2),
}
SECOND = {
    "after the kernel locks": "after:kranzq.busy.lock:BusyLock.try_hold:1",
    "after kranz's dead lock was set aside": "after:kranzq.busy.foreign:KranzLock._move_aside:1",
    "after kranz's lock": "after:kranzq.busy.foreign:KranzLock.take:1",
    "after leftovers were ended": "after:kranzq.dispatch.hold:end_all_leftovers:1",
    "after the verdict": "after:kranzq.dispatch.recover:judge_holder:1",
    "before settling": "before:kranzq.dispatch.recover:settle:1",
    "before the end is decided": "before:kranzq.dispatch.settle:decide:1",
    "before the fate is carried out": "before:kranzq.backends.file.backend:FileQueue.carry_out:1",
    "after the fate was carried out": "after:kranzq.backends.file.backend:FileQueue.carry_out:1",
    "after settling": "after:kranzq.dispatch.recover:settle:1",
    "after recovery": "after:kranzq.dispatch.recover:Recovery.recover:1",
}


def killed_at(lab: Laboratory, point: str, verb: str) -> int:
    """Run a verb that is killed at a point; its exit code."""
    return lab.killed(point, verb)


def crash(lab: Laboratory, first: str) -> None:
    """Leave the first crash behind, with two missions in the queue."""
    point, with_keeper, _ = FIRST[first]
    lab.enqueue("m1", *lab.alone("m1", 60 if with_keeper else 0.02))
    lab.enqueue("m2")
    assert killed_at(lab, point, "drain") == -signal.SIGKILL
    if with_keeper:
        wait_for(lambda: lab.count("start", "m1"), "the mission runs")
        keeper = lab.keeper("m1")
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: not is_alive(keeper), "the keeper is gone")
        lab.release()


@pytest.mark.parametrize("verb", ["drain", "recover"])
@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", FIRST)
def test_a_recovery_killed_at_any_step_is_repeated(lab: Laboratory, first: str, second: str, verb: str) -> None:
    """A crash in the middle of mending another crash loses nothing and runs nothing twice."""
    crash(lab, first)
    killed = killed_at(lab, SECOND[second], verb)
    lab.run("drain")

    assert killed in {0, -signal.SIGKILL}, lab.log()
    assert lab.count("start", "m1") == FIRST[first][2]
    assert lab.count("start", "m2") == 1
    assert lab.outcomes("m1")[-1] == lab.outcomes("m2")[-1] == "succeeded"
    lab.assert_nothing_left()


@pytest.mark.parametrize("first", FIRST)
def test_a_recovery_killed_before_any_change_of_the_disk_is_repeated(
    checkout: Path, tmp_path: Path, first: str
) -> None:
    """Whichever change of the disk is the first that recovery could not make, the next one makes it."""
    for number in kill_points(1, 100):
        folder = tmp_path / str(number)
        folder.mkdir()
        checkout.rename(folder / "checkout")
        checkout = folder / "checkout"
        with Laboratory(checkout) as lab:
            crash(lab, first)
            killed = killed_at(lab, f"change:{number}", "recover")
            lab.run("drain")

            assert lab.count("start", "m1") == FIRST[first][2], f"change {number}"
            assert lab.count("start", "m2") == 1
            lab.assert_nothing_left()
            (checkout / ".kranz").rename(folder / "kranz")
        if killed == 0:
            return
    pytest.fail("recovery never came to its end")


def test_an_end_that_another_recorded_meanwhile_is_not_written_over(
    lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look at the tree takes long, so nobody holds the lock then: a second recovery settles the run before we do."""
    crash(lab, "a mission whose keeper was killed")

    def long_look(root: str, lock: str | None) -> Tree | None:
        lab.run("recover", "--yes")
        return look_at_tree(root, lock)

    monkeypatch.setattr(aftermath, "look_at_tree", long_look)
    dispatching.recover(checkouts.find_checkout(str(lab.root), os.environ), os.environ)

    [record] = lab.records("m1")
    assert (record.state, record.outcome) == ("ended", Outcome.INTERRUPTED)
    assert record.tree is not None
