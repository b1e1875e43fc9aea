"""What git tracks, read from its index without running git: in a hostile checkout git runs what the checkout says.

Versions 2 to 4, linked worktrees and submodules, an index split in two files, repositories nested in `.kranz`. An index
that cannot be understood tells nothing, and the answer says so. Names are compared in small letters: on some disks
`.Kranz` is `.kranz`.
"""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Iterator

from kranzq.disk.read import Unreadable, read_regular
from kranzq.model.frozen import frozen

_INDEX_LIMIT = 512 * 1024 * 1024
_POINTER = b"gitdir: "
_BELOW = ".kranz"
_NESTED = ("", "/queue", "/queue/waiting", "/queue/parked", "/queue/inbox", "/missions")
_HEADER = 12
_STAT = 40
_OBJECT_NAMES = (20, 32)
"""Bytes of an object's name, by SHA-1 and by SHA-256; the index itself does not say which."""
_EXTENDED, _LENGTH = 0x4000, 0x0FFF
_VERSIONS = (2, 3, 4)
_COMPRESSED = 4
_SPLIT = b"link"

IndexKey = tuple[str, int, int, int, int] | None
"""Path, device, inode, size and mtime of an index file; None where there is none."""


@frozen
class Tracked:
    """What is tracked at `.kranz` or below it, as paths below the root in small letters; `told` is whether all is."""

    names: frozenset[str]
    folders: frozenset[str]
    told: bool = True

    def has(self, path: str) -> bool | None:
        """Whether the path, something below it or a folder around it is tracked; None where it cannot be told."""
        wanted = path.lower()
        if wanted in self.names or wanted in self.folders or any(one in self.names for one in _above(wanted)):
            return True
        return False if self.told else None


def tracked(root: str, *inside: str) -> Tracked:
    """What is tracked below `.kranz` of the checkout, in its own repository or one nested there.

    `inside` names more folders (paths below the root) in which a nested repository may lie. An index is parsed again
    only when its stat has changed.
    """
    places = dict.fromkeys(["", *(f"{_BELOW}{name}" for name in _NESTED), *inside])
    found = [(place, _key_of(f"{root}/{place}" if place else root)) for place in places]
    return _joined(tuple((place, key) for place, key in found if key is not None))


def is_tracked(root: str, path: str) -> bool | None:
    """Whether one path below the root (in `.kranz`) is tracked; None where it cannot be told."""
    inside = [folder for folder in _above(path) if folder != _BELOW]
    return tracked(root, *inside, path).has(path)


def tracked_below(root: str, prefix: str) -> list[str] | None:
    """The names in the checkout's own index that begin with `prefix`, in any case; None where it cannot be told."""
    try:
        names = _index_names(f"{_git_folder(root)}/index")
    except (Unreadable, OSError):
        names = None
    if names is None:
        return None
    wanted = os.fsencode(prefix).lower()
    return [os.fsdecode(name) for name in names if name.lower().startswith(wanted)]


@functools.lru_cache(maxsize=8)
def _joined(keys: tuple[tuple[str, IndexKey], ...]) -> Tracked:
    names: set[str] = set()
    told = True
    for place, key in keys:
        found = _names_at_kranz(place, key)
        told = told and found is not None
        names |= found or set()
    return Tracked(frozenset(names), frozenset(folder for name in names for folder in _above(name)), told)


@functools.lru_cache(maxsize=64)
def _names_at_kranz(place: str, key: IndexKey) -> frozenset[str] | None:
    """The tracked names of one index that lie at or below `.kranz`; None where it cannot be told."""
    assert key is not None
    try:
        names = _index_names(key[0], hint=b"" if place else _BELOW.encode())
    except (Unreadable, OSError):
        return None
    if names is None:
        return None
    full = (f"{place}/{text}" if place else text for text in (os.fsdecode(name).lower().rstrip("/") for name in names))
    return frozenset(text for text in full if text == _BELOW or text.startswith(f"{_BELOW}/"))


def _key_of(folder: str) -> IndexKey:
    """The index of the repository in a folder, None where there is no repository or no index."""
    try:
        os.stat(f"{folder}/.git", follow_symlinks=False)  # most folders have none: one call, and no more
        path = f"{_git_folder(folder)}/index"
        seen = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, Unreadable, ValueError):
        return f"{folder}/.git", 0, 0, 0, 0
    return path, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


def _git_folder(root: str) -> str:
    """The folder of the index: `.git`, or where the file of a linked worktree or submodule points to."""
    path = f"{root}/.git"
    if os.path.isdir(path):
        return path
    pointer = read_regular(path)
    if pointer is None or not pointer.data.startswith(_POINTER):
        return path
    return os.path.join(root, os.fsdecode(pointer.data.removeprefix(_POINTER).strip()))


def _index_names(path: str, *, hint: bytes = b"") -> list[bytes] | None:
    """All names in an index; None when it is none. Where `hint` occurs nowhere, no name is needed and none given."""
    found = read_regular(path, limit=_INDEX_LIMIT)
    if found is None:
        return []
    if hint and _is_plain(found.data) and hint not in found.data.lower():
        return []
    for object_name in _OBJECT_NAMES:
        try:
            names, shared = _parsed(found.data, object_name)
        except (struct.error, ValueError, IndexError):
            continue
        if shared is None:
            return names
        # names that the second file dropped stay in: one too many keeps a mission waiting, one too few lets it run
        base = _index_names(f"{os.path.dirname(path)}/sharedindex.{shared.hex()}")
        return [*names, *base] if base else None
    return None


def _is_plain(data: bytes) -> bool:
    """Whether each name stands in these bytes as it is: no names made from the one before, no second file."""
    head = data[:_HEADER]
    return head[:4] == b"DIRC" and head[4:8] in {b"\0\0\0\2", b"\0\0\0\3"} and _SPLIT + b"\0" not in data


def _parsed(data: bytes, object_name: int) -> tuple[list[bytes], bytes | None]:
    """The names, and the object name of the file that a split index goes on in."""
    names: list[bytes] = []
    at = _HEADER
    for name, _, end in index_entries(data, object_name):
        names.append(name)
        at = end
    shared = None
    while at + 8 <= len(data) - object_name:
        kind, size = struct.unpack_from(">4sI", data, at)
        if kind == _SPLIT and any(data[at + 8 : at + 8 + object_name]):
            shared = data[at + 8 : at + 8 + object_name]
        elif not (kind[:1].isupper() or kind in {_SPLIT, b"sdir"}):
            raise ValueError("a part that must be understood and is not")
        at += 8 + size
    return names, shared


def index_entries(data: bytes, object_name: int) -> Iterator[tuple[bytes, int, int]]:
    """Each name in an index, where its entry begins, and where what comes after it begins. Raises ValueError."""
    mark, version, count = struct.unpack_from(">4sII", data)
    if mark != b"DIRC" or version not in _VERSIONS:
        raise ValueError("no index")
    at, name = _HEADER, b""
    for _ in range(count):
        begin = at
        at += _STAT + object_name
        (flags,) = struct.unpack_from(">H", data, at)
        at += 4 if flags & _EXTENDED else 2
        kept = 0
        if version == _COMPRESSED:
            dropped, at = _number(data, at)
            kept = len(name) - dropped
        end = data.index(b"\0", at)
        name = name[:kept] + data[at:end]
        if kept < 0 or min(len(name), _LENGTH) != flags & _LENGTH:
            raise ValueError("not of this form")
        at = end + 1 if version == _COMPRESSED else begin + ((end - begin) // 8 + 1) * 8
        yield name, begin, at


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = -1
    while True:
        value, byte = value + 1, data[at] if at < len(data) else 0
        value, at = (value << 7) | (byte & 0x7F), at + 1
        if not byte & 0x80:
            return value, at


def _above(path: str) -> Iterator[str]:
    """The folders around a path, the nearest first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
