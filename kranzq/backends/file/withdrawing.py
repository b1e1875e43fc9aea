"""What nobody has claimed is taken out of the queue: entries that are queued, wait or are parked, and dropped files.

First they are looked up, so that their end can be kept; then each is one unlink, and the folders are synced together.
`change` must be held from the look to the sync.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterable, Iterator
from typing import cast

from kranzq.backend import Unclaimed
from kranzq.backends.file import aside, entries, inbox
from kranzq.backends.file.folders import Aside, Folders
from kranzq.disk import atomic
from kranzq.disk.birth import born_ns_of
from kranzq.model.claim import Place
from kranzq.model.state import State


class Withdrawing:
    """A part of the file queue: taking out what nobody has claimed."""

    folders: Folders

    def unclaimed(self, missions: Container[str]) -> list[Unclaimed]:
        """What lies in the queue and the inbox for these missions and is no claim."""
        places = entries.places_of(self.folders, missions)
        found = [one for place in places if (one := _of_place(self.folders, place)) is not None]
        return found + [one for one in _of_inbox(self.folders) if one.mission in missions]

    def take_out(self, files: Iterable[Unclaimed]) -> list[Unclaimed]:
        """Remove them, durably; those that were still there. What was reported as gone must not come back."""
        gone = [one for one in files if self._unlink(one)]
        for folder in {one.folder for one in gone}:
            atomic.sync_folder(self._fd(folder))
        return gone

    def _unlink(self, one: Unclaimed) -> bool:
        fd = self._fd(one.folder)
        if not is_there(fd, one):
            return False
        if one.folder == "parked":
            aside.forget_why(self.folders, one.name)  # first: a reason without its entry would be a bad file
        return atomic.remove(fd, one.name)

    def _fd(self, folder: str) -> int:
        return self.folders.made(cast("Aside", folder)) if folder else self.folders.queue


def is_there(fd: int, one: Unclaimed) -> bool:
    """Whether the very file is still there."""
    try:
        return os.stat(one.name, dir_fd=fd, follow_symlinks=False).st_ino == one.inode
    except OSError:
        return False


def _of_place(folders: Folders, place: Place) -> Unclaimed | None:
    fd = entries.folder_of(folders, place.state)
    if fd is None or place.state is State.CLAIMED:
        return None
    try:
        seen = os.stat(place.name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return None
    if stat.S_ISDIR(seen.st_mode):
        return None  # no entry, whatever its name says; the next turn sets it aside
    found = entries.read_entry(fd, place.name, place.mission)
    return Unclaimed(
        place.mission,
        "" if place.state is State.QUEUED else place.state.value,
        place.name,
        found[0].id if isinstance(found, tuple) else None,
        place.name.partition(".")[2] if place.state is State.WAITING else place.name,
        seen.st_ino,
        born_ns_of(place.name, fd),
        place.number,
    )


def _of_inbox(folders: Folders) -> Iterator[Unclaimed]:
    for fd, name, (entry, content) in inbox.readable(folders):
        folder = "" if fd == folders.queue else "inbox"
        born = born_ns_of(name, fd)
        yield Unclaimed(entry.mission, folder, name, entry.id, name, content.stat.st_ino, born, entry.number)
