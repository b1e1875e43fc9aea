"""Snapshots: no change falls between what is counted and the place from which one reads on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq import work
from kranzq.backend.presence import SharedStore
from kranzq.server.event_log import EventLog
from kranzq.server.service import Service
from kranzq.server.snapshots import Snapshot, Snapshots


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SharedStore]:
    """An empty store."""
    with work.open(f"sqlite://{tmp_path}/work.db") as found:
        yield found


def taken(store: SharedStore, log: EventLog, *at_least: int) -> list[Snapshot]:
    """The snapshots of readers behind these places, who ask at once."""

    async def take() -> list[Snapshot]:
        service = Service(store, {}, "/")
        snapshots = Snapshots(service, log, None)
        found = await asyncio.gather(*(snapshots.take(place) for place in at_least))
        service.pool.close()
        return found

    return asyncio.run(take())


def test_what_happens_while_it_counts_is_told_again(store: SharedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is from before the counting: a change that may be missing in the counts comes behind it."""
    log, count = EventLog("0a"), store.stats

    def stats() -> work.Stats:
        found = count()
        log.add("item", {})
        return found

    monkeypatch.setattr(store, "stats", stats)

    (snapshot,) = taken(store, log, 0)

    assert snapshot.place == 0
    assert len(log.after(snapshot.place, 10)) == 1


def test_who_asks_while_one_is_taken_shares_the_next(store: SharedStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred that come at once cost two; and nobody is told of a time before it asked."""
    counted, count = list[work.Stats](), store.stats

    def stats() -> work.Stats:
        counted.append(count())
        return counted[-1]

    monkeypatch.setattr(store, "stats", stats)

    first, *others = taken(store, EventLog("0a"), *[0] * 200)

    assert len(counted) <= 3
    assert all(one.taken >= first.taken for one in others)


def test_a_place_that_is_not_far_enough_is_not_shared(store: SharedStore) -> None:
    """A reader goes on from its snapshot, and never back."""
    log = EventLog("0a")
    for _ in range(3):
        log.add("item", {})

    assert [one.place for one in taken(store, log, 3, 0)] == [3, 3]
