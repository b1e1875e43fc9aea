"""The folder in which everything is tried: beside the queue, hidden from git, and gone afterwards.

Whoever tries holds a lock on its folder; one that nobody holds was left by a trial that was killed, and the next one
removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from kranzq.model.checkout import Checkout

_PREFIX = ".kranzq-prove-"


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
        os.mkdir(path)
        return path


@contextlib.contextmanager
def scratch(checkout: Checkout) -> Iterator[Scratch]:
    """Make the folder, and remove it with all that is in it. Raises OSError when none can be made."""
    parent = f"{checkout.root}/.kranz"
    if not os.path.isdir(parent):
        parent = checkout.root
    _remove_left(parent)
    folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(lock)
        _write(f"{folder}/.gitignore", "*\n")
        made = Scratch(folder)
        for name in ("objects", "refs/heads"):
            os.makedirs(f"{made.checkout.git}/{name}")
        _write(f"{made.checkout.git}/HEAD", "ref: refs/heads/main\n")
        os.makedirs(made.checkout.queue)
        yield made
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_left(parent: str) -> None:
    for name in os.listdir(parent):
        if not name.startswith(_PREFIX):
            continue
        with contextlib.suppress(OSError):
            fd = os.open(f"{parent}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if _lock(fd):
                    shutil.rmtree(f"{parent}/{name}", ignore_errors=True)
            finally:
                os.close(fd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # somebody has it; or there are no locks here, which a trial says
        return False
    return True


def _write(path: str, text: str) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(text)
