"""The busy lock of a checkout: two kernel locks, taken in one order, shared by dispatcher, keeper and mission.

The first is `.git` itself (nothing is written to it), the second `.kranz/queue/.busy.flock`: whoever removes the second
(`git clean -fdx`) must not be able to free the checkout. A lock belongs to the open descriptor: closing leaves it with
whoever shares it, LOCK_UN takes it from everybody, and only `Hold.unlock` does that.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from kranzq.disk.modes import open_lock_file
from kranzq.errors import LocksUnsupported
from kranzq.model.checkout import Checkout

BUSY_FLOCK = ".busy.flock"
_UNSUPPORTED = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})
_GIT_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_TRIES = 3


class Hold:
    """The taken busy lock. Nothing frees it but `unlock`, or the end of everybody who shares the descriptors."""

    def __init__(self, fds: tuple[int, ...]) -> None:
        self.fds = fds
        self.keys = tuple((seen.st_dev, seen.st_ino) for seen in map(os.fstat, fds))

    @property
    def mark(self) -> str:
        """`device:inode` of the first lock: the second half of the mark that missions bear."""
        return f"{self.keys[0][0]}:{self.keys[0][1]}"

    def close(self) -> None:
        """Let go of the descriptors; whoever inherited them keeps the lock."""
        fds, self.fds = self.fds, ()
        for fd in fds:
            with contextlib.suppress(OSError):
                os.close(fd)

    def unlock(self) -> None:
        """Free the lock for everybody. Only with the run's end in hand and nothing of it alive."""
        for fd in reversed(self.fds):
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_UN)
        self.close()


class BusyLock:
    """The lock of one checkout. `queue` arguments are descriptors of its `.kranz/queue`."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout

    def try_hold(self, queue: int) -> Hold | None:
        """Take the lock without waiting; None when somebody has it. Raises LocksUnsupported."""
        for _ in range(_TRIES):
            fds: list[int] = []
            try:
                for path, dir_fd in self._paths(queue):
                    fd = _open(path, dir_fd, make=True)
                    fds.append(fd)
                    if not _flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, path):
                        _close(fds)
                        return None
                if self._still_named(fds, queue):
                    return Hold(tuple(fds))
            except BaseException:
                _close(fds)
                raise
            _close(fds)  # a path led to another file meanwhile: a lock on the old one excludes nobody
        return None

    def wait_until_free(self) -> None:
        """Block until nobody holds the lock; takes nothing for longer than an instant. For a thread of its own."""
        with contextlib.suppress(FileNotFoundError):
            queue = os.open(self.checkout.queue, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                for path, dir_fd in self._paths(queue):
                    fd = _open(path, dir_fd, make=False)
                    try:
                        _flock(fd, fcntl.LOCK_SH, path)
                    finally:
                        os.close(fd)
            finally:
                os.close(queue)

    def is_free(self, queue: int) -> bool:
        """Whether nobody holds the lock at this moment; like a wait that does not wait."""
        for path, dir_fd in self._paths(queue):
            try:
                fd = _open(path, dir_fd, make=False)
            except FileNotFoundError:
                continue
            try:
                if not _flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, path):
                    return False
            finally:
                os.close(fd)
        return True

    def open_unlocked(self, queue: int) -> tuple[int, ...]:
        """Read-only descriptors of the lock files that exist, to ask about them; nothing is taken or made."""
        fds = []
        for path, dir_fd in self._paths(queue):
            with contextlib.suppress(OSError):
                fds.append(_open(path, dir_fd, make=False))
        return tuple(fds)

    def _paths(self, queue: int) -> list[tuple[str, int | None]]:
        second: tuple[str, int | None] = (BUSY_FLOCK, queue)
        return [(self.checkout.git, None), second] if self.checkout.has_git else [second]

    def _still_named(self, fds: list[int], queue: int) -> bool:
        if not _same(os.fstat(queue), self.checkout.queue, None):
            return False  # the queue directory itself was replaced
        return all(_same(os.fstat(fd), path, at) for fd, (path, at) in zip(fds, self._paths(queue), strict=True))


def _same(held: os.stat_result, path: str, dir_fd: int | None) -> bool:
    try:
        named = os.stat(path, dir_fd=dir_fd)
    except OSError:
        return False
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


def _open(path: str, dir_fd: int | None, *, make: bool) -> int:
    if dir_fd is None:
        return os.open(path, _GIT_FLAGS)
    if make:
        return open_lock_file(path, dir_fd)
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)


def _flock(fd: int, how: int, path: str) -> bool:
    try:
        fcntl.flock(fd, how)
    except BlockingIOError:
        return False
    except OSError as fault:
        if fault.errno in _UNSUPPORTED:
            raise LocksUnsupported(path, fault.strerror or str(fault)) from fault
        raise
    return True


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
