"""Enqueueing: an entry appears whole, synced and under a number of its own, or what is there already is told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kranzq.backend import Accepted, Unsettled
from kranzq.backends.file import aside, sequence
from kranzq.backends.file.change import number_lock
from kranzq.backends.file.entries import folder_of, places, read_entry
from kranzq.backends.file.folders import Folders, names_in, sweep
from kranzq.backends.file.layout import ADMITTING, EntryName, entry_name, waiting_name
from kranzq.disk import atomic
from kranzq.disk.read import GONE, open_folder
from kranzq.errors import Conflict
from kranzq.events import Enqueued, emit
from kranzq.model.claim import Place
from kranzq.model.clock import seconds_of, to_ms
from kranzq.model.entry import Entry, Own, render
from kranzq.model.ids import MissionId
from kranzq.model.state import State


def enqueue(
    folders: Folders, new: Entry, *, floor: Callable[[MissionId], int | None], looked: bool = True
) -> Accepted[Entry, State]:
    """Make an entry that survives a power cut, or say what is there. `change` must be held.

    `floor` gives the largest number in a mission's own records. A crash leaves either nothing, a skipped number and
    perhaps a hidden temporary file, or the whole entry. Raises Unsettled, if nobody has `looked`.
    """
    listed = folders.names()
    sweep(folders.queue, listed)
    again = new.own is not None and new.own.again
    there = list(places(folders, new.mission, listed))
    if not looked and (any(place.state is State.CLAIMED for place in there) or are_on_their_way(listed)):
        raise Unsettled
    refuse_look_alikes(folders, new.mission, there)
    for place in sorted(there, key=lambda place: place.state is State.CLAIMED):
        if again and place.state is State.CLAIMED:
            continue
        return _already(folders, new, place)
    with number_lock(folders):
        number = sequence.next_number(folders, floor(new.mission), listed)
        try:
            sequence.record(folders, number)
            name = entry_name(new.priority, number, new.mission)
            entry = replace(new, number=number)
            state = _publish(folders, name, entry)
        except OSError as fault:
            raise atomic.store_fault(folders.checkout.queue, fault) from fault
    emit(Enqueued(str(entry.mission), number, entry.priority))
    return Accepted(entry, created=True, state=state)


def are_on_their_way(listed: Sequence[str]) -> bool:
    """Whether something lies between the inbox and its place: somebody was killed, or is at it."""
    return f"/{ADMITTING}" in "/" + "/".join(listed)


def due_ms_of(own: Own | None) -> int | None:
    """When the entry itself says that it is due, in wall milliseconds; None when that is past or not said."""
    due = seconds_of(own.not_before) if own is not None else None
    return to_ms(due) if due is not None and due > time.time() else None


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
            names = tuple(names_in(missions))
            if f"/{lowered}/" in f"/{'/'.join(names)}/".lower():
                # ASCII only: another letter's lower case may be one of ours
                known |= {MissionId(name) for name in names if name.isascii() and name.lower() == lowered}
        finally:
            os.close(missions)
    for other in known:
        if other != mission:
            raise Conflict(
                f"Mission {mission} differs only in the case of its letters from {other}, which exists.",
                "Choose another id.",
            )


def _publish(folders: Folders, name: EntryName, entry: Entry) -> State:
    """Make it appear where it belongs: what must wait is never seen among what may run."""
    own, due_ms = entry.own, due_ms_of(entry.own)
    if due_ms is None and not (own is not None and own.after):
        atomic.publish(folders.queue, name.text, render(entry))
        return State.QUEUED
    waiting = waiting_name(name, None if own is not None and own.after else due_ms)
    atomic.publish(folders.made("waiting"), waiting.text, render(entry))
    return State.WAITING


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
