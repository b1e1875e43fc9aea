"""The kernel lock beside a SQLite file, on which writers of several processes queue.

SQLite's own busy handler sleeps and looks again: with two writers that never pause, one of them starves for seconds.
A blocking flock lets each in after the other. It guards nothing: whoever writes without it meets SQLite's own lock.
"""

from __future__ import annotations

import fcntl
import os
import threading

from kranzq.backends.sql.sqlite_faults import not_allowed
from kranzq.errors import StoreLocked, StoreUnavailable


class WriteLock:
    """One lock file. Not for threads: its owner lets one in at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def take(self, seconds: float) -> None:
        """Wait for the lock. Raises StoreLocked when it was not to be had in time."""
        if self._fd < 0:
            self._fd = _open(self._path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait(seconds)

    def let_go(self) -> None:
        """Free it for the next one."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close it, and thereby free it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _wait(self, seconds: float) -> None:
        """Block in a thread, for a blocking flock has no deadline; one that comes too late is let go at once."""
        waiter = _Waiter(self._path)
        fd = waiter.wait(seconds)
        if fd is None:
            raise StoreLocked(self._path, seconds)
        self.close()
        self._fd = fd


class _Waiter:
    """One wait. Whoever comes second, the grant or the deadline, clears up."""

    def __init__(self, path: str) -> None:
        self._fd = _open(path)
        self._granted = threading.Event()
        self._mutex = threading.Lock()
        self._given_up = False
        threading.Thread(target=self._block, name="kranzq-write-lock", daemon=True).start()

    def wait(self, seconds: float) -> int | None:
        """The descriptor that holds the lock, or None after the deadline."""
        self._granted.wait(seconds)
        with self._mutex:
            if self._granted.is_set():
                return self._fd
            self._given_up = True
            return None

    def _block(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError:  # closed under us while the process ends
            return
        with self._mutex:
            if self._given_up:
                os.close(self._fd)
            else:
                self._granted.set()


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError as fault:
        raise not_allowed(path) from fault
    except OSError as fault:
        raise StoreUnavailable(path, fault.strerror or str(fault)) from fault
