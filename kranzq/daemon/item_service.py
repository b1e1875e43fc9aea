"""Whether the daemon listens for items: begun and ended with the settings, and never imported where none are served."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kranzq.daemon.wake import Wake
from kranzq.dispatch.parts import Parts

if TYPE_CHECKING:
    from kranzq.daemon.item_watch import ItemWatch


class ItemService:
    """The one that listens, while there is one."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake
        self._watch: ItemWatch | None = None

    def follow(self, parts: Parts) -> None:
        """Listen and sweep while these parts serve items, by their settings, and not otherwise."""
        self.stop()
        if parts.serves_items and parts.items is not None:
            from kranzq.daemon.item_watch import ItemWatch  # noqa: PLC0415 - only where items are served

            self._watch = ItemWatch(parts.items(), self._wake)
            self._watch.start()

    def stop(self) -> None:
        """Listen no more."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.stop()
