"""The kernel lock beside a SQLite file, on which writers of several processes queue.

SQLite's own busy handler sleeps and looks again: with two writers that never pause, one of them starves for seconds.
A blocking flock lets each in after the other. It guards nothing: whoever writes without it meets SQLite's own lock.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time

from kranzq.backend.watching import Waits
from kranzq.backends.sql.sqlite_faults import not_allowed
from kranzq.errors import StoreLocked, StoreUnavailable


class WriteLock:
    """One lock file. Not for threads: its owner lets one in at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._waiter: _Waiter | None = None
        self._waited, self._waited_s = 0, 0.0

    @property
    def waits(self) -> Waits:
        """How often it was not to be had at once, and how long that took."""
        return Waits(self._waited, self._waited_s)

    def take(self, seconds: float) -> None:
        """Wait for the lock. Raises StoreLocked when it was not to be had in time."""
        if self._fd < 0:
            self._fd = _open(self._path)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            begun = time.monotonic()
            try:
                self._wait(seconds)
            finally:
                self._waited, self._waited_s = self._waited + 1, self._waited_s + time.monotonic() - begun

    def let_go(self) -> None:
        """Free it for the next one."""
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close it, and thereby free it."""
        if self._waiter is not None:
            self._waiter.end()
        elif self._fd >= 0:
            os.close(self._fd)
        self._fd, self._waiter = -1, None

    def forget(self) -> None:
        """In the child of a fork: close its copy of the descriptor, which would keep the lock if the parent died."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._waiter = -1, None

    def _wait(self, seconds: float) -> None:
        """Let a thread block for us, for a blocking flock has no deadline; it stays for the next time."""
        if self._waiter is None:
            self._waiter = _Waiter(self._fd)
        granted = False
        try:
            granted = self._waiter.wait(seconds)
        finally:
            if not granted:  # too late, or interrupted: the descriptor is the waiter's to close, whenever it is granted
                self._fd, self._waiter = -1, None
        if not granted:
            raise StoreLocked(self._path, seconds)


class _Waiter:
    """A thread that blocks on one descriptor whenever it is asked to."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._asked, self._granted = threading.Semaphore(0), threading.Semaphore(0)
        self._mutex = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._block, name="kranzq-write-lock", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Whether the lock was granted in time. If not, or if this is interrupted, it is given back when it comes."""
        try:
            self._asked.release()
            if self._granted.acquire(timeout=seconds):
                return True
        except BaseException:
            self.end()
            raise
        with self._mutex:
            if self._granted.acquire(blocking=False):
                return True
            self._over.set()
        return False

    def end(self) -> None:
        """End the thread, which closes the descriptor and thereby frees what it was or will be granted."""
        with self._mutex:
            self._over.set()
        self._asked.release()

    def _block(self) -> None:
        while True:
            self._asked.acquire()
            with self._mutex:
                if self._over.is_set():
                    break
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            with self._mutex:
                if self._over.is_set():
                    break
                self._granted.release()
        fcntl.flock(self._fd, fcntl.LOCK_UN)  # a child of a fork may have a copy, so that to close it frees nothing
        os.close(self._fd)


def _open(path: str) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError as fault:
        raise not_allowed(path) from fault
    except OSError as fault:
        raise StoreUnavailable(path, fault.strerror or str(fault)) from fault
