"""The inbox: any program in any language renames a file there, and whoever looks next makes an entry of it, once.

First a rename to `.admitting.<number>`, which nobody can take away or write over by its old name; there it is read,
checked, given its numbered content and renamed to its place. At every instant it is in exactly one place, and what a
killed process left half-way is finished by the next one.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from kranzq.backend import Past
from kranzq.backends.file import aside, enqueueing, entries, sequence
from kranzq.backends.file.change import change, number_lock
from kranzq.backends.file.folders import Folders, names_in
from kranzq.backends.file.layout import ADMITTING, EntryName, entry_name, parse_admitting, waiting_name
from kranzq.disk import atomic
from kranzq.disk.read import ENTRY_LIMIT, Content, Unreadable, read_regular
from kranzq.errors import BadEntry, Conflict, UnsafePath
from kranzq.events import Enqueued, Repeated, emit
from kranzq.model.claim import Place
from kranzq.model.dropped import asks_admission
from kranzq.model.entry import Entry, parse, render
from kranzq.model.ids import MissionId
from kranzq.model.state import State

MOST_AT_ONCE = 1000
"""So many files are admitted in one look; the rest has its turn in the next."""

Recall = Callable[[MissionId], Past]
"""What the records of a mission's runs tell."""


class Inbox:
    """A part of the file queue: what lies in the inbox, and what is on its way from there."""

    folders: Folders

    def has_dropped(self) -> bool:
        """Whether anything asks to be admitted; only names are read."""
        return self.lies_in_inbox() or enqueueing.are_on_their_way(self.folders.names())

    def lies_in_inbox(self) -> bool:
        """Whether anything asks to be admitted that nobody has taken in hand; `enqueue` itself tells of the rest."""
        return bool(_dropped(self.folders))

    def dropped_missions(self) -> set[MissionId]:
        """The missions that lie in the inbox."""
        return {found[0].mission for _, _, found in readable(self.folders)}

    def admit_dropped(self, recall: Recall) -> list[tuple[str, str]]:
        """Make entries of what was dropped; what could not be moved, each with the reason. Takes `change` itself."""
        problems: list[tuple[str, str]] = []
        for name in _misnamed(self.folders):
            _tried(problems, name, partial(_set_aside, self.folders, name))
        for number in _on_their_way(self.folders):
            _tried(problems, f"{ADMITTING}{number}", partial(_finish_left, self.folders, number, recall))
        for name in _dropped(self.folders)[:MOST_AT_ONCE]:
            _tried(problems, f"inbox/{name}", partial(_admit, self.folders, name, recall))
        return problems


def _tried(problems: list[tuple[str, str]], name: str, act: Callable[[], str | None]) -> None:
    """One file's trouble must not keep the others out."""
    try:
        why = act()
    except FileNotFoundError:
        return
    except OSError as fault:
        why = f"it could not be moved: {fault.strerror or fault}"
    if why is not None:
        problems.append((name, why))


def _admit(folders: Folders, name: str, recall: Recall) -> str | None:
    """One file, from the inbox to its place; half a sentence when it has to stay where it is."""
    with change(folders):
        fd = folders.aside("inbox")
        if fd is None:
            return None
        seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
        found = _read(fd, name)
        if stat.S_ISDIR(seen.st_mode) or found is None:
            return None
        if isinstance(found, entries.Bad) and found.fresh:
            return found.why if _is_old(seen) else None
        tracked = _is_tracked(folders, f"inbox/{name}")
        if tracked:  # before it is renamed: under its next name nobody would know it again
            aside.quarantine(folders, name, _TRACKED, wanted=f"inbox.{name}", from_fd=fd)
            return None
        if tracked is None:
            return "git's index cannot be read, so nobody knows whether a clone brought it along"
        floor = recall(found[0].mission).number if isinstance(found, tuple) else None
        with number_lock(folders):
            number = sequence.next_number(folders, floor)
            sequence.record(folders, number)
            atomic.move(fd, name, folders.queue, f"{ADMITTING}{number}")
        _finish(folders, number, recall, came=seen.st_ctime, shown=f"inbox.{name}")
        os.fsync(fd)
    return None


def _set_aside(folders: Folders, name: str) -> None:
    """What nobody could finish: a number that is none would end up in the entry's name."""
    with change(folders):
        why = f"its name is not {ADMITTING}NUMBER with a number from 0 to 10^15"
        aside.quarantine(folders, name, why, wanted=f"inbox.{name.removeprefix(ADMITTING)}")


def _finish_left(folders: Folders, number: int, recall: Recall) -> str | None:
    """What a killed process had begun to admit. Of its first name nothing is known any more."""
    with change(folders):
        if _is_tracked(folders, f"{ADMITTING}{number}") is not False:
            aside.quarantine(folders, f"{ADMITTING}{number}", _TRACKED, wanted=f"inbox.{number}")
            return None
        seen = os.stat(f"{ADMITTING}{number}", dir_fd=folders.queue, follow_symlinks=False)
        _finish(folders, number, recall, came=seen.st_ctime, shown=f"inbox.{number}")
    return None


def _finish(folders: Folders, number: int, recall: Recall, *, came: float, shown: str) -> None:
    """From `.admitting.<number>` to its place; each step may be repeated. `change` must be held."""
    hidden = f"{ADMITTING}{number}"
    found = _read(folders.queue, hidden)
    if found is None:
        return
    if isinstance(found, tuple):
        found = _checked(folders, found)
    if isinstance(found, entries.Bad):
        if not found.fresh:
            aside.quarantine(folders, hidden, found.why, wanted=shown)
        return
    entry, content = found
    places = list(entries.places(folders, entry.mission))
    if any(place.number == number for place in places):
        atomic.remove(folders.queue, hidden)  # it has had two names since a kill: a rename may be a link and an unlink
        return
    if (waits := _same_that_waits(folders, entry, places)) is not None:
        atomic.remove(folders.queue, hidden)
        os.fsync(folders.queue)
        emit(Repeated(str(entry.mission), shown, waits.state.value))
        return
    numbered = replace(entry, number=number)
    if (data := render(numbered)) != content.data:
        atomic.exchange_content(folders.queue, hidden, data)
    name = entry_name(entry.priority, number, entry.mission)
    if (why := _why_parked(entry, places, recall(entry.mission), came)) is not None:
        _park(folders, hidden, name, why)
    else:
        _publish(folders, hidden, name, numbered)


def _checked(folders: Folders, found: tuple[Entry, Content]) -> tuple[Entry, Content] | entries.Bad:
    mission = found[0].mission
    try:
        enqueueing.refuse_look_alikes(folders, mission, entries.places(folders, mission))
    except Conflict as fault:
        return entries.Bad("", fault.sentence.rstrip("."))
    return found


def _publish(folders: Folders, hidden: str, name: EntryName, entry: Entry) -> None:
    own, due_ms = entry.own, enqueueing.due_ms_of(entry.own)
    waits = due_ms is not None or (own is not None and bool(own.after))
    to = waiting_name(name, None if own is not None and own.after else due_ms).text if waits else name.text
    to_fd = folders.made("waiting") if waits else folders.queue
    try:
        atomic.move(folders.queue, hidden, to_fd, to)
    except FileExistsError:
        _park(folders, hidden, name, aside.TAKEN)
        return
    os.fsync(to_fd)
    if waits:
        os.fsync(folders.queue)  # where its first name is gone
    emit(Enqueued(str(entry.mission), entry.number, entry.priority))


def _park(folders: Folders, hidden: str, name: EntryName, why: str) -> None:
    aside.park(folders, hidden, name, why)
    os.fsync(folders.made("parked"))
    os.fsync(folders.queue)


def _same_that_waits(folders: Folders, entry: Entry, places: list[Place]) -> Place | None:
    """The entry that will do what this one asks for: the same mission with the same command, still to run."""
    for place in places:
        if place.state in {State.QUEUED, State.WAITING}:
            fd = entries.folder_of(folders, place.state)
            there = entries.read_entry(fd, place.name, place.mission) if fd is not None else None
            if isinstance(there, tuple) and enqueueing.command_of(there[0]) == enqueueing.command_of(entry):
                return place
    return None


def _why_parked(entry: Entry, places: list[Place], past: Past, came: float) -> str | None:
    """Why a person must decide: nobody can be asked whether one more run is meant."""
    again = entry.own is not None and entry.own.again
    for place in places:
        if place.state is State.CLAIMED:
            if not again:
                return f"a duplicate from the inbox: the mission was running when it was admitted ({place.name})"
        elif place.state is State.PARKED:
            return f"a duplicate from the inbox: the mission is parked already ({place.name})"
        else:
            return f"a duplicate from the inbox: {place.name} is the same mission with another command"
    if not again and past.was_running_at(came):
        return f"a duplicate from the inbox: it came while run {past.run} was running"
    return None


def _read(fd: int, name: str) -> tuple[Entry, Content] | entries.Bad | None:
    try:
        content = read_regular(name, dir_fd=fd, limit=ENTRY_LIMIT)
    except Unreadable as fault:
        return entries.Bad(name, fault.why, fresh=fault.denied or fault.lacking is not None)  # it may be a good one
    if content is None:
        return None
    try:
        return parse(content.data), content
    except BadEntry as fault:
        return entries.Bad(name, fault.why, fresh=fault.partial and not _is_old(content.stat))


def _is_old(seen: os.stat_result) -> bool:
    """Whether nobody writes to it any more; only a write moves the mtime, and one in the future is no hindrance."""
    return abs(time.time() - seen.st_mtime) >= entries.FRESH_S


def _dropped(folders: Folders) -> list[str]:
    """The names that ask to be admitted, in the order in which they came: a rename moves the ctime."""
    try:
        fd = folders.aside("inbox")
    except UnsafePath:
        return []  # a link in its place leads nowhere; `check` names it
    found: list[tuple[int, str]] = []
    for name in filter(asks_admission, names_in(fd)):
        try:
            seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except OSError:
            continue
        if not stat.S_ISDIR(seen.st_mode):
            found.append((seen.st_ctime_ns, name))
    return [name for _, name in sorted(found)]


def _on_their_way(folders: Folders) -> list[int]:
    found = (parse_admitting(name) for name in folders.names() if name.startswith(ADMITTING))
    return sorted(number for number in found if number is not None)


def _misnamed(folders: Folders) -> list[str]:
    marked = [name for name in folders.names() if name.startswith(ADMITTING)]
    return sorted(name for name in marked if parse_admitting(name) is None)


def readable(folders: Folders) -> Iterator[tuple[int, str, tuple[Entry, Content]]]:
    """Folder, name and entry of what lies in the inbox or is on its way from there."""
    places = [(folders.queue, f"{ADMITTING}{number}") for number in _on_their_way(folders)]
    dropped = _dropped(folders)
    fd = folders.aside("inbox") if dropped else None
    places += [(fd, name) for name in dropped if fd is not None]
    for where, name in places:
        if isinstance(found := _read(where, name), tuple):
            yield where, name, found


_TRACKED = "tracked by git: a clone would bring it along"


def _is_tracked(folders: Folders, name: str) -> bool | None:
    from kranzq.disk.tracked import is_tracked  # noqa: PLC0415 - only where something was dropped

    return is_tracked(folders.checkout.root, f".kranz/queue/{name}")
