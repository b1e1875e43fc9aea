"""Items that are this checkout's by the work queue's word alone: their dispatcher died between its claim and its file.

Only with the busy lock in hand, for then no other dispatcher of this checkout is just between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kranzq.dispatch.settle import settle_without_claim
from kranzq.errors import ClaimLost, KranzqError, NotFound
from kranzq.model.item_policy import mission_of_item
from kranzq.model.work import Held, ItemState
from kranzq.runs.folders import Runs

if TYPE_CHECKING:
    from kranzq.backend.items import WorkStore
    from kranzq.dispatch.items import Items
    from kranzq.dispatch.parts import OpenQueue, Parts
    from kranzq.model.work import WorkItem

_AT_ONCE = 50
NEVER_BEGAN = "its dispatcher ended before it had begun"


def give_back_strays(parts: Parts, queue: OpenQueue, items: Items) -> None:
    """Give back what never began; hand in what has a record of its run after all, whose file was removed."""
    if not items.compare_due():
        return
    uid = items.settings.holder.uid
    try:
        for one in items.ask(lambda store: _held_by(store, uid)):
            _look_at(parts, queue, items, one)
    except KranzqError:
        items.compare_again()


def _held_by(store: WorkStore, uid: str) -> list[WorkItem]:
    """The items of a holder, read a page at a time: those of others may be many, with a megabyte each."""
    found: list[WorkItem] = []
    for state in (ItemState.CLAIMED, ItemState.LAPSED):
        cursor: str | None = None
        while True:
            page = store.page(state.value, limit=_AT_ONCE, cursor=cursor)
            found += [one for one in page.items if one.claimed_by_uid == uid]
            if (cursor := page.cursor) is None:
                break
    return found


def _look_at(parts: Parts, queue: OpenQueue, items: Items, one: WorkItem) -> None:
    mission = mission_of_item(one.id)
    if any(place.is_item for place in queue.places(mission)):
        return
    runs = Runs(parts.checkout, queue.kranz_fd)
    for record in runs.records(mission):
        if record.item is not None and (record.item.id, record.item.attempt) == (one.id, one.attempts):
            settle_without_claim(parts, queue, runs, record)
            return
    held = Held(one.id, one.attempts, items.settings.holder)
    try:
        items.ask(lambda store: store.release(held, NEVER_BEGAN, declined=True))
    except (ClaimLost, NotFound):
        pass  # it has moved on meanwhile
