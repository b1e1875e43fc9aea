"""What SQLite's faults mean for a call: try again, or tell the operator, in words."""

from __future__ import annotations

import os
import sqlite3

from kranzq.errors import KranzqError, StoreLocked, StoreUnavailable, StoreUnreachable

_CLOSED = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")


Fault = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite's driver raises; the second where a text of the file, or of a fault that repeats one, is none."""


def named(fault: sqlite3.Error | UnicodeDecodeError, path: str, patience_s: float) -> KranzqError:
    """Our own error for one of SQLite's."""
    name = getattr(fault, "sqlite_errorname", "") or ""
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreLocked(path, patience_s)
    if name.startswith("SQLITE_FULL") or (name.startswith("SQLITE_IOERR") and _is_full(path)):
        return StoreUnavailable(path, "the disk is full")
    if name.startswith("SQLITE_IOERR"):
        return StoreUnavailable(path, "the disk reports an error")
    if name.startswith(_CLOSED):
        return _closed(fault, path)
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or _holds_no_text(fault):
        advice = f"Move it away ({path} and what lies beside it), keep it for rescue, and begin a new one."
        return StoreUnreachable(path, "the file is damaged or is no database", advice)
    return StoreUnreachable(path, str(fault))


def not_allowed(path: str) -> StoreUnreachable:
    """The file is somebody else's."""
    advice = "Call as the user whose it is, or name a database of your own with --url."
    return StoreUnreachable(path, "this user may not read and write it in its folder", advice)


def _holds_no_text(fault: sqlite3.Error | UnicodeDecodeError) -> bool:
    return isinstance(fault, UnicodeDecodeError) or str(fault).startswith("Could not decode to UTF-8")


def _is_full(path: str) -> bool:
    """Whether nothing fits on the disk: SQLite calls it an error where it wants a file to grow for another reason."""
    try:
        return os.statvfs(os.path.dirname(path)).f_bavail == 0
    except OSError:
        return False


def _closed(fault: sqlite3.Error | UnicodeDecodeError, path: str) -> KranzqError:
    """A file that may not be opened or written: because of its disk, or of whose it is."""
    folder = os.path.dirname(path)
    try:
        disk_is_read_only = bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        disk_is_read_only = False
    if disk_is_read_only:
        return StoreUnavailable(path, "its disk is read-only")
    if not (os.access(path, os.R_OK | os.W_OK) and os.access(folder, os.R_OK | os.W_OK | os.X_OK)):
        return not_allowed(path)
    return StoreUnavailable(path, str(fault))
