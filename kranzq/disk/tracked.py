"""What git tracks, read from its index without running git: in a hostile checkout git runs what the checkout says.

An index that cannot be understood (damaged, or split in two files) tells nothing, and the answer says so.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from kranzq.disk.read import Unreadable, read_regular

_INDEX_LIMIT = 512 * 1024 * 1024
_POINTER = b"gitdir: "
_HEADER = 12
_STAT = 40
_OBJECT_NAMES = (20, 32)
"""Bytes of an object's name, by SHA-1 and by SHA-256; the index itself does not say which."""
_EXTENDED, _LENGTH = 0x4000, 0x0FFF
_VERSIONS = (2, 3, 4)
_COMPRESSED = 4


def tracked_below(root: str, prefix: str) -> list[str] | None:
    """The tracked names that begin with `prefix`, in any case of the letters; None where it cannot be told."""
    try:
        found = read_regular(f"{_git_folder(root)}/index", limit=_INDEX_LIMIT)
    except (Unreadable, OSError):
        return None
    if found is None:
        return []
    wanted = os.fsencode(prefix).lower()
    for object_name in _OBJECT_NAMES:
        try:
            return [os.fsdecode(name) for name in _names(found.data, object_name) if name.lower().startswith(wanted)]
        except (struct.error, ValueError):
            continue
    return None


def _git_folder(root: str) -> str:
    """The folder of the index: `.git`, or where the file of a linked worktree or submodule points to."""
    path = f"{root}/.git"
    if os.path.isdir(path):
        return path
    pointer = read_regular(path)
    if pointer is None or not pointer.data.startswith(_POINTER):
        return path
    return os.path.join(root, os.fsdecode(pointer.data.removeprefix(_POINTER).strip()))


def _names(data: bytes, object_name: int) -> Iterator[bytes]:
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
        yield name
        at = end + 1 if version == _COMPRESSED else begin + ((end - begin) // 8 + 1) * 8


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = -1
    while True:
        value, byte = value + 1, data[at] if at < len(data) else 0
        value, at = (value << 7) | (byte & 0x7F), at + 1
        if not byte & 0x80:
            return value, at
