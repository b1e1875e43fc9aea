"""What the daemon's thread does when a work queue answers again."""

from __future__ import annotations

from typing import Any, cast

from kranzq.backend.items import WorkStore
from kranzq.daemon.item_watch import ItemWatch
from kranzq.daemon.wake import Wake
from kranzq.dispatch.items import Items, ItemSettings
from kranzq.leases.sweeper import Sweeper
from kranzq.model.claim import Holder
from kranzq.model.work import Recovered, WorkItem


class Store:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def entries(self, *_: object) -> list[WorkItem]:
        """A look."""
        self.asked.append("look")
        return []

    def grant_grace(self, _: float) -> None:
        """Time to renew."""
        self.asked.append("grace")

    def sweep(self) -> Recovered:
        """The sweep."""
        self.asked.append("sweep")
        return Recovered()


def test_after_an_outage_holders_get_time_to_renew_before_anything_lapses() -> None:
    """The question whether it answers sweeps nothing, and the sweep is the one that the wiring made."""
    store, now = Store(), [0.0]
    settings = ItemSettings(Holder("a checkout"), frozenset(), "sqlite:///x", 60.0, 10.0)
    items = Items(
        settings,
        cast("Any", None),
        lambda: cast("WorkStore", store),
        lambda kept: Sweeper(kept, period_s=10.0, monotonic=lambda: now[0], store_clock=lambda: now[0]),
    )
    watch = ItemWatch(items, Wake())
    sweeper = watch._opened()
    watch._sweep(sweeper)
    now[0] = 300.0
    items.leave_to_watch()  # it did not answer meanwhile
    watch._sweep(sweeper)

    assert store.asked == ["sweep", "look", "grace", "sweep"]
