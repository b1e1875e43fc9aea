"""Claims on items of the work queue: files beside the claims on entries, under names that kranz leaves alone.

What was claimed lies in the work queue, so such a file is no entry: it is made when the item is ours there and removed
when its end was handed in, and never moved.
"""

from __future__ import annotations

import contextlib
import os

from kranzq.backends.file.entries import item_place
from kranzq.backends.file.folders import Folders
from kranzq.backends.file.layout import ItemName, item_name
from kranzq.disk import atomic
from kranzq.disk.read import Unreadable, read_regular
from kranzq.model.claim import Claimed
from kranzq.model.ids import MissionId


class ItemClaims:
    """A part of the file queue: the claims of items that run in this checkout."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    def item_claim_name(self, mission: MissionId, pid: int, suffix: str) -> str:
        """The name that the claim of a keeper on an item will have: its record bears it before it is made."""
        return item_name(mission, pid, suffix).text

    def claim_item(self, mission: MissionId, pid: int, suffix: str, content: bytes) -> Claimed:
        """Make the claim, with what is known of the item; durable when it returns. Raises OSError."""
        name = item_name(mission, pid, suffix)
        return claimed_item(name, atomic.publish(self.folders.queue, name.text, content))

    def end_item(self, claimed: Claimed) -> None:
        """Remove the claim of an item whose end was handed in; harmless when it is gone."""
        atomic.remove(self.folders.queue, claimed.place.name)

    def item_content(self, claimed: Claimed) -> bytes | None:
        """What the claim says of its item; None when it is gone or cannot be read."""
        with contextlib.suppress(Unreadable):
            found = read_regular(claimed.place.name, dir_fd=self.folders.queue)
            return found.data if found is not None else None
        return None


def claimed_item(name: ItemName, seen: os.stat_result) -> Claimed:
    """A claim on an item as it lies in the queue."""
    return Claimed(
        place=item_place(name),
        entry_name=name.text,
        pid=name.pid,
        suffix=name.suffix,
        inode=seen.st_ino,
        touched_at=max(seen.st_mtime, seen.st_ctime),
        modified_at=seen.st_mtime,
    )
