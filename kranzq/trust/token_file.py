"""A file that holds an agent's token, for the one who runs the agent: mode 600, put there without being shown.

The token lies beside it as `FILE.new` before the store hears of it, and is renamed after: a full disk is found out
before the old token is gone. Killed in between, `FILE` still holds the old token, or is not there; the next rotation
into the same file clears that up. `FILE.new` is locked meanwhile, so that two of them never leave one's token in the
file and the other's in the store.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator

from kranzq.disk.atomic import put_over, remove, store_fault
from kranzq.disk.read import LACKING, RECORD_LIMIT, Unreadable, read_regular
from kranzq.errors import Conflict, KranzqError, NotFound, UnsafePath
from kranzq.model.tokens import is_token

_BESIDE = ".new"
_TRIES = 5
_NO_FILE = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})
"""What the system answers for a link, a directory, and a FIFO or device that nobody serves."""


@contextlib.contextmanager
def kept_in(path: str, token: str) -> Iterator[None]:
    """Let the file hold the token when the block has ended well; else it holds what it held before.

    A file that is there must hold a token already. Raises NotFound for a directory that is not there, UnsafePath for
    what is no file of ours, Conflict for one that holds something else or that another process is about to replace,
    StoreUnavailable, Refused when it cannot be written.
    """
    path = os.path.abspath(path)
    folder, name = os.path.split(path)
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as fault:
        if fault.errno in LACKING:
            raise store_fault(path, fault) from fault
        raise NotFound(f"{folder} is no directory that can be opened: {fault.strerror}.", "Make it first.") from fault
    try:
        _check_replaceable(fd, path)
        beside = _write_beside(fd, path + _BESIDE, token)
        try:
            try:
                yield
            except BaseException:
                with contextlib.suppress(OSError):
                    remove(fd, name + _BESIDE)
                raise
            try:
                put_over(fd, name + _BESIDE, name)
            except OSError as fault:
                raise KranzqError(
                    f"The new token counts, but could not become {path}: {fault.strerror}. It lies in {path}{_BESIDE}.",
                    f"Put it there: mv {path}{_BESIDE} {path}",
                ) from fault
        finally:
            os.close(beside)
    finally:
        os.close(fd)


def _check_replaceable(dir_fd: int, path: str) -> None:
    try:
        content = read_regular(os.path.basename(path), dir_fd=dir_fd)
    except Unreadable as fault:
        if fault.lacking is not None:
            raise store_fault(path, fault.lacking) from fault
        raise UnsafePath(path, fault.why, "Name another file; nothing was changed.") from fault
    if content is None:
        return
    if content.stat.st_uid != os.geteuid():
        raise UnsafePath(path, f"it belongs to user {content.stat.st_uid}", "Name another file; nothing was changed.")
    if not _is_ours(content.data):
        raise Conflict(
            f"{path} is there and holds no token of an agent. It was not touched, and nothing else was changed.",
            "Name another file, or remove it.",
        )


def _write_beside(dir_fd: int, path: str, token: str) -> int:
    """A locked descriptor of the file that holds the token now, synced."""
    fd = _lock(dir_fd, path)
    try:
        found = os.pread(fd, RECORD_LIMIT, 0)
        if found and not _is_ours(found):
            raise Conflict(f"{path} is there and holds something else. Nothing was changed.", "Remove it first.")
        os.fchmod(fd, 0o600)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{token}\n".encode(), 0)
        os.fsync(fd)
    except OSError as fault:
        with contextlib.suppress(OSError):
            remove(dir_fd, os.path.basename(path))
        os.close(fd)
        raise store_fault(path, fault) from fault
    except Conflict:
        os.close(fd)
        raise
    return fd


def _lock(dir_fd: int, path: str) -> int:
    """The file at a path, made if it is missing, with its lock. Who locked what was renamed meanwhile tries again."""
    name = os.path.basename(path)
    for _ in range(_TRIES):
        try:
            fd = os.open(
                name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600, dir_fd=dir_fd
            )
        except OSError as fault:
            if fault.errno in _NO_FILE:
                raise UnsafePath(path, f"it is no plain file: {fault.strerror}") from fault
            raise store_fault(path, fault) from fault
        try:
            seen = os.fstat(fd)
            if not stat.S_ISREG(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_nlink > 1:
                raise UnsafePath(path, "it is no plain file of yours")
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                now = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
                if (now.st_dev, now.st_ino) == (seen.st_dev, seen.st_ino):
                    return fd
        except BlockingIOError:
            os.close(fd)
            break
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
    raise Conflict(f"Another process writes {path} at this moment. Nothing was changed.", "Try again.")


def _is_ours(data: bytes) -> bool:
    return is_token(data.decode("ascii", "replace").removesuffix("\n"))
