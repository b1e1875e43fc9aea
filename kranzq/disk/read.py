"""Reading what others may have written: no link is followed, nothing blocks, only regular files, only so many bytes."""

from __future__ import annotations

import errno
import os
import stat

from kranzq.model.frozen import frozen

RECORD_LIMIT = 8 * 1024
ENTRY_LIMIT = 1024 * 1024
GONE = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR})
"""What the system answers for a name that is not there; ESTALE is a network file system's word for it."""
LACKING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What it answers where it has too little to look with, which tells nothing of the file."""


class Unreadable(Exception):
    """A file that is there but may not (`denied`) or cannot be read; `why` is half a sentence.

    With `lacking`, what the system said for want of descriptors or memory, it may be a good file, or none at all.
    """

    def __init__(self, why: str, *, denied: bool = False, lacking: OSError | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.denied = denied
        self.lacking = lacking


@frozen
class Content:
    """A file's bytes and its stat, taken from the same open descriptor."""

    data: bytes
    stat: os.stat_result


def open_folder(name: str, *, dir_fd: int | None = None) -> int:
    """A descriptor of a real directory; a link in its place is refused by the system (ENOTDIR or ELOOP)."""
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)


def read_regular(name: str, *, dir_fd: int | None = None, limit: int = RECORD_LIMIT) -> Content | None:
    """The content of a regular file of at most `limit` bytes, or None when there is no such name.

    Raises Unreadable for links, FIFOs, directories, devices, too large files, and refused or failing reads.
    """
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError as fault:
        if fault.errno in GONE:
            return None
        denied, lacking = fault.errno in {errno.EACCES, errno.EPERM}, fault if fault.errno in LACKING else None
        raise Unreadable(_cannot_open(fault), denied=denied, lacking=lacking) from fault
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise Unreadable(f"it is {_kind(seen.st_mode)}, not a regular file")
        if seen.st_size > limit:
            raise Unreadable(f"it has {seen.st_size} bytes; more than {limit} are not read")
        return Content(_read_bounded(fd, limit), seen)
    except OSError as fault:
        if fault.errno == errno.ESTALE:
            return None
        raise Unreadable(f"it cannot be read: {fault.strerror}") from fault
    finally:
        os.close(fd)


def _read_bounded(fd: int, limit: int) -> bytes:
    parts: list[bytes] = []
    left = limit + 1
    while left > 0 and (part := os.read(fd, left)):
        parts.append(part)
        left -= len(part)
    if left <= 0:  # it grew while it was read
        raise Unreadable(f"it has more than {limit} bytes")
    return b"".join(parts)


def _cannot_open(fault: OSError) -> str:
    if fault.errno == errno.ELOOP:
        return "it is a symbolic link, which is not followed"
    if fault.errno in {errno.ENXIO, errno.ENODEV}:
        return "it is a socket or device, not a regular file"
    return f"it cannot be opened: {fault.strerror}"


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a special file"
