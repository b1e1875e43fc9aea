"""Entries: looking, reading and enqueueing. What lies in `queue/` as an entry may run.

Listing and choosing read names only; content is read just before a claim. Each reader shows an entry that has two
names for an instant (where a rename cannot refuse to replace) once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import replace

from kranzq.backend import Accepted, Candidate
from kranzq.backends.file import aside, sequence
from kranzq.backends.file.change import number_lock
from kranzq.backends.file.folders import Folders, names_in
from kranzq.backends.file.layout import (
    EntryName,
    ItemName,
    entry_name,
    is_candidate,
    order_keys,
    parse_claim_name,
    parse_entry_name,
    parse_item_name,
    parse_waiting_name,
    waiting_name,
)
from kranzq.disk import atomic
from kranzq.disk.birth import born_ns_of
from kranzq.disk.read import ENTRY_LIMIT, GONE, Unreadable, open_folder, read_regular
from kranzq.errors import BadEntry, Conflict
from kranzq.events import Enqueued, emit
from kranzq.model.claim import ITEM_MARK, Place
from kranzq.model.clock import seconds_of, to_ms
from kranzq.model.entry import Entry, Own, parse, render
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State

FRESH_S = 2.0
"""So long an empty or truncated file may still be in the making."""


@frozen
class Bad:
    """A file that asks to be an entry and is none. `fresh`: it may still be written, or is not ours to judge."""

    name: str
    why: str
    fresh: bool = False


def ordered(folders: Folders) -> tuple[list[str], list[str]]:
    """The names of all entries in order, and the candidates' names that are none. Nothing is parsed for it."""
    keys = order_keys(names_in(folders.queue))
    good = sorted((key, name) for name, key in keys.items() if key is not None)
    return [name for _, name in good], [name for name, key in keys.items() if key is None]


def names(folders: Folders) -> tuple[list[EntryName], list[str]]:
    """As `ordered`, with the entries' names parsed."""
    good, bad = ordered(folders)
    return [parsed for name in good if (parsed := parse_entry_name(name)) is not None], bad


def read(folders: Folders, name: EntryName) -> Candidate | Bad | None:
    """The entry under a name in `queue/`; Bad with the reason; None when it is gone."""
    found = read_entry(folders.queue, name.text, name.mission)
    if not isinstance(found, tuple):
        return found
    entry, seen = found
    place = place_of(name, State.QUEUED)
    named = replace(entry, priority=name.priority, number=name.number)
    return Candidate(named, place, seen.st_ino, seen.st_dev, born_ns_of(name.text, folders.queue))


def read_entry(dir_fd: int, name: str, mission: MissionId) -> tuple[Entry, os.stat_result] | Bad | None:
    """The entry in any file of the queue, whose content must name `mission`."""
    try:
        found = read_regular(name, dir_fd=dir_fd, limit=ENTRY_LIMIT)
    except Unreadable as fault:
        return Bad(name, fault.why, fresh=fault.denied or fault.lacking is not None)  # it may be a good one
    if found is None:
        return None
    try:
        entry = parse(found.data)
        if entry.mission != mission:
            raise BadEntry(f"its name says mission {mission}, its content {entry.mission}")
    except BadEntry as fault:
        return Bad(name, fault.why, fresh=fault.partial and _age(found.stat) < FRESH_S)
    return entry, found.stat


def check_name(folders: Folders, name: str) -> Bad:
    """Why a candidate's name is no entry's name; half-written ones of other programs get their two seconds."""
    why = "its name is not PRIORITY-NUMBER-MISSION.json with a number from 0 to 10^15"
    return Bad(name, why, fresh=is_fresh(folders.queue, name))


def is_fresh(dir_fd: int, name: str, *, empty: bool = True) -> bool:
    """Whether a file may still be in the making: it is young, and `empty`; or gone, which is nobody's fault."""
    try:
        seen = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return True
    return (not empty or seen.st_size == 0) and _age(seen) < FRESH_S


def exists(dir_fd: int, name: str) -> bool:
    """Whether something lies under a name."""
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def places(folders: Folders, mission: MissionId | None = None) -> Iterator[Place]:
    """Every place of every entry, or of one mission's (ignoring case, so that look-alikes are seen)."""
    wanted = mission.lower() if mission is not None else ""
    for place in _all_places(folders, lambda name: wanted in name.lower() or name.startswith(ITEM_MARK)):
        if mission is None or place.mission.lower() == wanted:
            yield place


def places_of(folders: Folders, missions: Container[str]) -> Iterator[Place]:
    """Every place of these missions that is no claim; names of others are not parsed."""
    for place in _all_places(folders, lambda name: name.split("-", 2)[-1].removesuffix(".json") in missions):
        if place.mission in missions:
            yield place


def place_of(name: EntryName, state: State, text: str | None = None, due_ms: int | None = None) -> Place:
    """A name as a place."""
    return Place(state, text or name.text, name.mission, name.priority, name.number, due_ms)


def item_place(name: ItemName) -> Place:
    """The place of an item while it runs: it has no order among entries, and no number."""
    return Place(State.CLAIMED, name.text, name.mission, 0, 0)


def folder_of(folders: Folders, state: State) -> int | None:
    """The directory in which entries of a state lie."""
    if state is State.WAITING:
        return folders.aside("waiting")
    if state is State.PARKED:
        return folders.aside("parked")
    return folders.queue


def enqueue(folders: Folders, new: Entry, *, floor: Callable[[MissionId], int | None]) -> Accepted[Entry, State]:
    """Make an entry that survives a power cut, or say what is there. `change` must be held.

    `floor` gives the largest number in a mission's own records. A crash leaves either nothing, a skipped number and
    perhaps a hidden temporary file, or the whole entry.
    """
    again = new.own is not None and new.own.again
    there = list(places(folders, new.mission))
    refuse_look_alikes(folders, new.mission, there)
    for place in sorted(there, key=lambda place: place.state is State.CLAIMED):
        if again and place.state is State.CLAIMED:
            continue
        return _already(folders, new, place)
    with number_lock(folders):
        number = sequence.next_number(folders, floor(new.mission))
        try:
            sequence.record(folders, number)
            name = entry_name(new.priority, number, new.mission)
            entry = replace(new, number=number)
            state = _publish(folders, name, entry)
        except OSError as fault:
            raise atomic.store_fault(folders.checkout.queue, fault) from fault
    emit(Enqueued(str(entry.mission), number, entry.priority))
    return Accepted(entry, created=True, state=state)


def due_ms_of(own: Own | None) -> int | None:
    """When the entry itself says that it is due, in wall milliseconds; None when that is past or not said."""
    due = seconds_of(own.not_before) if own is not None else None
    return to_ms(due) if due is not None and due > time.time() else None


def _publish(folders: Folders, name: EntryName, entry: Entry) -> State:
    """Make it appear where it belongs: what must wait is never seen among what may run."""
    own, due_ms = entry.own, due_ms_of(entry.own)
    if due_ms is None and not (own is not None and own.after):
        atomic.publish(folders.queue, name.text, render(entry))
        return State.QUEUED
    waiting = waiting_name(name, None if own is not None and own.after else due_ms)
    atomic.publish(folders.made("waiting"), waiting.text, render(entry))
    return State.WAITING


def _all_places(folders: Folders, is_meant: Callable[[str], bool]) -> Iterator[Place]:
    """All places whose names are meant: most names need not be parsed."""
    asides: tuple[tuple[int | None, Callable[[str], Place | None]], ...] = (
        (folders.queue, _place_in_queue),
        (folders.aside("waiting"), _place_in_waiting),
        (folders.aside("parked"), _place_in_parked),
    )
    for fd, place_in in asides:
        for name in names_in(fd):
            if is_meant(name) and (place := place_in(name)) is not None:
                yield place


def _place_in_queue(name: str) -> Place | None:
    if is_candidate(name):
        entry = parse_entry_name(name)
        return None if entry is None else place_of(entry, State.QUEUED)
    if name[0] == ".":
        item = parse_item_name(name)
        return None if item is None else item_place(item)
    claim = parse_claim_name(name)
    return None if claim is None else place_of(claim.entry, State.CLAIMED, claim.text)


def _place_in_waiting(name: str) -> Place | None:
    waiting = parse_waiting_name(name)
    return None if waiting is None else place_of(waiting.entry, State.WAITING, waiting.text, waiting.due_ms)


def _place_in_parked(name: str) -> Place | None:
    parked = parse_entry_name(name)  # a reason's name is none: no id ends in what it adds
    return None if parked is None else place_of(parked, State.PARKED)


def _already(folders: Folders, new: Entry, place: Place) -> Accepted[Entry, State]:
    if place.state is State.PARKED:
        raise Conflict(
            f"Mission {new.mission} is parked: {aside.why(folders, place.name)}. Nothing was changed.",
            f"Let it run with: kranzq unpark {new.mission}; or take it out: kranzq cancel {new.mission}",
        )
    fd = folder_of(folders, place.state)
    found = read_entry(fd, place.name, place.mission) if fd is not None else None
    if isinstance(found, tuple):
        there = replace(found[0], priority=place.priority, number=place.number)
        if command_of(there) == command_of(new):
            return Accepted(there, created=False, state=place.state)
        behind = ", or queue one more run behind it with --again" if place.state is State.CLAIMED else ""
        raise Conflict(
            f"Mission {new.mission} is {place.state.value} with another command. Nothing was changed.",
            f"Take it out first (kranzq cancel {new.mission}){behind}.",
        )
    raise Conflict(
        f"Mission {new.mission} has a file {place.name} that cannot be read. Nothing was changed.",
        "See: kranzq check",
    )


def command_of(entry: Entry) -> tuple[str, ...]:
    """The entry's own command; empty when it has none."""
    return entry.own.command if entry.own is not None else ()


def refuse_look_alikes(folders: Folders, mission: MissionId, there: Iterable[Place]) -> None:
    """Raise Conflict for an id that differs only in case from one that exists; `there` are its places."""
    known = {place.mission for place in there}
    lowered = mission.lower()
    try:
        missions = open_folder("missions", dir_fd=folders.kranz)
    except OSError as fault:
        if fault.errno not in GONE:
            raise
    else:
        try:
            # ASCII only: another letter's lower case may be one of ours
            known |= {MissionId(name) for name in names_in(missions) if name.isascii() and name.lower() == lowered}
        finally:
            os.close(missions)
    for other in known:
        if other != mission:
            raise Conflict(
                f"Mission {mission} differs only in the case of its letters from {other}, which exists.",
                "Choose another id.",
            )


def _age(seen: os.stat_result) -> float:
    """Seconds since a file last changed; by its ctime, which nobody can set. One from the future is no fresh one."""
    age = time.time() - seen.st_ctime
    return age if age >= 0 else FRESH_S
