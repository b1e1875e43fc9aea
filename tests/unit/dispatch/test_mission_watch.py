"""What missions have become is seen by names alone, whoever moved them, and once each."""

from __future__ import annotations

from pathlib import Path

import pytest

from kranzq import queue as library
from kranzq.backend.watching import Seen
from kranzq.dispatch import mission_watch
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome, Park, Wait
from kranzq.runs.folders import Runs
from kranzq.wiring.watching import mission_watch as watch_of
from tests.factories import enqueue, kranz_entry, make_queue


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout without git, with a queue."""
    make_queue(tmp_path).close()
    return tmp_path


@pytest.fixture
def watch(root: Path) -> mission_watch.MissionWatch:
    """A watch that has looked once."""
    found = watch_of(Checkout(str(root), has_git=False))
    assert isinstance(found, mission_watch.MissionWatch)
    assert found.look() == Seen()
    return found


def told(watch: mission_watch.MissionWatch) -> list[tuple[object, ...]]:
    """The missions of one look, each with its state, last run and outcome; the next look tells nothing more."""
    seen = watch.look().changes
    assert watch.look() == Seen()
    return [(one["mission"], one["state"], one.get("run"), one.get("outcome")) for one in seen]


def test_the_way_of_a_mission_is_seen(root: Path, watch: mission_watch.MissionWatch) -> None:
    """Queued, claimed, put back, claimed again, ended: each of them once, and the end with its outcome."""
    repo = Checkout(str(root), has_git=False)
    library.enqueue(repo, "one")
    assert told(watch) == [("one", "queued", None, None)]

    claim = library.claim_front(repo)
    assert claim is not None
    assert told(watch)[0][:2] == ("one", "claimed")

    library.release_claim(claim)
    assert told(watch)[0][:2] == ("one", "queued")

    again = library.claim_front(repo)
    assert again is not None
    told(watch)
    library.finish_claim(again, Outcome.FAILED)
    assert told(watch) == [("one", "gone", 2, "failed")]


def test_waiting_parked_and_dropped_ones_are_seen(root: Path, watch: mission_watch.MissionWatch) -> None:
    """The folders inside the queue count, too; a parked one comes with its reason."""
    with make_queue(root) as queue:
        for mission in ("waits", "parked"):
            enqueue(queue, mission)
        with queue.change():
            waits, parked = sorted(queue.places(), key=lambda one: one.mission, reverse=True)
            queue.carry_out(waits, Wait(4_000_000_000_000))
            queue.carry_out(parked, Park("by hand"))
    (root / ".kranz/queue/inbox").mkdir(exist_ok=True)
    (root / ".kranz/queue/inbox/dropped.json").write_bytes(kranz_entry("dropped"))

    seen = {str(one["mission"]): one for one in watch.look().changes}

    assert {name: one["state"] for name, one in seen.items()} == {
        "waits": "waiting",
        "parked": "parked",
        "dropped": "inbox",
    }
    assert seen["parked"]["why"] == "by hand"
    assert seen["waits"]["due"] is not None


def test_what_is_quarantined_is_seen_with_its_reason(root: Path, watch: mission_watch.MissionWatch) -> None:
    """It is told by its file's name; whose it would have been where the name tells. Its place in the queue is empty."""
    with make_queue(root) as queue:
        enqueue(queue, "bad")
        watch.look()
        queue.quarantine(queue.places()[0], "it cannot be read")

    gone, seen = watch.look().changes

    assert (gone["mission"], gone["state"]) == ("bad", "gone")
    assert (seen["mission"], seen["state"], seen["why"]) == ("bad", "quarantined", "it cannot be read")
    assert "bad.json" in str(seen["file"])


def test_a_mission_that_came_and_went_between_two_looks_is_seen(root: Path, watch: mission_watch.MissionWatch) -> None:
    """Nothing of it lies in the queue any more, but its run tells; also when it had run before."""
    repo = Checkout(str(root), has_git=False)
    for run in (1, 2):
        library.enqueue(repo, "quick")
        claim = library.claim_front(repo)
        assert claim is not None
        library.finish_claim(claim)

        assert told(watch) == [("quick", "gone", run, "succeeded")]


def test_runs_that_are_cleared_away_are_no_news(root: Path, watch: mission_watch.MissionWatch) -> None:
    """Retention removes run folders without any mission becoming another thing."""
    repo = Checkout(str(root), has_git=False)
    for _ in range(2):
        library.enqueue(repo, "one")
        claim = library.claim_front(repo)
        assert claim is not None
        library.finish_claim(claim)
    watch.look()
    with make_queue(root) as queue:
        folder = Runs(repo, queue.kranz_fd).open(MissionId("one"), 1)
        assert folder is not None
        with folder:
            folder.discard()

    assert told(watch) == []


def test_a_look_at_what_did_not_change_opens_nothing(
    root: Path, watch: mission_watch.MissionWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever listens all day costs a few looks at times, however large the queue is."""
    with make_queue(root) as queue:
        enqueue(queue, "one")
    watch.look()
    watch.look()
    monkeypatch.setattr(watch, "_open_look", None)

    assert watch.look() == Seen()


def test_a_queue_that_comes_later_is_seen(tmp_path: Path) -> None:
    """A server may run before the first mission."""
    checkout = Checkout(str(tmp_path), has_git=False)
    watch = watch_of(checkout)
    assert watch.look() == Seen()

    library.enqueue(checkout, "first")

    assert [one["mission"] for one in watch.look().changes] == ["first"]
