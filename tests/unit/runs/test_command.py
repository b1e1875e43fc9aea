"""What the command of an item is told, and that nothing of it is passed on."""

from __future__ import annotations

from kranzq.model.claim import Holder
from kranzq.model.work import ItemClaim, ItemState, Target, WorkItem
from kranzq.runs.command import OF_AN_ITEM, marks_of_item, mission_environment


def test_what_an_item_is_told_is_not_passed_on() -> None:
    """A command that dispatches missions itself does not tell them of its own item."""
    item = WorkItem(
        "one", 1, "t", "p", "k", Target(), 0, ItemState.CLAIMED, "me", "", 1, 2, 0, 3, "you", "", 1, 1, None, ""
    )
    told = marks_of_item(ItemClaim("one", 2, Holder("me"), item), "/run/payload")

    assert told == {
        "KRANZ_ITEM_ID": "one",
        "KRANZ_ITEM_ATTEMPT": "2",
        "KRANZ_ITEM_TITLE": "t",
        "KRANZ_ITEM_KIND": "k",
        "KRANZ_ITEM_PAYLOAD": "/run/payload",
    }
    assert told.keys() == OF_AN_ITEM
    assert mission_environment(told) == {}
