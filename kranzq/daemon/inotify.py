"""The kernel's own watch of directories, read by whoever waits and by nobody else.

A thread that reads events wakes at each change that the daemon itself makes in the queue, and takes the interpreter
from the turn that makes it. Here events lie in the kernel until the turn is over.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from collections.abc import Sequence

from kranzq.disk.libc import libc

_CLOEXEC, _NONBLOCK = os.O_CLOEXEC, os.O_NONBLOCK
_IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_CREATE = 0x8, 0x80, 0x100
_IN_DELETE_SELF, _IN_MOVE_SELF, _IN_UNMOUNT, _IN_Q_OVERFLOW, _IN_IGNORED = 0x400, 0x800, 0x2000, 0x4000, 0x8000
_IN_ONLYDIR, _IN_DONT_FOLLOW, _IN_ISDIR = 0x01000000, 0x02000000, 0x40000000
_MASK = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_CREATE | _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_ONLYDIR | _IN_DONT_FOLLOW
"""As `inotify(7)` and the kernel's header have them."""
_ENDED = _IN_DELETE_SELF | _IN_MOVE_SELF | _IN_UNMOUNT | _IN_IGNORED
_HEAD = struct.Struct("iIII")
_READ = 65_536


class Inotify:
    """A watch of some directories. OSError when there can be none: no inotify, or none left for this user."""

    def __init__(self, paths: Sequence[str], heard: frozenset[str]) -> None:
        """Watch for new names in `paths`; of those with a leading dot only those in `heard` count."""
        self._heard = heard
        self.alive = True
        init, add = libc().inotify_init1, libc().inotify_add_watch
        self._fd = _checked(init(_CLOEXEC | _NONBLOCK), "inotify")
        try:
            for path in paths:
                _checked(add(self._fd, os.fsencode(path), ctypes.c_uint32(_MASK)), path)
        except OSError:
            self.close()
            raise

    def fileno(self) -> int:
        """Readable when there are events."""
        return self._fd

    def take(self) -> bool:
        """Take all events; whether any of them may be something to do."""
        told = False
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._fd, _READ):
                told |= self._tells(data)
        return told

    def _tells(self, data: bytes) -> bool:
        at, told = 0, False
        while at < len(data):
            _, mask, _, length = _HEAD.unpack_from(data, at)
            name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
            at += _HEAD.size + length
            self.alive = self.alive and not mask & _ENDED
            known = not name.startswith(b".") or os.fsdecode(name) in self._heard
            told = told or known or bool(mask & (_ENDED | _IN_Q_OVERFLOW | _IN_ISDIR))
        return told

    def close(self) -> None:
        """End the watch."""
        self.alive = False
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result
