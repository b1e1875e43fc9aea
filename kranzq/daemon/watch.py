"""Watching the queue's directory: a hint that saves waiting, never the truth. The scan is the truth.

A watch tells nothing when the kernel's queue overflows, when the directory is replaced or when a thread of watchdog
dies, so `is_sound` is asked at each tick, and the timer of the loop bounds every delay.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from typing import TYPE_CHECKING

from kranzq.daemon.wake import Wake
from kranzq.disk.atomic import make_folder
from kranzq.disk.read import open_folder

if TYPE_CHECKING:
    from kranzq.daemon.inotify import Inotify
    from kranzq.daemon.observed import Observed

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
        self._watch: Inotify | Observed | None = None
        self._keys: dict[str, tuple[int, int] | None] = {}
        self._glance: tuple[tuple[int, int, int] | None, ...] = ()
        self._glanced_at = 0.0
        self.why_polling: str | None = None

    @property
    def watching(self) -> str:
        """`events` or `polling`."""
        return "events" if self._watch is not None else "polling"

    def start(self) -> None:
        """Begin to watch, or say in `why_polling` why only the timer will tell."""
        self.stop()
        try:
            queue = open_folder(self._path)
            try:
                for name in INSIDE:
                    make_folder(name, dir_fd=queue)
            finally:
                os.close(queue)
            keys = {path: _key_of(path) for path in self._paths}
            self._watch = self._begun([path for path, key in keys.items() if key is not None])
        except OSError as fault:
            self.why_polling = f"{self._path} cannot be watched: {fault.strerror or fault}"
            return
        self._keys, self.why_polling = keys, None

    def _begun(self, paths: list[str]) -> Inotify | Observed:
        if not has_inotify():
            from kranzq.daemon.observed import Observed  # noqa: PLC0415 - each only where it is used

            return Observed(paths, HEARD, self._wake)
        from kranzq.daemon.inotify import Inotify  # noqa: PLC0415 - as above

        watch = Inotify(paths, HEARD)
        try:
            self._wake.follow(watch)
        except OSError:
            watch.close()
            raise
        return watch

    def is_sound(self) -> bool:
        """Whether the watch is alive and still on the directories that have the paths now."""
        if self._watch is None:
            return self.why_polling is not None
        return self._watch.alive and all(_key_of(path) == key for path, key in self._keys.items())

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
        watch, self._watch = self._watch, None
        if watch is not None:
            self._wake.leave()
            watch.close()


def has_inotify() -> bool:
    """Whether the kernel's own watch is used."""
    return sys.platform == "linux"


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
