"""The short locks around a change of names: `.mutate.flock` is ours, `.mutate.lock` is kranz's.

Ours is a kernel lock on a file that is never unlinked; it is held for one change of names, never across a spawn, a
wait, a signal or another program; what listeners start is started when it is free. kranz's is a file that exists; it
is taken, inside ours, where kranz takes it: when a number is given out.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import time
from collections.abc import Iterator

from kranzq.backends.file.folders import Folders
from kranzq.backends.file.layout import MUTATE_FLOCK, MUTATE_LOCK
from kranzq.disk import atomic
from kranzq.disk.modes import open_lock_file
from kranzq.disk.read import Unreadable, read_regular
from kranzq.errors import LocksUnsupported, QueueLocked
from kranzq.events import with_afterwards

PATIENCE_S = 5.0
STALE_S = 10.0
_MARK = "kranzq"
_POLL_S = (0.0005, 0.001, 0.002, 0.005, 0.01)
_counter = itertools.count()


@contextlib.contextmanager
def change(folders: Folders, *, patience: float = PATIENCE_S) -> Iterator[None]:
    """Hold `.mutate.flock`. Raises QueueLocked after `patience` seconds, LocksUnsupported, Refused."""
    with with_afterwards(), _held(folders, patience):
        yield


@contextlib.contextmanager
def _held(folders: Folders, patience: float) -> Iterator[None]:
    path = f"{folders.checkout.queue}/{MUTATE_FLOCK}"
    try:
        fd = open_lock_file(MUTATE_FLOCK, folders.queue)
    except OSError as fault:
        raise atomic.store_fault(path, fault) from fault
    try:
        _lock(fd, path, patience)
        folders.forget()
        yield
    finally:
        os.close(fd)  # nothing inherits this descriptor, so closing frees it


@contextlib.contextmanager
def number_lock(folders: Folders, *, patience: float = PATIENCE_S) -> Iterator[None]:
    """Hold kranz's `.mutate.lock`; `.mutate.flock` must be held. Raises QueueLocked, StoreUnavailable."""
    path = f"{folders.checkout.queue}/{MUTATE_LOCK}"
    token = f"{os.getpid()}.{next(_counter)}.{_MARK}".encode()
    try:
        _create(folders, token, path, patience)
    except OSError as fault:
        raise atomic.store_fault(path, fault) from fault
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            if _content(folders, MUTATE_LOCK) == token:  # an inode number is given out again; our words are ours
                os.unlink(MUTATE_LOCK, dir_fd=folders.queue)


def _lock(fd: int, path: str, patience: float) -> None:
    deadline = time.monotonic() + patience
    for pause in itertools.chain(_POLL_S, itertools.repeat(_POLL_S[-1])):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise QueueLocked(path, patience, _holder_of(fd)) from None
        except OSError as fault:
            if fault.errno == errno.EINTR:
                continue
            raise LocksUnsupported(path, fault.strerror or str(fault)) from fault
        time.sleep(pause)


def _holder_of(fd: int) -> str:
    """Who holds the lock, from the kernel's own table; only asked when patience is over."""
    inode = f":{os.fstat(fd).st_ino} "
    with contextlib.suppress(OSError), open("/proc/locks", encoding="ascii") as table:
        for line in table:
            parts = line.split()
            if inode in line and "FLOCK" in parts and "->" not in parts:
                return f"process {parts[4]}"
    return "another process"


def _create(folders: Folders, token: bytes, path: str, patience: float) -> None:
    temporary = atomic.temporary_name(MUTATE_LOCK)
    inode = atomic.write_new(folders.queue, temporary, token, sync=False).st_ino
    try:
        deadline, seen_since = time.monotonic() + max(patience, 0.0), _Unchanged()
        while True:
            try:
                atomic.appear(folders.queue, temporary, MUTATE_LOCK, inode)
                return
            except FileExistsError:
                _clear_stale(folders, seen_since)
                if time.monotonic() >= deadline:
                    raise QueueLocked(path, patience, "kranz or a program like it") from None
                time.sleep(0.005)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folders.queue)


class _Unchanged:
    """Since when, on our monotonic clock, one lock file has been the same; its mtime counts too, for one look."""

    def __init__(self) -> None:
        self.key: tuple[int, int] | None = None
        self.since = 0.0

    def seconds(self, seen: os.stat_result) -> float:
        key = (seen.st_ino, seen.st_mtime_ns)
        if key != self.key:
            self.key, self.since = key, time.monotonic()
        age = time.time() - seen.st_mtime
        return max(time.monotonic() - self.since, age if age > 0 else 0.0)


def _clear_stale(folders: Folders, unchanged: _Unchanged) -> None:
    """Move a dead `.mutate.lock` aside: one of ours cannot be alive while we hold `.mutate.flock`."""
    try:
        found = read_regular(MUTATE_LOCK, dir_fd=folders.queue, limit=256)
    except Unreadable:
        return
    if found is None:
        return
    from kranzq.liveness import judge_claim  # noqa: PLC0415 - rarely is anybody in the way
    from kranzq.model.process import Liveness  # noqa: PLC0415

    text = found.data.decode("ascii", "replace").strip()
    pid = text.split(".", 1)[0]
    ours = text.endswith(f".{_MARK}")
    dead = pid.isascii() and pid.isdigit() and judge_claim(int(pid), None, found.stat.st_mtime).verdict is Liveness.GONE
    if not (ours or dead or unchanged.seconds(found.stat) > STALE_S):
        return
    aside = atomic.temporary_name(f"stale{MUTATE_LOCK}")
    with contextlib.suppress(OSError):
        atomic.move(folders.queue, MUTATE_LOCK, folders.queue, aside)
        seen = os.stat(aside, dir_fd=folders.queue, follow_symlinks=False)
        if seen.st_ino != found.stat.st_ino or _content(folders, aside) != found.data:
            atomic.move(folders.queue, aside, folders.queue, MUTATE_LOCK)  # another one came in between
            return
        os.unlink(aside, dir_fd=folders.queue)


def _content(folders: Folders, name: str) -> bytes | None:
    try:
        found = read_regular(name, dir_fd=folders.queue, limit=256)
    except Unreadable:
        return None
    return found.data if found is not None else None
