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
    """The snapshots that are taken one after the other, each for a reader behind that place."""

    async def take() -> list[Snapshot]:
        service = Service(store, {}, "/")
        snapshots = Snapshots(service, log, None)
        found = []
        for place in at_least:
            found.append(await snapshots.take(place))
            log.add("item", {})
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
    assert len(log.after(snapshot.place, 10)) == 2


def test_one_snapshot_serves_all_who_ask_at_once_and_nobody_who_is_further(store: SharedStore) -> None:
    """A new one is taken for a reader that has read on since."""
    first, same, later = taken(store, EventLog("0a"), 0, 0, 2)

    assert same is first
    assert later.place == 2


def test_a_snapshot_whose_events_are_gone_is_taken_anew(store: SharedStore) -> None:
    """From its place nobody could read on."""
    found = taken(store, EventLog("0a", 2), 0, 0, 0, 0)

    assert [one.place for one in found] == [0, 0, 0, 3]
