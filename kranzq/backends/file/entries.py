"""Entries: looking and reading. What lies in `queue/` as an entry may run.

Listing and choosing read names only; content is read just before a claim. Each reader shows an entry that has two
names for an instant (where a rename cannot refuse to replace) once.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace

from kranzq.backend import Candidate
from kranzq.backends.file.folders import Aside, Folders, names_in
from kranzq.backends.file.layout import (
    EntryName,
    ItemName,
    all_regular,
    is_candidate,
    order_keys,
    parse_claim_name,
    parse_entry_name,
    parse_item_name,
    parse_waiting_name,
)
from kranzq.disk.birth import born_ns_of
from kranzq.disk.read import ENTRY_LIMIT, Unreadable, read_regular
from kranzq.errors import BadEntry
from kranzq.model.claim import ITEM_MARK, ITEM_PREFIX, Place
from kranzq.model.entry import Entry, parse
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State

Names = tuple[Sequence[str], ...]
FRESH_S = 2.0
"""So long an empty or truncated file may still be in the making."""


@frozen
class Bad:
    """A file that asks to be an entry and is none. `fresh`: it may still be written, or is not ours to judge."""

    name: str
    why: str
    fresh: bool = False


def ordered(folders: Folders) -> tuple[Iterator[str], list[str]]:
    """The names of all entries, in order, and the candidates' names that are none. Nothing is parsed for it.

    Of many the first one is found without sorting the others.
    """
    found = folders.names()
    regular = all_regular(found)
    if regular is not None:
        heapq.heapify(regular)
        return _popped(regular), []
    keys = order_keys(found)
    good = sorted((key, name) for name, key in keys.items() if key is not None)
    return (name for _, name in good), [name for name, key in keys.items() if key is None]


def _popped(heap: list[str]) -> Iterator[str]:
    while heap:
        yield heapq.heappop(heap)


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


def places(folders: Folders, mission: MissionId | None = None, listed: Sequence[str] | None = None) -> Iterator[Place]:
    """Every place of every entry, or of one mission's (ignoring case, so that look-alikes are seen).

    `listed` are the names in the queue, where they have just been read.
    """
    if mission is None:
        yield from _all_places(folders, lambda found: found, listed)
        return
    wanted = mission.lower()

    def meant(found: Sequence[str]) -> Iterable[str]:
        items = (name for name in found if name.startswith(ITEM_MARK)) if wanted.startswith(ITEM_PREFIX) else ()
        return (*_with(found, f"-{wanted}.json"), *items)

    for place in _all_places(folders, meant, listed):
        if place.mission.lower() == wanted:
            yield place


def _with(names: Sequence[str], part: str) -> list[str]:
    """The names with a part in them, in small letters: of ten thousand one or none, so they are searched as one."""
    text = "/".join(names)
    lowered = text.lower()
    if len(lowered) != len(text):  # some letters become two
        return [name for name in names if part in name.lower()]
    found, at = [], lowered.find(part)
    while at >= 0:
        end = text.find("/", at)
        end = len(text) if end < 0 else end
        found.append(text[text.rfind("/", 0, at) + 1 : end])
        at = lowered.find(part, end)
    return found


def places_of(folders: Folders, missions: Container[str]) -> Iterator[Place]:
    """Every place of these missions that is no claim; names of others are not parsed."""

    def meant(found: Sequence[str]) -> Iterable[str]:
        return (name for name in found if name.split("-", 2)[-1].removesuffix(".json") in missions)

    for place in _all_places(folders, meant):
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


def all_names(folders: Folders, listed: Sequence[str] | None = None) -> Names:
    """What lies in the queue (`listed`, if given), in `waiting/` and in `parked/`; nothing is parsed."""
    first = listed if listed is not None else folders.names()
    return first, *(tuple(names_in(folders.aside(which))) for which in _ASIDES)


def missions_in(names: Names) -> set[str]:
    """The missions that names tell."""
    found = (place_in(name) for one, place_in in zip(names, _PLACES, strict=False) for name in one)
    return {str(place.mission) for place in found if place is not None}


def _all_places(
    folders: Folders, meant: Callable[[Sequence[str]], Iterable[str]], listed: Sequence[str] | None = None
) -> Iterator[Place]:
    """All places whose names are meant: most names need not be parsed."""
    for found, place_in in zip(all_names(folders, listed), _PLACES, strict=True):
        for name in meant(found):
            if (place := place_in(name)) is not None:
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


_ASIDES: tuple[Aside, ...] = ("waiting", "parked")
_PLACES = (_place_in_queue, _place_in_waiting, _place_in_parked)


def _age(seen: os.stat_result) -> float:
    """Seconds since a file last changed; by its ctime, which nobody can set. One from the future is no fresh one."""
    age = time.time() - seen.st_ctime
    return age if age >= 0 else FRESH_S
