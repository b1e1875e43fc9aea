"""Claims: an entry taken for exactly one holder, and where an entry is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State

if TYPE_CHECKING:
    from kranzq.model.process import ProcessIdentity


ITEM_MARK = ".item."
"""Begins the name of a claim whose work is an item of the work queue; the file is no entry and goes to no place."""
ITEM_PREFIX = "item-"
"""Begins the id under which an item runs as a mission."""


@frozen
class Holder:
    """Who takes work: a name for people, the process where it is one of this machine, the agent's uid if known."""

    name: str
    process: ProcessIdentity | None = None
    uid: str = ""


@frozen
class Claim:
    """What a claimer got. `token` names this claim and no other; a stale holder changes nothing with it."""

    entry: Entry
    token: str
    holder: Holder
    inode: int = 0


@frozen
class Place:
    """One entry's place: its state, its name there, and what the name says."""

    state: State
    name: str
    mission: MissionId
    priority: int
    number: int
    due_ms: int | None = None

    @property
    def is_item(self) -> bool:
        """Whether what was claimed is an item of the work queue."""
        return self.name.startswith(ITEM_MARK)


@frozen
class Claimed:
    """A claim as it lies in the queue. `touched_at` is wall seconds: the newer of mtime and ctime."""

    place: Place
    entry_name: str
    pid: int
    suffix: str | None
    inode: int
    touched_at: float
    modified_at: float
