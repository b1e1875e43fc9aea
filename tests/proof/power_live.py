"""A model of the disk as everybody sees it while a recorded run goes on, with all that happens to it in order."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.proof.power_calls import Opened, Value
from tests.proof.power_disk import Disk, Event, Names, Size, Slot, Write, after, put

MAPPED = "-shm"
"""What ends so is written to through memory, which no call shows: SQLite makes it anew after each start."""
_OTHERS_MAY_WRITE = 0o022


class UnmodelledError(Exception):
    """A call that the model does not know, or one that does not fit what it holds."""


class Live:
    """What lies below a folder, but for some names in it that are no part of the disk."""

    def __init__(self, root: Path, apart: frozenset[str]) -> None:
        self.root, self.apart = str(root), apart
        self.top = 0
        self.folders = {self.top}
        self.names: dict[Slot, int] = {}
        self.files: dict[int, bytes] = {}
        self.modes: dict[int, int] = {}
        self.events: list[Event] = []
        self._gone: dict[str, int] = {}
        self._last = 0
        numbers: dict[int, int] = {}
        for path, seen in _walk(root, apart):
            inode = numbers.get(seen.st_ino)
            if inode is None:
                inode = numbers[seen.st_ino] = self._new(folder=stat.S_ISDIR(seen.st_mode))
            self.names[self._slot(path)] = inode
            self.modes[inode] = stat.S_IMODE(seen.st_mode)
            if inode not in self.folders:
                self.files[inode] = Path(path).read_bytes()

    def frozen(self) -> Disk:
        """The disk as it is now."""
        return Disk(self.top, frozenset(self.folders), dict(self.names), dict(self.files))

    def _new(self, *, folder: bool) -> int:
        self._last += 1
        if folder:
            self.folders.add(self._last)
        return self._last

    # ---------------------------------------------------------------- changes

    def do(self, event: Names | Write | Size) -> None:
        """Let something happen."""
        if isinstance(event, Names):
            for slot, inode in event.slots:
                if slot in self.names and inode is None:
                    self._gone[self.path_of(slot)] = self.names[slot]
            put(self.names, event)
        else:
            self.files[event.inode] = after(self.files[event.inode], [event])
        self.events.append(event)

    def create(self, slot: Slot, mode: int, *, folder: bool) -> None:
        """Make a file or a folder."""
        inode = self._new(folder=folder)
        if not folder:
            self.files[inode] = b""
        self.modes[inode] = mode & ~_OTHERS_MAY_WRITE
        self.do(Names(((slot, inode),)))

    def rename(self, source: Slot, target: Slot, *, exchange: bool) -> None:
        """Rename a file or folder, in the place of another if there is one, or exchange the two."""
        if exchange:
            self.do(Names(((source, self.names[target]), (target, self.names[source]))))
            return
        if target in self.names:
            self._gone[self.path_of(target)] = self.names[target]
        self.do(Names(((source, None), (target, self.names[source]))))

    # ------------------------------------------------------------------ paths

    def is_ours(self, path: str) -> bool:
        """Whether a path is the root or lies below it."""
        if path == self.root:
            return True
        if not path.startswith(self.root + "/"):
            return False
        return path[len(self.root) + 1 :].partition("/")[0] not in self.apart

    def is_file(self, value: Value) -> bool:
        """Whether a value is a descriptor of something on this disk."""
        return isinstance(value, Opened) and self.is_ours(value.path)

    def place(self, words: Sequence[Value]) -> Slot | None:
        """The name that a path, or a descriptor of a folder and a path in it, leads to; None: not on this disk."""
        path = path_in(words[-1])
        if len(words) == 2:
            path = os.path.join(opened(words[0]).path, path)
        path = os.path.normpath(path)
        return self._slot(path) if self.is_ours(path) and path != self.root else None

    def inode(self, path: str) -> int:
        """What a descriptor that leads to this path has open, though it may be unlinked."""
        if path == self.root:
            return self.top
        plain = path.removesuffix(" (deleted)")
        try:
            return self.names[self._slot(plain)]
        except KeyError:
            if plain in self._gone:
                return self._gone[plain]
            raise UnmodelledError(f"nothing is known of {path}") from None

    def path_of(self, slot: Slot) -> str:
        """The path of a name."""
        folder, path = slot
        above = {inode: place for place, inode in self.names.items() if inode in self.folders}
        while folder != self.top:
            folder, name = above[folder]
            path = f"{name}/{path}"
        return f"{self.root}/{path}"

    def _slot(self, path: str) -> Slot:
        folder, _, name = path[len(self.root) + 1 :].rpartition("/")
        at = self.top
        for part in filter(None, folder.split("/")):
            at = self.names[at, part]
        return at, name

    def verify(self) -> None:
        """What the model holds in the end is what lies there, or the recording proves nothing."""
        held = {self.path_of(slot): self.files.get(inode) for slot, inode in self.names.items()}
        there = {}
        for path, seen in _walk(Path(self.root), self.apart):
            there[path] = None if stat.S_ISDIR(seen.st_mode) else Path(path).read_bytes()
            if path.endswith(MAPPED) and path in held:
                held[path] = there[path]
            if path in held:
                self.modes[self.names[self._slot(path)]] = stat.S_IMODE(seen.st_mode)
        if held != there:
            names = sorted(path for path in held.keys() | there.keys() if held.get(path, 0) != there.get(path, 0))
            raise UnmodelledError(f"the model and the disk differ: {names}")


def opened(value: Value) -> Opened:
    """The value as a descriptor."""
    if not isinstance(value, Opened):
        raise UnmodelledError(f"no descriptor: {value!r}")
    return value


def path_in(value: Value) -> str:
    """The path that a value is or leads to; empty where it is none."""
    if isinstance(value, Opened):
        return value.path
    return os.fsdecode(value) if isinstance(value, bytes) else ""


def _walk(root: Path, apart: frozenset[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below the root with its stat, folders before what is in them."""
    for folder, folders, files in os.walk(root):
        if folder == str(root):
            folders[:] = [name for name in folders if name not in apart]
        for name in [*folders, *files]:
            path = f"{folder}/{name}"
            if folder != str(root) or name not in apart:
                yield path, os.lstat(path)
