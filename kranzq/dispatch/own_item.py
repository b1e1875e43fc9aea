"""Is the item that this process works on still its own? The other half of `kranzq guard`; changes nothing.

The attempt is the fence: an item that another has claimed since bears a higher one. A lease that is over protects
nothing, though a heartbeat may still bring it back.
"""

from __future__ import annotations

from collections.abc import Mapping

from kranzq.dispatch.inside import OF_AN_ITEM
from kranzq.errors import CannotTell, ItemLost, LeaseOver
from kranzq.model.frozen import frozen
from kranzq.model.work import ItemState, WorkItem

_MOST_DIGITS = 9


@frozen
class ItemMarks:
    """Which item, and under which attempt it was claimed."""

    id: str
    attempt: int


def item_marks_in(environ: Mapping[str, str]) -> ItemMarks:
    """The marks of the item. Raises CannotTell where one of them is missing or no number."""
    name, attempt = (environ.get(each, "") for each in OF_AN_ITEM)
    if not name or not (attempt.isascii() and attempt.isdigit() and len(attempt) <= _MOST_DIGITS):
        advice = "Let whatever starts git hand both on: KRANZ_ITEM_ID, KRANZ_ITEM_ATTEMPT"
        raise CannotTell(f"item {name or '?'}", "its environment has lost a mark of its item", advice)
    return ItemMarks(name, int(attempt))


def check_own_item(item: WorkItem, attempt: int, now_ms: int | None) -> None:
    """Whether the item is still its own. `now_ms` is the store's wall clock, None where the store itself sweeps.

    One that was completed under this attempt is: nobody else will get it. Raises ItemLost, LeaseOver.
    """
    if item.attempts != attempt:
        raise ItemLost(item.id, attempt, f"{item.state.value}, in attempt {item.attempts}")
    match item.state:
        case ItemState.DONE:
            return
        case ItemState.CANCELLED:
            raise ItemLost(item.id, attempt, item.state.value, "")
        case ItemState.LAPSED:
            raise LeaseOver(item.id, attempt)
        case ItemState.CLAIMED:
            if now_ms is not None and item.claim_expires is not None and item.claim_expires <= now_ms:
                raise LeaseOver(item.id, attempt)
        case _:
            raise ItemLost(item.id, attempt, item.state.value)
