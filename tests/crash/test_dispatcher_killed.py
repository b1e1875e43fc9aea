"""A dispatcher is killed between two steps of a turn, at each of them; another one comes after it."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.laboratory import PATIENCE, Laboratory, wait_for
from tests.scenes import kill_points

pytestmark = [pytest.mark.crash, pytest.mark.slow]
STEPS = {
    "before the kernel locks": "before:kranzq.busy.lock:BusyLock.try_hold:1",
    "after the kernel locks": "after:kranzq.busy.lock:BusyLock.try_hold:1",
    "after kranz's lock": "after:kranzq.busy.foreign:KranzLock.take:1",
    "after the hold": "after:kranzq.dispatch.turn:take_hold:1",
    "after choose": "after:kranzq.dispatch.turn:choose:1",
    "after a keeper was taken": "after:kranzq.runs.keepers:WarmKeepers.take:1",
    "after the run folder": "after:kranzq.runs.folders:Runs.new:1",
    "after state claiming": "after:kranzq.runs.folder:RunFolder.write:1",
    "after the records name the keeper": "after:kranzq.dispatch.hold:Holding.name_keeper:1",
    "after the touch": "after:os:utime:1",
    "after the claim's rename": "after:kranzq.backends.file.claims:atomic.move:1",
    "after the claim": "after:kranzq.dispatch.turn:launch.claim:1",
    "after prepare": "after:kranzq.dispatch.turn:launch.prepare:1",
    "after state starting": "after:kranzq.runs.folder:RunFolder.write:2",
    "before go": "before:kranzq.runs.keepers:Keeper.go:1",
    "after go": "after:kranzq.runs.keepers:Keeper.go:1",
    "after the start was heard": "before:kranzq.dispatch.watch_over:_Watch._started:1",
    "after state running": "after:kranzq.runs.folder:RunFolder.write:3",
    "after the keeper's end": "after:kranzq.dispatch.watch_over:_Watch.until_end:1",
    "after the keeper was reaped": "after:kranzq.runs.keepers:Keeper.reap:1",
    "before the end is decided": "before:kranzq.dispatch.settle:_decided:1",
    "before state ended": "before:kranzq.runs.folder:RunFolder.write:4",
    "after state ended": "after:kranzq.runs.folder:RunFolder.write:4",
    "after the fate was carried out": "after:kranzq.backends.file.backend:FileQueue.carry_out:1",
    "before letting go": "before:kranzq.dispatch.hold:Holding.let_go:1",
    "after the busy record's removal": "after:kranzq.busy.record:remove:1",
    "after kranz's lock was removed": "after:kranzq.busy.foreign:KranzLock.let_go:1",
    "before the unlock": "before:kranzq.busy.lock:Hold.unlock:1",
    "after the unlock": "after:kranzq.busy.lock:Hold.unlock:1",
}
SELDOM = {"KRANZQ_DAEMON_SCAN_SECONDS": "3600"}
"""Who waited for its next look would wait for an hour."""


def dispatch_killed(lab: Laboratory, point: str, *verb: str) -> int:
    """Run a verb that is killed at `point`; its exit code."""
    return lab.killed(point, *(verb or ("drain",)))


@pytest.mark.parametrize("step", STEPS)
def test_a_dispatcher_killed_at_any_step_loses_nothing_and_runs_nothing_twice(lab: Laboratory, step: str) -> None:
    """Wherever a dispatcher is killed, the next one runs each mission once and leaves the checkout free."""
    lab.enqueue("m1", *lab.alone("m1", 0.1))
    lab.enqueue("m2")
    killed = dispatch_killed(lab, STEPS[step])
    lab.run("drain")

    assert killed == -signal.SIGKILL, lab.log()
    assert lab.told() == ["start m1", "end m1", "start m2", "end m2"]
    assert lab.outcomes("m1")[-1:] == lab.outcomes("m2") == ["succeeded"]
    lab.assert_nothing_left()


@pytest.mark.parametrize("step", STEPS)
def test_a_daemon_killed_at_any_step_is_followed_by_one_that_needs_no_hand(lab: Laboratory, step: str) -> None:
    """Wherever a daemon with a warm keeper is killed, the next daemon does the rest at once."""
    lab.enqueue("m1", *lab.alone("m1", 0.1))
    lab.enqueue("m2")
    killed = dispatch_killed(lab, STEPS[step], "daemon")
    daemon = lab.daemon(env=SELDOM)
    wait_for(lambda: lab.count("end", "m2") and not lab.entries(), "both missions are settled")
    lab.run("stop")

    assert killed == -signal.SIGKILL, lab.log()
    assert daemon.wait(PATIENCE) == 0
    assert lab.told() == ["start m1", "end m1", "start m2", "end m2"]
    lab.assert_nothing_left()


def test_a_dispatcher_killed_before_any_change_of_the_disk_loses_nothing(checkout: Path, tmp_path: Path) -> None:
    """Whichever change of a name or a content is the first that does not happen, the next dispatcher mends it."""
    for number in kill_points(1, 200):
        folder = tmp_path / str(number)
        folder.mkdir()
        checkout.rename(folder / "checkout")
        checkout = folder / "checkout"
        with Laboratory(checkout) as lab:
            lab.enqueue("m1")
            killed = dispatch_killed(lab, f"change:{number}")
            lab.run("drain")

            assert lab.told() == ["start m1", "end m1"], f"change {number}"
            assert killed in {0, -signal.SIGKILL}
            lab.assert_nothing_left()
            (checkout / ".kranz").rename(folder / "kranz")
        if killed == 0:
            break
    assert number > 30
