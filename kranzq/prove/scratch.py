"""The folder in which everything is tried: beside the queue, hidden from git, and gone afterwards.

Whoever tries holds a lock on its folder; one that nobody holds was left by a trial that was killed, and the next one
removes it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from kranzq.model.checkout import Checkout

_PREFIX = ".kranzq-prove-"
_HIDING = ".gitignore"
_TRIES = 20
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Scratch:
    """A checkout of its own, with a home of its own, on the file system of the real one."""

    folder: str

    @property
    def checkout(self) -> Checkout:
        """What missions are tried in. It has a `.git`, so that nobody looks for a checkout further up."""
        return Checkout(f"{self.folder}/checkout", has_git=True)

    def make(self, name: str) -> str:
        """A new folder for one trial; its path."""
        path = f"{self.folder}/{name}"
        os.mkdir(path, 0o755)
        return path


@contextlib.contextmanager
def scratch(checkout: Checkout) -> Iterator[Scratch]:
    """Make the folder, and remove it with all that is in it. Raises OSError when none can be made."""
    parent = f"{checkout.root}/.kranz"
    if not os.path.isdir(parent):
        parent = checkout.root
    _remove_left(parent)
    folder, lock = _held(parent)
    try:
        os.chmod(folder, 0o700)  # what a group shares is shared with it down to the last folder, and so were the key
        _write(f"{folder}/{_HIDING}", "*\n")
        made = Scratch(folder)
        for name in ("objects", "refs/heads"):
            os.makedirs(f"{made.checkout.git}/{name}")
        _write(f"{made.checkout.git}/HEAD", "ref: refs/heads/main\n")
        os.makedirs(made.checkout.queue)
        yield made
    finally:
        _remove(folder)
        os.close(lock)


def _held(parent: str) -> tuple[str, int]:
    """A new folder with its lock. Another trial that saw it before it was locked takes it for one that was left."""
    for _ in range(_TRIES):
        folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        lock = -1
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if _lock(lock) is not False and os.path.samestat(os.fstat(lock), os.lstat(folder)):
                return folder, lock
        if lock >= 0:
            os.close(lock)
    raise BlockingIOError(errno.EAGAIN, "other trials remove what this one makes", parent)


def _remove_left(parent: str) -> None:
    for name in os.listdir(parent):
        if not name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            fd = os.open(f"{parent}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if _lock(fd):
                    _remove(f"{parent}/{name}")
            finally:
                os.close(fd)


def _remove(folder: str) -> None:
    """Remove it, what hides it from git last. What was killed a moment ago may still make files in it for a while."""
    until = time.monotonic() + _PATIENCE_S
    while (left := _empty(folder)) and time.monotonic() < until:
        time.sleep(0.05)
    if not left:
        shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: str) -> list[str]:
    """Remove all but what hides it; what is left."""
    with contextlib.suppress(OSError):
        for one in os.scandir(folder):
            if one.name == _HIDING:
                continue
            if one.is_dir(follow_symlinks=False):
                shutil.rmtree(one.path, ignore_errors=True)
            else:
                os.unlink(one.path)
        return [name for name in os.listdir(folder) if name != _HIDING]
    return []


def _lock(fd: int) -> bool | None:
    """Take it: False where somebody has it, None where there are no locks, which a trial says."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _write(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
