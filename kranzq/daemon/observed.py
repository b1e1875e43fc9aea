"""Watching directories where the kernel's own watch is not ours to use: by the threads of watchdog."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence

from watchdog.events import (
    DirDeletedEvent,
    DirMovedEvent,
    FileClosedEvent,
    FileCreatedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.inotify_move_event_grouper import InotifyMoveEventGrouper

from kranzq.daemon.wake import Wake

logging.getLogger("watchdog").setLevel(logging.CRITICAL)  # what it would print, `alive` finds out
_KINDS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileMovedEvent,
    FileClosedEvent,
    DirDeletedEvent,
    DirMovedEvent,
]


class Observed:
    """A watch of some directories. OSError when there can be none."""

    def __init__(self, paths: Sequence[str], heard: frozenset[str], wake: Wake) -> None:
        """Wake for new names in `paths`; of those with a leading dot only those in `heard` count."""
        # an unpaired rename out of the directory would hold back every event behind it for half a second
        InotifyMoveEventGrouper.delay = 0.0
        self._observer = Observer()
        for path in paths:
            self._observer.schedule(_Handler(wake, heard), path, event_filter=_KINDS)
        self._observer.start()

    @property
    def alive(self) -> bool:
        """Whether its threads live: one that died tells nothing."""
        return self._observer.is_alive() and all(emitter.is_alive() for emitter in self._observer.emitters)

    def close(self) -> None:
        """End the watch."""
        with contextlib.suppress(Exception):  # a watch that died already has nothing to end
            self._observer.stop()
            self._observer.join(1.0)


class _Handler(FileSystemEventHandler):
    """Only sets the wake-up: an exception here would end the watch without a word."""

    def __init__(self, wake: Wake, heard: frozenset[str]) -> None:
        self._wake = wake
        self._heard = heard

    def dispatch(self, event: FileSystemEvent) -> None:
        """Look at the name and nothing else."""
        paths = (os.fsdecode(event.src_path), os.fsdecode(event.dest_path))
        names = [os.path.basename(path) for path in paths if path]
        if event.is_directory or any(not name.startswith(".") or name in self._heard for name in names):
            self._wake.set()
