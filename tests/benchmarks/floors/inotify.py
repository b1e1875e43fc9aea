"""Being told by the kernel that a file arrived, with nothing between: the calls of libc, and a read that waits."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator

IN_MOVED_TO = 0x80
IN_CLOEXEC = 0x80000
_HEAD = struct.Struct("iIII")


class Inotify:
    """One watch on one folder. Raises OSError where none can be had."""

    def __init__(self, folder: str) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(IN_CLOEXEC)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(folder), IN_MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), folder)

    def names(self) -> Iterator[str]:
        """Names that were moved into the folder, for ever."""
        while True:
            data, at = os.read(self.fd, 1 << 16), 0
            while at < len(data):
                length = _HEAD.unpack_from(data, at)[3]
                at += _HEAD.size
                yield os.fsdecode(data[at : at + length].rstrip(b"\0"))
                at += length
