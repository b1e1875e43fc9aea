"""Moves of entries that nobody has claimed: into waiting and out of it, aside for a person and back, to another name.

Each is one rename. Where content changes as well it is exchanged first, under the present name, and a note of both
steps lies beside it: a kill leaves one whole entry in one place, and whoever comes next ends what was begun. `change`
must be held for all of them but `finish_moves`.
"""

from __future__ import annotations

import contextlib

from kranzq.backends.file import aside
from kranzq.backends.file.change import change
from kranzq.backends.file.entries import folder_of, place_of
from kranzq.backends.file.folders import Folders, names_in
from kranzq.backends.file.layout import EntryName, entry_name, parse_entry_name, parse_waiting_name, waiting_name
from kranzq.backends.file.rewriting import Note, are_unfinished, digest_of, finish, forget, keep
from kranzq.disk import atomic
from kranzq.disk.read import ENTRY_LIMIT, Unreadable, read_regular
from kranzq.errors import UnsafePath
from kranzq.events import Due, emit
from kranzq.model.claim import Place
from kranzq.model.entry import Entry, render
from kranzq.model.state import State


class Moves:
    """A part of the file queue: what dispatchers and people do with entries that nobody has claimed."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders

    def waiting_for_others(self) -> list[Place]:
        """What waits until other missions have ended, in order."""
        names = (name for name in names_in(self.folders.aside("waiting")) if name.startswith("after."))
        parsed = sorted((one.entry, one.text) for name in names if (one := parse_waiting_name(name)) is not None)
        return [place_of(entry, State.WAITING, text) for entry, text in parsed]

    def admit(self, place: Place, due_ms: int | None) -> State:
        """Let what waited run, or wait until `due_ms`; where it is now. Where its name is taken it is parked."""
        to = State.QUEUED if due_ms is None else State.WAITING
        try:
            _move(self.folders, place, _entry_of(place), to, due_ms)
        except FileExistsError:
            self.set_aside(place, aside.TAKEN)
            return State.PARKED
        if to is State.QUEUED:
            emit(Due(str(place.mission)))
        return to

    def hold_back(self, place: Place, due_ms: int | None) -> None:
        """Let a queued entry wait: until `due_ms`, or for other missions when that is None."""
        _move(self.folders, place, _entry_of(place), State.WAITING, due_ms)

    def set_aside(self, place: Place, why: str) -> None:
        """Park what is queued or waits; it lasts over a power cut. FileNotFoundError when it is gone."""
        fd = folder_of(self.folders, place.state)
        aside.park(self.folders, place.name, _entry_of(place), why, from_fd=fd)
        _sync(self.folders, place.state, State.PARKED)

    def rewrite(self, place: Place, entry: Entry, to: State, due_ms: int | None) -> Place:
        """New content, then the name and place that go with it; where it is now. It lasts over a power cut.

        FileNotFoundError when it is gone; FileExistsError when its new name is taken: then it has the new content and
        stays where it is. UnsafePath for what turned into something else since it was read.
        """
        fd = folder_of(self.folders, place.state)
        before = _content(self.folders, place, fd)
        if fd is None or before is None:
            raise FileNotFoundError(place.name)
        name = _entry_of(place)
        if (entry.priority, entry.number) != (name.priority, name.number):
            name = entry_name(entry.priority, entry.number, entry.mission)
        stays_parked = place.state is to is State.PARKED and name.text != place.name
        if stays_parked:
            aside.set_why(self.folders, name.text, aside.why(self.folders, place.name))
        text = _name_in(name, to, due_ms)
        data = render(entry)
        moves = place.state is not to or text != place.name
        note = Note(place.state, place.name, to, text, digest_of(data)) if moves else None
        kept = ""
        try:
            kept = keep(self.folders, note) if note is not None else ""
            atomic.exchange_content(fd, place.name, data)
            if moves:
                _move(self.folders, place, name, to, due_ms)
        except OSError as fault:
            if not isinstance(fault, FileExistsError | FileNotFoundError):
                with contextlib.suppress(OSError):  # a disk that takes nothing at all: for what the name says it wins
                    atomic.exchange_content(fd, place.name, before)
            if stays_parked and not isinstance(fault, FileExistsError):
                self._forget_why(name.text)
            forget(self.folders, kept)
            raise
        if moves and place.state is State.PARKED:
            self._forget_why(place.name)
        _sync(self.folders, place.state, to)
        forget(self.folders, kept)
        return place_of(name, to, text, due_ms if to is State.WAITING else None)

    def finish_moves(self) -> None:
        """Take the second step of every `rewrite` that was killed after its first; takes `change` itself."""
        if are_unfinished(self.folders):
            with change(self.folders):
                finish(self.folders, self._finish)

    def _finish(self, note: Note) -> None:
        from_fd, to_fd = folder_of(self.folders, note.state), folder_of(self.folders, note.to)
        if note.to is State.WAITING:
            to_fd = self.folders.made("waiting")
        if from_fd is None or to_fd is None:
            return
        atomic.move(from_fd, note.name, to_fd, note.new_name)
        if note.state is State.PARKED:
            self._forget_why(note.name)
        _sync(self.folders, note.state, note.to)

    def _forget_why(self, name: str) -> None:
        """Remove the reason of what is parked no more; one that cannot be is a bad file, and the next turn's."""
        with contextlib.suppress(OSError):
            aside.forget_why(self.folders, name)


def _content(folders: Folders, place: Place, fd: int | None) -> bytes | None:
    try:
        found = read_regular(place.name, dir_fd=fd, limit=ENTRY_LIMIT) if fd is not None else None
    except Unreadable as fault:
        if fault.lacking is not None:
            raise fault.lacking from None
        folder = "" if place.state is State.QUEUED else f"/{place.state.value}"
        raise UnsafePath(f"{folders.checkout.queue}{folder}/{place.name}", fault.why) from fault
    return found.data if found is not None else None


def _move(folders: Folders, place: Place, name: EntryName, to: State, due_ms: int | None) -> None:
    from_fd = folder_of(folders, place.state)
    if from_fd is None:
        raise FileNotFoundError(place.name)
    to_fd = folders.made("waiting") if to is State.WAITING else folder_of(folders, to)
    assert to_fd is not None  # an entry is made parked by `aside`, which makes the directory
    atomic.move(from_fd, place.name, to_fd, _name_in(name, to, due_ms))


def _name_in(name: EntryName, to: State, due_ms: int | None) -> str:
    return waiting_name(name, due_ms).text if to is State.WAITING else name.text


def _entry_of(place: Place) -> EntryName:
    waiting = parse_waiting_name(place.name) if place.state is State.WAITING else None
    parsed = waiting.entry if waiting is not None else parse_entry_name(place.name)
    if parsed is None:
        raise FileNotFoundError(place.name)
    return parsed


def _sync(folders: Folders, *states: State) -> None:
    for fd in {folder_of(folders, state) for state in states}:
        if fd is not None:
            atomic.sync_folder(fd)
