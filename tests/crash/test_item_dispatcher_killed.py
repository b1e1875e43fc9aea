"""A dispatcher is killed between two steps of an item's turn, at each of them; another one comes after it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.model.item_policy import mission_of_item
from kranzq.model.work import ItemState
from tests.laboratory import PATIENCE, Laboratory, wait_for
from tests.scenes import kill_points
from tests.shop import Shop

pytestmark = [pytest.mark.crash, pytest.mark.slow]
STEPS = {
    "before the work queue is asked": "before:kranzq.dispatch.items:Items.claim:1",
    "after the work queue's claim": "after:kranzq.dispatch.items:Items.claim:1",
    "after a keeper was taken": "after:kranzq.runs.keepers:WarmKeepers.take:1",
    "after the run folder": "after:kranzq.runs.folders:Runs.new:1",
    "after state claiming": "after:kranzq.runs.folder:RunFolder.write:1",
    "after the payload": "after:kranzq.dispatch.item_launch:write_new:1",
    "after the records name the keeper": "after:kranzq.dispatch.hold:Holding.name_keeper:1",
    "after the claim's file": "after:kranzq.backends.file.backend:FileQueue.claim_item:1",
    "after the lease is kept": "after:kranzq.dispatch.item_leases:Leases.keep:1",
    "after prepare": "after:kranzq.dispatch.turn:launch.prepare:1",
    "after state starting": "after:kranzq.runs.folder:RunFolder.write:2",
    "before go": "before:kranzq.runs.keepers:Keeper.go:1",
    "after go": "after:kranzq.runs.keepers:Keeper.go:1",
    "after state running": "after:kranzq.runs.folder:RunFolder.write:3",
    "after the keeper's end": "after:kranzq.dispatch.watch_over:_Watch.until_end:1",
    "before the end is decided": "before:kranzq.dispatch.settle:_decided:1",
    "before state ended": "before:kranzq.runs.folder:RunFolder.write:4",
    "after state ended": "after:kranzq.runs.folder:RunFolder.write:4",
    "before the hand-in": "before:kranzq.dispatch.item_end:hand_in:1",
    "after the work queue was told": "after:kranzq.backends.sql.backend:SqlBackend.finish:1",
    "before the claim's file goes": "before:kranzq.backends.file.backend:FileQueue.end_item:1",
    "after the claim's file went": "after:kranzq.backends.file.backend:FileQueue.end_item:1",
    "before letting go": "before:kranzq.dispatch.hold:Holding.let_go:1",
    "after the unlock": "after:kranzq.busy.lock:Hold.unlock:1",
}

MAY_HAVE_BEGUN = ("after state starting", "before go")
"""There nobody can tell whether its keeper had the word: the attempt counts."""


@pytest.fixture
def shop(lab: Laboratory, isolated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A checkout that serves a SQLite work queue."""
    one = Shop(lab, f"sqlite://{isolated}/state/kranzq/work.db", monkeypatch)
    yield one
    one.store.close()


def dispatch_killed(lab: Laboratory, point: str, *verb: str) -> int:
    """Run a verb that is killed at `point`; its exit code."""
    return lab.killed(point, *verb)


@pytest.mark.parametrize("step", STEPS)
def test_a_dispatcher_killed_at_any_step_runs_an_item_once(shop: Shop, step: str) -> None:
    """Wherever it is killed, the next one runs the item if it has not run, and hands its end in."""
    item = shop.add("one", 0.1)
    killed = dispatch_killed(shop.lab, STEPS[step], "drain")
    shop.lab.run("drain")

    assert killed == -signal.SIGKILL, shop.lab.log()
    assert shop.lab.told() == ["start one", "end one"]
    assert shop.state(item) is ItemState.DONE
    assert shop.lab.outcomes(mission_of_item(item))[-1:] == ["succeeded"]
    given_back = "released" if step in MAY_HAVE_BEGUN else "declined"
    assert [one.ended for one in shop.store.attempts(item)][:-1] in ([], [given_back])
    assert shop.claims() == []
    shop.lab.assert_nothing_left()


@pytest.mark.parametrize(
    "step", ["after the work queue's claim", "after the claim's file", "after go", "before the hand-in"]
)
def test_a_daemon_killed_with_an_item_is_followed_by_one_that_needs_no_hand(shop: Shop, step: str) -> None:
    """The next daemon does the rest at once, without waiting for any lease."""
    item = shop.add("one", 0.1)
    killed = dispatch_killed(shop.lab, STEPS[step], "daemon")
    daemon = shop.lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "3600"})
    wait_for(lambda: shop.state(item) is ItemState.DONE and not shop.claims(), "it is done")
    shop.lab.run("stop")

    assert killed == -signal.SIGKILL, shop.lab.log()
    assert daemon.wait(PATIENCE) == 0
    assert shop.lab.told() == ["start one", "end one"]
    shop.lab.assert_nothing_left()


@pytest.mark.parametrize("first", range(1, 5))
def test_a_dispatcher_killed_before_any_change_of_the_disk_loses_no_item(
    first: int, checkout: Path, tmp_path: Path, isolated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever change of a name or a content is the first that does not happen, the next dispatcher mends it."""
    for number in kill_points(first, 200, 4):
        folder = tmp_path / str(number)
        folder.mkdir()
        checkout.rename(folder / "checkout")
        checkout = folder / "checkout"
        with Laboratory(checkout) as lab:
            shop = Shop(lab, f"sqlite://{isolated}/state/kranzq/{number}.db", monkeypatch)
            item = shop.add("one")
            killed = dispatch_killed(lab, f"change:{number}", "drain")
            lab.run("drain")

            assert lab.told() == ["start one", "end one"], f"change {number}"
            assert shop.state(item) is ItemState.DONE, f"change {number}"
            assert shop.claims() == []
            assert killed in {0, -signal.SIGKILL}
            lab.assert_nothing_left()
            shop.store.close()
            (checkout / ".kranz").rename(folder / "kranz")
        if killed == 0:
            break
    assert number > 30
