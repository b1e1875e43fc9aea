"""What the work queue is told of each end, and that it may be told again by whoever comes after a kill."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backend.items import WorkStore
from kranzq.backends.sql.opening import open_store
from kranzq.dispatch.item_end import _settle
from kranzq.errors import ItemLost
from kranzq.model.claim import Holder
from kranzq.model.item_run import ItemOfRun
from kranzq.model.outcome import Ending, Fate, NotStarted, Outcome, Park, Retire, Return, Wait
from kranzq.model.work import ItemState, NewItem

HOLDER = Holder("kranzq@host:/r", uid="checkout:ab")
FAR = Wait(4_000_000_000_000)
NEVER = Wait(0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WorkStore]:
    """A work queue with one item that is held."""
    with open_store(f"sqlite://{tmp_path}/work.db") as one:
        yield one


@pytest.fixture
def item(store: WorkStore) -> ItemOfRun:
    """That item, as a run's record has it."""
    store.enqueue(NewItem("title", "payload", kind="mission", max_attempts=2))
    claim = store.claim(HOLDER)
    assert claim is not None
    return ItemOfRun(claim.id, claim.attempt, HOLDER.name, HOLDER.uid, "sqlite:///w")


@pytest.mark.parametrize(
    ("ending", "fate", "state", "ended", "result"),
    [
        (Ending(Outcome.SUCCEEDED), Retire(), ItemState.DONE, "done", "tail"),
        (Ending(Outcome.FAILED, "exit code 3"), Retire(), ItemState.FAILED, "failed", "failed: exit code 3\n\ntail"),
        (Ending(Outcome.TIMED_OUT, "Too long."), Retire(), ItemState.FAILED, "failed", "timed out: Too long.\n\ntail"),
        (Ending(Outcome.DEFERRED, "later"), FAR, ItemState.DELAYED, "declined", "later"),
        (Ending(Outcome.DEFERRED, "later"), NEVER, ItemState.OPEN, "declined", "later"),
        (Ending(Outcome.DEFERRED), Park("deferred too long"), ItemState.FAILED, "failed", "deferred too long\n\ntail"),
        (Ending(Outcome.INTERRUPTED, "killed"), Return(), ItemState.OPEN, "released", "killed"),
        (Ending(Outcome.INTERRUPTED, "asked", counted=False), Return(), ItemState.OPEN, "declined", "asked"),
        (Ending(Outcome.NEVER_BEGAN, counted=False), Return(), ItemState.OPEN, "declined", "never began"),
        (
            Ending(Outcome.NOT_STARTED, "no disk", not_started=NotStarted.ENVIRONMENT, counted=False),
            FAR,
            ItemState.DELAYED,
            "declined",
            "no disk",
        ),
    ],
)
def test_each_end_is_told_once_however_often_it_is_told(
    store: WorkStore, item: ItemOfRun, ending: Ending, fate: Fate, state: ItemState, ended: str, result: str
) -> None:
    """The second time is a success that changes nothing."""
    _settle(store, item, ending, fate, "tail", "")
    _settle(store, item, ending, fate, "tail", "")
    found = store.show(item.id)

    assert (found.state, found.result) == (state, result)
    assert [one.ended for one in store.attempts(item.id)] == [ended]


def test_a_cancelled_run_cancels_its_item(store: WorkStore, item: ItemOfRun) -> None:
    """With the reason of whoever wished it. The second time is a success that changes nothing."""
    for _ in range(2):
        _settle(store, item, Ending(Outcome.CANCELLED, cancel_wished=True), Retire(), "tail", "not wanted")

    assert store.show(item.id).state is ItemState.CANCELLED
    assert store.show(item.id).result == "not wanted"


def test_a_run_that_was_cancelled_for_its_lost_lease_cancels_nothing(store: WorkStore, item: ItemOfRun) -> None:
    """The item is another's by then, whatever the record of the run says."""
    _settle(store, item, Ending(Outcome.INTERRUPTED), Return(), "tail", "")
    other = store.claim(Holder("another", uid="another"))

    with pytest.raises(ItemLost):
        _settle(store, item, Ending(Outcome.CANCELLED, cancel_wished=True), Retire(), "tail", "lost")

    assert other is not None
    assert store.show(item.id).state is ItemState.CLAIMED


def test_an_item_whose_attempts_are_used_up_is_failed_by_the_work_queue(store: WorkStore, item: ItemOfRun) -> None:
    """An interruption counts; the second of two is the last."""
    _settle(store, item, Ending(Outcome.INTERRUPTED, "killed"), Return(), "tail", "")
    again = store.claim(HOLDER)
    assert again is not None
    second = ItemOfRun(item.id, again.attempt, item.holder, item.holder_uid, item.url)
    _settle(store, second, Ending(Outcome.INTERRUPTED, "killed"), Return(), "tail", "")

    assert store.show(item.id).state is ItemState.FAILED
