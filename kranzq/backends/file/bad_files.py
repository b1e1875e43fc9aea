"""Bad files: what asks to be an entry, in `queue/`, `waiting/` or `parked/`, and is none. Named, and set aside.

They block nobody. A turn sets those in `queue/` aside as it meets them; in the two folders beside it everything that
is new is looked into once, so that what waits for a year is not found out when its time has come.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator

from kranzq.backend import Examined
from kranzq.backends.file import aside, entries
from kranzq.backends.file.change import PATIENCE_S, change
from kranzq.backends.file.entries import Bad, read_entry
from kranzq.backends.file.folders import Aside, Folders, names_in
from kranzq.backends.file.layout import WHY, is_candidate, parse_entry_name, parse_waiting_name
from kranzq.events import Warned, emit

BESIDE: tuple[Aside, ...] = ("waiting", "parked")
_SETTLED_S = 2.0
"""A folder's time moves in ticks: what changed within the last ones is looked at once more."""


class BadFiles:
    """A part of the file queue: what is no entry."""

    folders: Folders

    def bad(self) -> list[Bad]:
        """What asks to be an entry and is none; beside the queue with its folder in the name. Nothing is moved."""
        good, bad = entries.names(self.folders)
        found = [entries.check_name(self.folders, text) for text in bad]
        found += [one for name in good if isinstance(one := entries.read(self.folders, name), Bad)]
        for which in BESIDE:
            for name in _candidates(self.folders, which):
                if (one := _examine(self.folders, which, name)) is not None:
                    found.append(Bad(f"{which}/{name}", one.why, one.fresh))
        return found

    def has_bad_names(self) -> bool:
        """Whether a name alone tells that something is no entry."""
        return not self.is_tidy() or any(
            _why_not_named(self.folders, which, name) is not None
            for which in BESIDE
            for name in _candidates(self.folders, which)
        )

    def is_tidy(self) -> bool:
        """Whether every name in `queue/` that asks to be an entry's is one."""
        return not entries.ordered(self.folders)[1]

    def tidy_up(self, examined: Examined) -> None:
        """Set aside what is no entry in `waiting/` and `parked/`; what was examined before is not read again."""
        for which in BESIDE:
            _tidy(self.folders, which, examined)

    def _set_aside(self, bad: Bad) -> None:
        """Quarantine a bad file of `queue/`, unless it was mended or moved since it was read."""
        if bad.fresh:
            return
        with change(self.folders, patience=PATIENCE_S), contextlib.suppress(FileNotFoundError):
            name = parse_entry_name(bad.name)
            if name is None or isinstance(entries.read(self.folders, name), Bad):
                aside.quarantine(self.folders, bad.name, bad.why)


def _candidates(folders: Folders, which: Aside) -> Iterator[str]:
    return filter(is_candidate, sorted(names_in(folders.aside(which))))


def _tidy(folders: Folders, which: Aside, examined: Examined) -> None:
    fd = folders.aside(which)
    if fd is None:
        return
    seen = os.fstat(fd)
    key = (seen.st_dev, seen.st_ino, seen.st_mtime_ns)
    if examined.folders.get(which) == key:
        return
    known, now_known, settled = examined.files.get(which, {}), dict[str, int](), True
    for name, inode in _with_inodes(fd):
        if known.get(name) == inode or (bad := _examine(folders, which, name)) is None:
            now_known[name] = inode
        elif bad.fresh or not _quarantine(folders, which, name, examined):
            settled = False
    examined.files[which] = now_known
    if settled and time.time() - seen.st_mtime > _SETTLED_S:
        examined.folders[which] = key


def _with_inodes(fd: int) -> list[tuple[str, int]]:
    try:
        with os.scandir(fd) as found:
            return sorted((one.name, one.inode()) for one in found if is_candidate(one.name))
    except OSError:
        return []  # it was removed meanwhile


def _examine(folders: Folders, which: Aside, name: str) -> Bad | None:
    """What is wrong with a candidate beside the queue, None when nothing is or when it is gone."""
    fd = folders.aside(which)
    if fd is None:
        return None
    if (why := _why_not_named(folders, which, name)) is not None:
        return Bad(name, why, fresh=entries.is_fresh(fd, name, empty=not name.endswith(WHY)))
    waiting = parse_waiting_name(name) if which == "waiting" else None
    entry = waiting.entry if waiting is not None else parse_entry_name(name)
    found = read_entry(fd, name, entry.mission) if entry is not None else None
    return found if isinstance(found, Bad) else None


def _why_not_named(folders: Folders, which: Aside, name: str) -> str | None:
    """What is wrong with a name, None when it may be there."""
    if which == "waiting":
        wanted = "DUE.ENTRY or after.ENTRY, with a due time in milliseconds"
        return None if parse_waiting_name(name) is not None else f"its name is not {wanted}"
    if parse_entry_name(name) is not None:
        return None
    if not name.endswith(WHY):
        return "its name is not PRIORITY-NUMBER-MISSION.json with a number from 0 to 10^15"
    fd = folders.aside(which)
    alone = fd is not None and not entries.exists(fd, name.removesuffix(WHY))
    return "it is the reason of an entry that is not there" if alone else None


def _quarantine(folders: Folders, which: Aside, name: str, examined: Examined) -> bool:
    """Set one aside, unless it was mended, moved or completed since; False when it could not be moved."""
    try:
        with change(folders, patience=PATIENCE_S):
            bad = _examine(folders, which, name)
            if bad is None or bad.fresh:
                return bad is None
            _move(folders, which, bad)
    except FileNotFoundError:
        return True
    except OSError as fault:  # its owner alone may move it: it stays, and nobody waits for it
        told = (
            f"{folders.checkout.queue}/{which}/{name} is no entry, and cannot be set aside: {fault.strerror or fault}"
        )
        if told not in examined.told:
            examined.told.add(told)
            emit(Warned(told))
        return False
    return True


def _move(folders: Folders, which: Aside, bad: Bad) -> None:
    fd = folders.made(which)
    waiting = parse_waiting_name(bad.name) if which == "waiting" else None
    wanted = waiting.entry.text if waiting is not None else bad.name
    why = f"{bad.why} (it lay in {which}/)"
    if which == "parked" and entries.exists(fd, bad.name + WHY):
        why = f"{bad.why} (it was parked: {aside.why(folders, bad.name)})"
    aside.quarantine(folders, bad.name, why, wanted=wanted, from_fd=fd)
    if which == "parked":
        with contextlib.suppress(OSError):  # alone it is a bad file itself, and the next turn's
            aside.forget_why(folders, bad.name)
