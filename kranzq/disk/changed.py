"""Which tracked files have probably changed, told from the index and the stat of each file; no git is run.

`git status` runs what a checkout's configuration says (filters, monitors); sizes and times of files run nothing. So a
file that was written again with the same bytes counts as changed too, and what git does not track is not seen.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from collections.abc import Sequence

from kranzq.disk.read import Unreadable, read_regular
from kranzq.disk.tracked import index_entries
from kranzq.model.tree import Changed

_INDEX_LIMIT = 64 * 1024 * 1024
_OBJECT_NAMES = (20, 32)
_STAT = 40
_FOLDERS = frozenset({0o160000, 0o040000})
"""Modes of submodules, and of folders that a sparse index does not list."""
_SPLIT = b"link"
_ASSUMED, _EXTENDED, _STAGED = 0x8000, 0x4000, 0x3000
_SKIPPED = 0x4000
_WORD = 2**32
_LONGEST_S = 3.0
_NAMED = 20
_LONGEST_NAME = 200


def changed(root: str, own: str) -> Changed | None:
    """The changed files below `root`, whose git folder is `own`; None where the index cannot be understood."""
    try:
        found = read_regular(f"{own}/index", limit=_INDEX_LIMIT)
    except (Unreadable, OSError):
        return None
    if found is None:
        return Changed(0, ())
    for object_name in _OBJECT_NAMES:
        try:
            return _compared(root, found.data, object_name)
        except (struct.error, ValueError, IndexError):
            continue
    return None


def _compared(root: str, data: bytes, object_name: int) -> Changed:
    names: list[bytes] = []
    until, behind = time.monotonic() + _LONGEST_S, 0
    for entry, begin, end in index_entries(data, object_name):
        behind = end
        if time.monotonic() > until:
            return Changed(len(names), _shown(names), complete=False)
        if (not names or names[-1] != entry) and _differs(root, entry, data, begin, begin + _STAT + object_name):
            names.append(entry)  # of a conflict there are up to three entries
    return Changed(len(names), _shown(names), complete=data[behind : behind + len(_SPLIT)] != _SPLIT)


def _shown(names: Sequence[bytes]) -> tuple[str, ...]:
    return tuple(os.fsdecode(name)[:_LONGEST_NAME] for name in names[:_NAMED])


def _differs(root: str, name: bytes, data: bytes, begin: int, flags_at: int) -> bool:
    _, _, seconds, nanoseconds, _, _, mode, _, _, size = struct.unpack_from(">10I", data, begin)
    (flags,) = struct.unpack_from(">H", data, flags_at)
    extended = struct.unpack_from(">H", data, flags_at + 2)[0] if flags & _EXTENDED else 0
    if flags & _ASSUMED or extended & _SKIPPED or mode in _FOLDERS or b".." in name.split(b"/"):
        return False
    if flags & _STAGED:
        return True
    try:
        seen = os.lstat(os.fsencode(root) + b"/" + name)
    except (OSError, ValueError):
        return True
    whole, rest = divmod(seen.st_mtime_ns, 10**9)
    same_time = whole % _WORD == seconds and nanoseconds in {0, rest}
    return not same_time or seen.st_size % _WORD != size or stat.S_IFMT(seen.st_mode) != stat.S_IFMT(mode)
