"""The file of a SQLite database: made where it may lie, and looked at from outside."""

from __future__ import annotations

import contextlib
import os
import stat

from kranzq.backends.sql.sqlite_faults import not_allowed
from kranzq.disk.mounts import network_mount
from kranzq.errors import Refused, StoreUnavailable, StoreUnreachable, UnsafePath


def prepare(path: str) -> None:
    """Make the folder and the file where they are missing, nobody else's to read. Raises Refused on a network disk."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if (mount := network_mount(folder)) is not None:
            raise Refused(
                f"{path} lies on {mount}, a network file system, where SQLite's locks do not hold.",
                "Name a path on a local disk, or use PostgreSQL for many machines.",
            )
        # An existing file is only looked at: closing any descriptor of it would free the locks of this process on it.
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        regular = stat.S_ISREG(os.lstat(path).st_mode)
    except PermissionError as fault:
        raise not_allowed(path) from fault
    except OSError as fault:
        raise StoreUnavailable(path, fault.strerror or str(fault)) from fault
    if not regular:
        raise UnsafePath(path, "it is no regular file")


def place_of(path: str) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def still_there(path: str, place: tuple[int, int] | None) -> None:
    """Refuse to go on with a file that lost its name: what is written to it, nobody would ever find.

    Raises StoreUnreachable.
    """
    if place_of(path) != place:
        advice = "Start this program anew; it goes on with what lies there now."
        raise StoreUnreachable(path, "the file was removed or replaced while it was in use", advice)


def bytes_of(path: str) -> int:
    """The size of a file; 0 when it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
