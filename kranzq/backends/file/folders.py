"""The directories of one queue as open descriptors: each is a real directory, none is reached through a link.

Work that goes through descriptors stays in the same directories when a checkout is renamed or a link is put in the way.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from typing import Literal, Self

from kranzq.disk import atomic
from kranzq.disk.owners import declared_group, refuse_foreign_checkout, share, why_unsafe
from kranzq.disk.read import GONE, LACKING, RECORD_LIMIT, Unreadable, open_folder, read_regular
from kranzq.errors import NotFound, UnsafePath
from kranzq.model.checkout import Checkout

Aside = Literal["waiting", "parked", "quarantine", "inbox"]
IGNORED = (
    ".gitignore",
    "queue/",
    "missions/*/dispatch/",
    "missions/*/input/",
    "missions/*/events.jsonl.lock",
    "missions/*/enqueue-source*.json",
)
"""Patterns that keep all runtime state out of `git status`; kranz's own lines are left alone."""


TEMPORARY = ".tmp"
SWEPT_S = 3600.0
SETTLED_NS = 50_000_000
"""A directory that has been the same for so long changes its times with the next change: ticks are shorter."""
SETTLED_COARSE_NS = 2_500_000_000
"""The same where a file system keeps whole seconds only, or every other one (ext4 with small inodes, FAT)."""
_SECOND_NS = 1_000_000_000


class NoQueue(NotFound):
    """The checkout has no queue yet."""

    def __init__(self, checkout: Checkout) -> None:
        super().__init__(f"{checkout.queue} does not exist.", "Make it with: kranzq init")


class CheckoutGone(NotFound):
    """What was a checkout when its user began is none now, and has no queue."""

    def __init__(self, checkout: Checkout) -> None:
        super().__init__(f"The checkout {checkout.root} is gone.", "Bring it back, or go to another one.")


class Folders:
    """Open descriptors of `.kranz`, `queue` and what lies in it. Close it, or use it as a context manager."""

    def __init__(self, checkout: Checkout, kranz_fd: int, queue_fd: int) -> None:
        self.checkout = checkout
        self.kranz = kranz_fd
        self.queue = queue_fd
        self._aside: dict[Aside, int] = {}
        self._names: tuple[str, ...] = ()
        self._names_of: tuple[int, int] | None = None

    @classmethod
    def open(cls, checkout: Checkout) -> Self:
        """Open an existing queue; changes nothing. Raises NoQueue, CheckoutGone, UnsafePath."""
        try:
            kranz = _open(checkout.kranz)
        except FileNotFoundError as fault:
            _refuse_gone(checkout)
            raise NoQueue(checkout) from fault
        try:
            queue = _open("queue", kranz, checkout.queue)
        except FileNotFoundError as fault:
            os.close(kranz)
            raise NoQueue(checkout) from fault
        except BaseException:
            os.close(kranz)
            raise
        return cls(checkout, kranz, queue)

    @classmethod
    def open_to_change(cls, checkout: Checkout, *, as_root: bool = False) -> Self:
        """Open an existing queue for work; nothing is made. Raises NoQueue, UnsafePath, Refused."""
        refuse_foreign_checkout(checkout, as_root=as_root)
        return cls.open(checkout).if_safe(as_root=as_root)

    @classmethod
    def make(cls, checkout: Checkout, *, as_root: bool = False) -> Self:
        """Open the queue for work, making what is missing. Raises CheckoutGone, UnsafePath, Refused, StoreUnavailable.

        What is unsafe is refused before anything is made. In a checkout that a group shares, so is the queue.
        """
        path = checkout.kranz
        try:
            _refuse_gone(checkout)
            refuse_foreign_checkout(checkout, as_root=as_root)
            if (whole := cls._whole(checkout)) is not None:
                return whole.if_safe(as_root=as_root)
            with contextlib.ExitStack() as stack:
                root = open_folder(checkout.root)
                stack.callback(os.close, root)
                new = atomic.make_folder(".kranz", dir_fd=root)
                kranz = _open(path)
                stack.callback(os.close, kranz)
                if new and (group := declared_group(checkout)) is not None:
                    share(kranz, path, group)
                if (unsafe := why_unsafe(kranz, path, as_root=as_root)) is not None:
                    raise unsafe.error()
                path = checkout.queue
                made = atomic.make_folder("queue", dir_fd=kranz)
                if made or not os.access(".gitignore", os.F_OK, dir_fd=kranz):
                    # written last: without it whoever made the folders may have died before they were synced
                    os.fsync(kranz)
                    os.fsync(root)
                    ignore_runtime_state(kranz)
            folders = cls.open(checkout).if_safe(as_root=as_root)
        except OSError as fault:
            raise atomic.store_fault(path, fault) from fault
        try:
            with contextlib.suppress(UnsafePath):  # a link in its place is named by `check`, and nothing is admitted
                folders.made("inbox")
        except OSError as fault:
            folders.close()
            raise atomic.store_fault(f"{path}/inbox", fault) from fault
        except BaseException:
            folders.close()
            raise
        return folders

    @classmethod
    def _whole(cls, checkout: Checkout) -> Self | None:
        """The queue as it is, if nothing of it is missing: that is how it mostly is, and it costs few calls."""
        try:
            folders = cls.open(checkout)
        except NoQueue:
            return None
        try:
            whole = os.access(".gitignore", os.F_OK, dir_fd=folders.kranz)
            with contextlib.suppress(UnsafePath):
                whole = whole and folders.aside("inbox") is not None
        except BaseException:
            folders.close()
            raise
        if not whole:
            folders.close()
        return folders if whole else None

    def if_safe(self, *, as_root: bool) -> Self:
        """Itself, if nobody else may write in it; else it is closed. Raises Refused."""
        try:
            for path, fd in self._deciding():
                if (unsafe := why_unsafe(fd, path, as_root=as_root)) is not None:
                    raise unsafe.error()
        except BaseException:
            self.close()
            raise
        return self

    def _deciding(self) -> Iterator[tuple[str, int]]:
        """The directories that decide who may plant missions, as far as they are there."""
        yield self.checkout.kranz, self.kranz
        yield self.checkout.queue, self.queue
        with contextlib.suppress(FileNotFoundError, UnsafePath):
            missions = _open("missions", self.kranz, self.checkout.missions)
            try:
                yield self.checkout.missions, missions
            finally:
                os.close(missions)
        which: Aside
        for which in ("waiting", "parked", "inbox"):
            with contextlib.suppress(UnsafePath):  # a link leads nowhere: nothing in it is looked at
                if (fd := self.aside(which)) is not None:
                    yield f"{self.checkout.queue}/{which}", fd

    def aside(self, which: Aside, *, make: bool = False) -> int | None:
        """The descriptor of a directory inside the queue, or None when it is not there and not to be made."""
        if which in self._aside:
            return self._aside[which]
        if make:
            atomic.make_folder(which, dir_fd=self.queue)
        try:
            self._aside[which] = _open(which, self.queue, f"{self.checkout.queue}/{which}")
        except FileNotFoundError:
            return None
        return self._aside[which]

    def made(self, which: Aside) -> int:
        """As `aside`, made when missing."""
        fd = self.aside(which, make=True)
        if fd is None:
            raise UnsafePath(f"{self.checkout.queue}/{which}", "it vanished while it was made")
        return fd

    def names(self) -> tuple[str, ...]:
        """The names in the queue. They are not read again while its directory has the times that it had then.

        That holds only for what was read well after the last change: a clock has ticks, and within one two changes look
        alike. `forget` is for whoever must not believe it.
        """
        seen = os.fstat(self.queue)
        key = (seen.st_mtime_ns, seen.st_ctime_ns)
        if key == self._names_of:
            return self._names
        self._names = tuple(names_in(self.queue))
        settled = SETTLED_COARSE_NS if all(one % _SECOND_NS == 0 for one in key) else SETTLED_NS
        self._names_of = key if time.time_ns() - max(key) > settled else None
        return self._names

    def forget(self) -> None:
        """Read the names again at the next look."""
        self._names_of = None

    def is_current(self) -> bool:
        """Whether the queue's path still leads to the directory that is open here."""
        try:
            there = os.stat(self.checkout.queue, follow_symlinks=False)
        except OSError:
            return False
        here = os.fstat(self.queue)
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def close(self) -> None:
        """Close all descriptors."""
        for fd in (self.kranz, self.queue, *self._aside.values()):
            with contextlib.suppress(OSError):
                os.close(fd)
        self._aside.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_gone(checkout: Checkout) -> None:
    """Raise CheckoutGone where neither a queue nor what made the directory a checkout is left."""
    if not os.path.isdir(checkout.root) or (
        checkout.has_git and not os.path.lexists(checkout.git) and not os.path.lexists(checkout.queue)
    ):
        raise CheckoutGone(checkout)


def names_in(fd: int | None) -> Iterator[str]:
    """The names in an open directory; none for a missing one, or one that is removed meanwhile."""
    if fd is None:
        return iter(())
    try:
        return iter(os.listdir(fd))
    except OSError as fault:
        if fault.errno in GONE:
            return iter(())
        raise


def sweep(fd: int, names: Iterable[str]) -> None:
    """Remove hidden temporary files among the names that nobody has touched for an hour: their writers were killed."""
    for name in [name for name in names if name[0] == "." and name.endswith(TEMPORARY)]:
        with contextlib.suppress(OSError):
            seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if time.time() - max(seen.st_mtime, seen.st_ctime) > SWEPT_S:
                os.unlink(name, dir_fd=fd)


def _open(name: str, dir_fd: int | None = None, shown: str = "") -> int:
    try:
        return open_folder(name, dir_fd=dir_fd)
    except FileNotFoundError:
        raise
    except NotADirectoryError as fault:
        raise UnsafePath(shown or name, "it is a link or no directory") from fault
    except OSError as fault:
        if fault.errno in LACKING:  # that tells nothing of the directory: whoever passes over unsafe ones must not
            raise atomic.store_fault(shown or name, fault) from fault
        raise UnsafePath(shown or name, f"it cannot be opened: {fault.strerror}") from fault


def ignore_runtime_state(kranz_fd: int) -> list[str]:
    """Add what is missing to `.kranz/.gitignore`, and nothing else; what was added. Synced: others' lines are in it."""
    try:
        found = read_regular(".gitignore", dir_fd=kranz_fd, limit=RECORD_LIMIT * 8)
    except Unreadable:
        return []  # somebody's own arrangement; status in git is a convenience, not a promise
    text = found.data.decode("utf-8", "surrogateescape") if found is not None else ""
    lines = set(text.splitlines())
    missing = [line for line in IGNORED if line not in lines]
    if missing:
        joined = text + ("\n" if text and not text.endswith("\n") else "") + "".join(f"{line}\n" for line in missing)
        atomic.replace(kranz_fd, ".gitignore", joined.encode("utf-8", "surrogateescape"), mode=0o644, sync=True)
    return missing
