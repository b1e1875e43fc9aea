"""When a file was born. An inode number is given out again; together with its birth time it names one file for ever."""

from __future__ import annotations

import os
import struct

from kranzq.disk.libc import libc

_BTIME = 0x800
_SYMLINK_NOFOLLOW = 0x100
_EMPTY_PATH = 0x1000
_SIZE = 256


def born_ns(fd: int) -> int | None:
    """Birth time of an open file in nanoseconds since 1970, or None where system or file system does not tell."""
    call = getattr(libc(), "statx", None)
    if call is None:
        return None
    import ctypes  # noqa: PLC0415 - libc has imported it

    buffer = ctypes.create_string_buffer(_SIZE)
    if call(fd, b"", _EMPTY_PATH | _SYMLINK_NOFOLLOW, _BTIME, buffer) != 0:
        return None
    (mask,) = struct.unpack_from("=I", buffer, 0)
    seconds, nanoseconds = struct.unpack_from("=qI", buffer, 80)
    return int(seconds * 10**9 + nanoseconds) if mask & _BTIME else None


def born_ns_of(name: str, dir_fd: int) -> int | None:
    """As `born_ns`, for a name; a link is not followed. None when it is gone."""
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    except (OSError, AttributeError):
        return None
    try:
        return born_ns(fd)
    finally:
        os.close(fd)
