"""Where a turn touches items: nothing of it is imported or asked while the checkout serves none.

The steps are those of missions; here stands only whether the work queue is asked, and that what runs is renewed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kranzq.dispatch.hold import Holding
    from kranzq.dispatch.launch import Try
    from kranzq.dispatch.parts import OpenQueue, Parts


def is_worth_asking(parts: Parts) -> bool:
    """Whether a turn should take the busy lock to ask for an item."""
    return parts.serves_items and parts.items is not None and parts.items().is_worth_asking()


def adopt(parts: Parts, queue: OpenQueue) -> None:
    """Renew the leases of items that run here, whoever started them."""
    if parts.serves_items and parts.items is not None:
        parts.items().leases.adopt(parts, queue)


def begin(parts: Parts, queue: OpenQueue, holding: Holding) -> Try | None:
    """With the busy lock in hand: give back what never began, then take an item up to its claim; None without one."""
    if not parts.serves_items or parts.items is None:
        return None
    from kranzq.dispatch import item_launch, item_strays  # noqa: PLC0415 - only where items are served

    items = parts.items()
    item_strays.give_back_strays(parts, queue, items)
    return item_launch.begin(parts, queue, holding, items) if items.is_worth_asking() else None
