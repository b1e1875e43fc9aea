"""Carrying out a fate: exactly one unlink or one rename, whoever does it, and however often.

Only who settles an end needs it; looking and enqueueing never do.
"""

from __future__ import annotations

from dataclasses import replace

from kranzq.backends.file import aside
from kranzq.backends.file.claims import entry_of
from kranzq.backends.file.entries import Bad, read_entry
from kranzq.backends.file.folders import Folders
from kranzq.backends.file.layout import EntryName, entry_name
from kranzq.disk import atomic
from kranzq.model.claim import Place
from kranzq.model.entry import render
from kranzq.model.outcome import Fate, Park, Retire, Return, Rotate, Wait


def carry_out(folders: Folders, place: Place, fate: Fate) -> Fate:
    """Do exactly `fate` to what lies under `place` in `queue/`; FileNotFoundError when it is gone.

    Each fate is one unlink or one rename; *rotate* replaces the content under the present name first, which is
    harmless to repeat. Returns the fate that was carried out: *park* where a name to go to is taken.
    """
    entry = entry_of(place)
    match fate:
        case Retire():
            if not atomic.remove(folders.queue, place.name):
                raise FileNotFoundError(place.name)
        case Park(reason):
            aside.park(folders, place.name, entry, reason)
        case Return() if place.name != entry.text:
            return _to(folders, place, entry, fate)
        case Return():
            pass
        case Wait(until_ms):
            return _to(folders, place, entry, fate, until_ms)
        case Rotate(until_ms, number):
            return _rotate(folders, place, entry, fate, until_ms, number)
    return fate


def rename_with_new_number(folders: Folders, place: Place, number: int) -> EntryName | None:
    """Replace the content under the present name by one with a new number; the new entry name, or None when bad."""
    found = read_entry(folders.queue, place.name, place.mission)
    if found is None or isinstance(found, Bad):
        return None
    entry = replace(found[0], priority=place.priority, number=number)
    atomic.exchange_content(folders.queue, place.name, render(entry))
    return entry_name(place.priority, number, place.mission)


def _to(folders: Folders, place: Place, entry: EntryName, fate: Fate, until_ms: int | None = None) -> Fate:
    try:
        if until_ms is None:
            atomic.move(folders.queue, place.name, folders.queue, entry.text)
        else:
            aside.wait(folders, place.name, entry, until_ms)
    except FileExistsError:
        taken = Park(f"its name {entry.text} was taken by a newer entry")
        aside.park(folders, place.name, entry, taken.reason)
        return taken
    return fate


def _rotate(folders: Folders, place: Place, entry: EntryName, fate: Rotate, until_ms: int, number: int | None) -> Fate:
    if number is None:
        raise ValueError("a fate that rotates needs its number before it is carried out")
    renamed = rename_with_new_number(folders, place, number)
    if renamed is None:
        bad = Park("its content cannot be read any more")
        aside.park(folders, place.name, entry, bad.reason)
        return bad
    return _to(folders, place, renamed, fate, until_ms)
