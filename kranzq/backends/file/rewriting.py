"""What an entry is becoming while its content and its name change: two steps that a kill may part.

A note of both lies in the queue, synced, before the first step, and goes after the second. Whoever finds one with the
lock in hand does the second step if the first was done, so the entry is as it was or as it should be. `change` must be
held for all of it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable

from kranzq.backends.file import aside
from kranzq.backends.file.entries import folder_of
from kranzq.backends.file.folders import Folders
from kranzq.backends.file.layout import parse_entry_name, parse_waiting_name
from kranzq.disk import atomic
from kranzq.disk.modes import counts
from kranzq.disk.read import ENTRY_LIMIT, Unreadable, read_regular
from kranzq.model.frozen import frozen
from kranzq.model.json_object import json_object
from kranzq.model.state import State

MARK = ".moving."
_STATES = frozenset({State.QUEUED, State.WAITING, State.PARKED})


@frozen
class Note:
    """From which name of which state an entry goes to which, with the digest of its new content."""

    state: State
    name: str
    to: State
    new_name: str
    digest: str

    @classmethod
    def parse(cls, data: bytes) -> Note | None:
        """The note, or None when it is none: it names files of a queue and nothing else."""
        value = json_object(data) or {}
        texts = [value.get(key) for key in ("state", "name", "to", "newName", "digest")]
        state, name, to, new_name, digest = (text if isinstance(text, str) else "" for text in texts)
        if not {state, to} <= {one.value for one in _STATES}:
            return None
        note = cls(State(state), name, State(to), new_name, digest)
        return note if _is_name(note.state, name) and _is_name(note.to, new_name) else None

    def render(self) -> bytes:
        """The content of the file."""
        shown = {"state": self.state.value, "name": self.name, "to": self.to.value, "newName": self.new_name}
        return json.dumps(shown | {"digest": self.digest}).encode()


def digest_of(data: bytes) -> str:
    """By which the new content is known again."""
    import hashlib  # noqa: PLC0415 - with OpenSSL it costs 4 ms, and most verbs rewrite nothing

    return hashlib.sha256(data).hexdigest()


def keep(folders: Folders, note: Note) -> str:
    """Write the note, durably; its name, for `forget`."""
    name = f"{MARK}{os.urandom(8).hex()}"
    atomic.publish(folders.queue, name, note.render())
    return name


def forget(folders: Folders, name: str) -> None:
    """Remove a note whose steps are both taken, or neither. One that stays tells whoever finds it the same."""
    if name:
        with contextlib.suppress(OSError):
            atomic.remove(folders.queue, name)


def are_unfinished(folders: Folders) -> bool:
    """Whether a note lies there; only names are read."""
    return any(name.startswith(MARK) for name in folders.names())


def finish(folders: Folders, move: Callable[[Note], None]) -> None:
    """Take the second step of every note whose first one was taken; `move` does it."""
    from kranzq.disk.tracked import is_tracked  # noqa: PLC0415 - only where somebody was killed

    for name in [name for name in folders.names() if name.startswith(MARK)]:
        if is_tracked(folders.checkout.root, f".kranz/queue/{name}") is not False:
            continue  # a clone brought it along: it is nobody's
        note = _read(folders, name)
        if note is None:
            forget(folders, name)  # what cannot be removed, a directory, is nobody's note for whoever looks, and stays
            continue
        if _content_of(folders, note) == note.digest:
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                move(note)
        for state, one in ((note.state, note.name), (note.to, note.new_name)):
            if state is State.PARKED and _is_missing(folders, one):
                with contextlib.suppress(OSError):  # a bad file in the place of a reason stops nobody's turn
                    aside.forget_why(folders, one)
        atomic.remove(folders.queue, name)


def _is_name(state: State, name: str) -> bool:
    return (parse_waiting_name(name) if state is State.WAITING else parse_entry_name(name)) is not None


def _read(folders: Folders, name: str) -> Note | None:
    try:
        found = read_regular(name, dir_fd=folders.queue)
    except Unreadable as fault:
        if fault.lacking is not None:
            raise fault.lacking from None
        return None
    return Note.parse(found.data) if found is not None and counts(found.stat, folders.queue) else None


def _content_of(folders: Folders, note: Note) -> str | None:
    fd = folder_of(folders, note.state)
    try:
        found = read_regular(note.name, dir_fd=fd, limit=ENTRY_LIMIT) if fd is not None else None
    except Unreadable as fault:
        if fault.lacking is not None:
            raise fault.lacking from None
        return None
    return None if found is None else digest_of(found.data)


def _is_missing(folders: Folders, parked: str) -> bool:
    """Whether no parked entry has the name: then the reason beside it is nobody's."""
    if (fd := folder_of(folders, State.PARKED)) is None:
        return False
    try:
        os.stat(parked, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return True
    return False
