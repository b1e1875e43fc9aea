"""Claims: one rename takes an entry for one keeper, one rename or unlink ends it. A lost race goes on to the next.

rename keeps mtime, so an entry is touched before it is claimed: the claim's age is its own.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence

from kranzq.backend import Candidate
from kranzq.backends.file.entries import place_of
from kranzq.backends.file.folders import Folders
from kranzq.backends.file.item_claims import claimed_item
from kranzq.backends.file.layout import (
    CLAIM_MARK,
    ClaimName,
    EntryName,
    ItemName,
    claim_name,
    parse_claim_name,
    parse_entry_name,
    parse_item_name,
)
from kranzq.disk import atomic
from kranzq.errors import ClaimLost
from kranzq.model.claim import ITEM_MARK, Claimed, Place
from kranzq.model.state import State


def take(folders: Folders, candidate: Candidate, pid: int, suffix: str) -> Claimed | None:
    """Rename a candidate to its claimed name. `change` must be held.

    None when it is gone, or when the file is no longer the one that was read: then it is put back under its name.
    """
    entry = entry_of(candidate.place)
    name = claim_name(entry, pid, suffix)
    try:
        os.utime(entry.text, dir_fd=folders.queue, follow_symlinks=False)
        atomic.move(folders.queue, entry.text, folders.queue, name.text, inode=candidate.inode)
    except FileNotFoundError:
        return None
    seen = os.stat(name.text, dir_fd=folders.queue, follow_symlinks=False)
    if (seen.st_ino, seen.st_dev) != (candidate.inode, candidate.device) or _exists(folders.queue, entry.text):
        with contextlib.suppress(FileExistsError):
            atomic.move(folders.queue, name.text, folders.queue, entry.text)
        return None
    return _claimed(name, seen)


def listed(folders: Folders) -> Iterator[Claimed]:
    """All claims that lie in the queue. Text that only looks like one is none, and so is what git brought along."""
    names = folders.names()
    if CLAIM_MARK not in (text := "/".join(names)) and ITEM_MARK not in text:
        return iter(())  # of ten thousand names mostly none is a claim's
    return named(folders, sorted(name for name in names if CLAIM_MARK in name or name.startswith(ITEM_MARK)))


def named(folders: Folders, names: Iterable[str]) -> Iterator[Claimed]:
    """Those of the names that are claims that lie in the queue, as `listed` has them."""
    seen: dict[str, os.stat_result] = {}
    for name in names:
        with contextlib.suppress(OSError):
            seen[name] = os.stat(name, dir_fd=folders.queue, follow_symlinks=False)
    brought = _brought_along(folders, seen, [name for name, one in seen.items() if stat.S_ISDIR(one.st_mode)])
    for name, one in seen.items():
        parsed = parse_item_name(name) or parse_claim_name(name)
        if parsed is not None and name not in brought:
            yield claimed_item(parsed, one) if isinstance(parsed, ItemName) else _claimed(parsed, one)


def strange(folders: Folders) -> list[str]:
    """Names that bear the mark of a claim and are none: never probed, named for a person."""
    marked = [name for name in folders.names() if CLAIM_MARK in name]
    brought = _brought_along(folders, marked, marked)
    return sorted(name for name in marked if parse_claim_name(name) is None or name in brought)


def still_there(folders: Folders, claimed: Claimed) -> bool:
    """Whether the claim is the same file under the same name."""
    try:
        return os.stat(claimed.place.name, dir_fd=folders.queue, follow_symlinks=False).st_ino == claimed.inode
    except OSError:
        return False


def entry_of(place: Place) -> EntryName:
    """The entry's name in the name of a place, claimed or not. Raises ClaimLost when it bears none."""
    text = place.name.partition(CLAIM_MARK)[0]
    parsed = parse_entry_name(text)
    if parsed is None:
        raise ClaimLost(place.name)
    return parsed


def _claimed(name: ClaimName, seen: os.stat_result) -> Claimed:
    return Claimed(
        place=place_of(name.entry, State.CLAIMED, name.text),
        entry_name=name.entry.text,
        pid=name.pid,
        suffix=name.suffix,
        inode=seen.st_ino,
        touched_at=max(seen.st_mtime, seen.st_ctime),
        modified_at=seen.st_mtime,
    )


def _brought_along(folders: Folders, names: Collection[str], inner: Sequence[str]) -> frozenset[str]:
    """Those of the names that git tracks: no process of this checkout made them.

    `inner` are those that may be folders, which may be repositories themselves.
    """
    if not names:
        return frozenset()
    from kranzq.disk.tracked import tracked  # noqa: PLC0415 - only where a claim lies

    known = tracked(folders.checkout.root, *(f".kranz/queue/{name}" for name in inner))
    if not known.names:
        return frozenset()
    return frozenset(name for name in names if known.has(f".kranz/queue/{name}") is True)


def _exists(dir_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return False
    return True
