"""A model of a disk that loses its power: what each sync makes safe, and what a cut may leave of all the rest.

Pure. POSIX, and nothing more, but for one thing: a change of names (a rename, an exchange) is whole, so a file is never
under neither of its names nor under both. What is synced is there. Of what is not, any part may be there, in any order,
as long as a change of a name comes after the changes of the same name before it: no disk frees a name before it has
given it. `torn` gives up that one thing too: each name of a rename is then kept or lost alone, as on a disk without a
journal.

A journaling file system (ext4, xfs, btrfs) leaves much less than this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Slot = tuple[int, str]
"""A name in a folder: the folder's inode and the name."""


class Names(NamedTuple):
    """Names get inodes (None: no more), all or none of them."""

    slots: tuple[tuple[Slot, int | None], ...]


class Write(NamedTuple):
    """Bytes are put into a file."""

    inode: int
    at: int
    data: bytes


class Size(NamedTuple):
    """A file is cut short, or grows by zeros."""

    inode: int
    size: int


class Sync(NamedTuple):
    """A sync of a file, a folder, or (None) of everything is over; `since`: how many events were over as it began."""

    inode: int | None
    since: int


class Told(NamedTuple):
    """Something was said to whoever asked, or done to the world: from here on it is promised, and not taken back."""

    text: str
    path: str = ""
    """Where it was written, if that is a file that no cut takes anything from."""


Event = Names | Write | Size | Sync | Told
Content = Write | Size


@dataclass(frozen=True)
class Disk:
    """A tree that is safe: what each name leads to, and each file's bytes."""

    root: int
    folders: frozenset[int]
    """All inodes that are folders, those to come included."""
    names: Mapping[Slot, int]
    files: Mapping[int, bytes]


@dataclass(frozen=True)
class Cut:
    """The power is gone after so many events: what is safe, and what may be there besides."""

    instant: int
    disk: Disk
    pending: Sequence[Names]
    needs: Sequence[frozenset[int]]
    """For each pending change those of the pending ones that come before it."""
    contents: Mapping[int, tuple[Content, ...]]
    """What was put into each file since its last sync."""

    @property
    def open_ends(self) -> int:
        """How much is pending."""
        return len(self.pending) + len(self.contents)


def cuts(disk: Disk, events: Sequence[Event], *, torn: bool = False) -> Iterator[Cut]:
    """The power cut at each instant: before the first event, and after each of them."""
    rows = [_split(event) if torn and isinstance(event, Names) else [event] for event in events]
    safe_names: set[tuple[int, int]] = set()
    safe_content: dict[int, int] = {}
    for instant in range(len(rows) + 1):
        if instant and isinstance(sync := rows[instant - 1][0], Sync):
            _make_safe(rows, sync, safe_names, safe_content)
        yield _cut(disk, rows[:instant], safe_names, safe_content)


def _split(names: Names) -> list[Event]:
    return [Names((slot,)) for slot in names.slots]


def _make_safe(
    rows: Sequence[Sequence[Event]], sync: Sync, names: set[tuple[int, int]], content: dict[int, int]
) -> None:
    """What a sync makes safe: a file's bytes; all changes of a folder's names, with those that they come after."""
    last: dict[Slot, tuple[int, int]] = {}
    needs: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for index, row in enumerate(rows[: sync.since]):
        for part, event in enumerate(row):
            here = index, part
            if isinstance(event, Names):
                slots = [slot for slot, _ in event.slots]
                needs[here] = {last[slot] for slot in slots if slot in last}
                last.update(dict.fromkeys(slots, here))
                if sync.inode is None or sync.inode in {folder for folder, _ in slots}:
                    _add_with_needs(names, here, needs)
            elif isinstance(event, Content) and sync.inode in {None, event.inode}:
                content[event.inode] = max(content.get(event.inode, 0), index + 1)


def _add_with_needs(
    safe: set[tuple[int, int]], one: tuple[int, int], needs: Mapping[tuple[int, int], set[tuple[int, int]]]
) -> None:
    left = [one]
    while left:
        if (here := left.pop()) not in safe:
            safe.add(here)
            left.extend(needs[here])


def _cut(
    disk: Disk, rows: Sequence[Sequence[Event]], safe_names: set[tuple[int, int]], safe_content: Mapping[int, int]
) -> Cut:
    names, files = dict(disk.names), dict(disk.files)
    pending: list[Names] = []
    needs: list[frozenset[int]] = []
    contents: dict[int, tuple[Content, ...]] = {}
    last: dict[Slot, int] = {}
    for index, row in enumerate(rows):
        for part, event in enumerate(row):
            if isinstance(event, Names):
                if (index, part) in safe_names:
                    put(names, event)
                    continue
                slots = [slot for slot, _ in event.slots]
                needs.append(frozenset(last[slot] for slot in slots if slot in last))
                last.update(dict.fromkeys(slots, len(pending)))
                pending.append(event)
            elif isinstance(event, Content):
                if index < safe_content.get(event.inode, 0):
                    files[event.inode] = after(files.get(event.inode, b""), [event])
                else:
                    contents[event.inode] = (*contents.get(event.inode, ()), event)
    safe = Disk(disk.root, disk.folders, names, files)
    return Cut(len(rows), safe, pending, needs, contents)


def put(names: dict[Slot, int], change: Names) -> None:
    """Carry out a change of names."""
    for slot, inode in change.slots:
        if inode is None:
            names.pop(slot, None)
        else:
            names[slot] = inode


def after(data: bytes, changes: Iterable[Content]) -> bytes:
    """A file's bytes after some changes."""
    for change in changes:
        if isinstance(change, Size):
            data = data[: change.size].ljust(change.size, b"\0")
        else:
            data = data.ljust(change.at, b"\0")
            data = data[: change.at] + change.data + data[change.at + len(change.data) :]
    return data


@dataclass(frozen=True)
class State:
    """What is there when the power is back: each path below the root with its inode, and the bytes of each file."""

    paths: Mapping[str, int]
    files: Mapping[int, bytes]
    """Only inodes that are files."""

    def tree(self) -> dict[str, bytes | None]:
        """Each path with the file's bytes; None: a folder."""
        return {path: self.files.get(inode) for path, inode in self.paths.items()}


def state(cut: Cut, kept: Iterable[int], contents: Mapping[int, bytes]) -> State:
    """One state: these pending changes of names were kept, and these files are not as they were last synced."""
    names = dict(cut.disk.names)
    for index in sorted(kept):
        put(names, cut.pending[index])
    below: dict[int, list[tuple[str, int]]] = {}
    for (folder, name), inode in names.items():
        below.setdefault(folder, []).append((name, inode))
    paths, files = dict[str, int](), dict[int, bytes]()
    left = [("", cut.disk.root)]
    while left:
        path, folder = left.pop()
        for name, inode in below.get(folder, ()):
            paths[path + name] = inode
            if inode in cut.disk.folders:
                left.append((f"{path}{name}/", inode))
            else:
                files[inode] = contents.get(inode, cut.disk.files.get(inode, b""))
    return State(dict(sorted(paths.items())), files)


def variants(before: bytes, changes: Sequence[Content]) -> list[bytes]:
    """What may be in a file that was not synced since these changes; the first is that all are there.

    Missing; in part from the front; all of its length without what was written, without the first half of it, without
    the second, or without all but the last of it. Where bytes are missing are those from before, or zeros.
    """
    whole = after(before, changes)
    found = {whole: None, before: None}
    found |= dict.fromkeys(after(before, changes[:count]) for count in range(1, min(len(changes), 8)))
    for lost in (_ALL, _FIRST_HALF, _SECOND_HALF):
        found[after(before, itertools.chain.from_iterable(_without(change, *lost) for change in changes))] = None
    earlier = itertools.chain.from_iterable(_without(change, *_ALL) for change in changes[:-1])
    found[after(before, [*earlier, changes[-1]])] = None
    if isinstance(last := changes[-1], Write):
        found[after(after(before, changes[:-1]), [last._replace(data=last.data[: len(last.data) // 2])])] = None
    return list(found)


_ALL, _FIRST_HALF, _SECOND_HALF = (0.0, 1.0), (0.0, 0.5), (0.5, 1.0)


def _without(change: Content, begin: float, end: float) -> list[Content]:
    """The same change without a part of its bytes: the file's length came to the disk, and these bytes did not."""
    if isinstance(change, Size):
        return [change]
    length = len(change.data)
    first, last = round(length * begin), round(length * end)
    rest = change._replace(at=change.at + last, data=change.data[last:])
    return [change._replace(data=change.data[:first]), rest, change._replace(at=change.at + length, data=b"")]
