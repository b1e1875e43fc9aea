"""Watching the queue's directory: a hint that saves waiting, never the truth. The scan is the truth.

Watchdog tells nothing when its thread dies, when the kernel's queue overflows or when the directory is replaced, so
`is_sound` is asked at each tick, and the timer of the loop bounds every delay.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time

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
from watchdog.observers.api import BaseObserver
from watchdog.observers.inotify_move_event_grouper import InotifyMoveEventGrouper

from kranzq.daemon.wake import Wake
from kranzq.disk.atomic import make_folder
from kranzq.disk.read import open_folder

logging.getLogger("watchdog").setLevel(logging.CRITICAL)  # what it would print, `is_sound` finds out

HEARD = frozenset({".stop", ".paused"})
"""Names with a leading dot that are for us; all others are dropped before anything else."""

INSIDE = ("waiting", "inbox")
"""What is enqueued for later may be due before the next look, and other programs drop what they approve."""

GLANCE_S = 0.05
"""So often a glance is cast at directories that cannot be watched: three calls, and less than half a hundredth of a
processor."""
_SAME_TICK_S = 0.02
"""A directory that changed so shortly before a glance may change once more and look the same: clocks have ticks."""


class Watcher:
    """Wakes the loop when a name in the queue changes, or in what waits there."""

    def __init__(self, path: str, wake: Wake) -> None:
        self._path = path
        self._paths = (path, *(f"{path}/{name}" for name in INSIDE))
        self._wake = wake
        self._observer: BaseObserver | None = None
        self._keys: dict[str, tuple[int, int] | None] = {}
        self._glance: tuple[tuple[int, int, int] | None, ...] = ()
        self._glanced_at = 0.0
        self.why_polling: str | None = None

    @property
    def watching(self) -> str:
        """`events` or `polling`."""
        return "events" if self._observer is not None else "polling"

    def start(self) -> None:
        """Begin to watch, or say in `why_polling` why only the timer will tell."""
        self.stop()
        # an unpaired rename out of the directory would hold back every event behind it for half a second
        InotifyMoveEventGrouper.delay = 0.0
        try:
            queue = open_folder(self._path)
            try:
                for name in INSIDE:
                    make_folder(name, dir_fd=queue)
            finally:
                os.close(queue)
            inside = [f"{self._path}/{name}" for name in INSIDE]
            observer = Observer()
            keys = {path: _key_of(path) for path in (self._path, *inside)}
            for path in (path for path, key in keys.items() if key is not None):
                observer.schedule(
                    _Handler(self._wake),
                    path,
                    event_filter=[FileCreatedEvent, FileMovedEvent, FileClosedEvent, DirDeletedEvent, DirMovedEvent],
                )
            observer.start()
        except OSError as fault:
            self.why_polling = f"{self._path} cannot be watched: {fault.strerror or fault}"
            return
        self._observer, self._keys, self.why_polling = observer, keys, None

    def is_sound(self) -> bool:
        """Whether the watch is alive and still on the directories that have the paths now."""
        if self._observer is None:
            return self.why_polling is not None
        alive = self._observer.is_alive() and all(emitter.is_alive() for emitter in self._observer.emitters)
        return alive and all(_key_of(path) == key for path, key in self._keys.items())

    def remember(self) -> None:
        """Cast a glance, just before the names are read: what changes from then on is new."""
        self._glance, self._glanced_at = self._glance_now(), time.time()

    def has_changed(self) -> bool:
        """Whether a name may have appeared since, as far as a glance tells; the timer of the loop bounds the rest."""
        youngest = max((key[2] for key in self._glance if key is not None), default=0) / 1e9
        return 0 <= self._glanced_at - youngest < _SAME_TICK_S or self._glance_now() != self._glance

    def _glance_now(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_changed_of, self._paths))

    def stop(self) -> None:
        """End the watch."""
        observer, self._observer = self._observer, None
        if observer is not None:
            with contextlib.suppress(Exception):  # a watch that died already has nothing to end
                observer.stop()
                observer.join(1.0)


def _key_of(path: str) -> tuple[int, int] | None:
    """Which directory has the path; None where there is none, or a link that is not followed."""
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return (seen.st_dev, seen.st_ino) if stat.S_ISDIR(seen.st_mode) else None


def _changed_of(path: str) -> tuple[int, int, int] | None:
    """Which directory has the path, and when its names last changed."""
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_mtime_ns


class _Handler(FileSystemEventHandler):
    """Only sets the wake-up: an exception here would end the watch without a word."""

    def __init__(self, wake: Wake) -> None:
        self._wake = wake

    def dispatch(self, event: FileSystemEvent) -> None:
        """Look at the name and nothing else."""
        paths = (os.fsdecode(event.src_path), os.fsdecode(event.dest_path))
        names = [os.path.basename(path) for path in paths if path]
        if event.is_directory or any(not name.startswith(".") or name in HEARD for name in names):
            self._wake.set()
