"""Leases on SQLite count on the boot clock of the one host: what sets its wall clock neither ends nor lengthens one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.model.claim import Holder
from kranzq.model.work import ItemState, NewItem
from tests.item_stores import SqliteItems

ME, ANOTHER = Holder("me"), Holder("another")
LEASE_MS = 60_000


@pytest.fixture
def items(tmp_path: Path) -> Iterator[SqliteItems]:
    """A file, and clocks that move when they are told to."""
    one = SqliteItems(tmp_path / "work.db")
    yield one
    one.close()


@pytest.mark.parametrize("seconds", [300.0, 86_400.0 * 365, -300.0, -86_400.0 * 365])
def test_a15_a_step_of_the_wall_clock_ends_no_lease(items: SqliteItems, seconds: float) -> None:
    """Forward: the living keep theirs. Back: the dead do not hold on."""
    store = items.open()
    store.enqueue(NewItem("title", "payload", id="one"))
    claim = store.claim(ME, lease_ms=LEASE_MS)
    assert claim is not None
    items.clock.step(seconds)

    assert not store.sweep()
    assert store.claim(ANOTHER) is None
    store.heartbeat(claim, LEASE_MS)
    items.clock.advance(61)
    assert store.sweep().lapsed == ("one",)
    assert store.claim(ANOTHER) is not None


def test_leases_of_another_boot_are_over(items: SqliteItems) -> None:
    """Nothing of an earlier boot lives, whatever its clock said: they need no waiting for."""
    store = items.open()
    store.enqueue(NewItem("title", "payload", id="one"))
    store.claim(ME, lease_ms=LEASE_MS)
    items.boot = "another boot"

    assert items.open().sweep().lapsed == ("one",)
    assert store.show("one").state is ItemState.LAPSED


def test_grace_is_of_one_boot(items: SqliteItems) -> None:
    """Holders that slept may renew; those of an earlier boot cannot."""
    store = items.open()
    store.enqueue(NewItem("title", "payload", id="one"))
    store.claim(ME, lease_ms=LEASE_MS)
    items.clock.advance(600)
    store.grant_grace(60)
    assert not store.sweep()
    items.boot = "another boot"

    assert items.open().sweep().lapsed == ("one",)
