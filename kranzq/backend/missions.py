"""What one turn asks of a queue of missions. Dispatch and daemon see only this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from kranzq.model.claim import Claimed, Place
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId

if TYPE_CHECKING:
    from kranzq.model.outcome import Fate


class Unsettled(Exception):
    """Before this may be approved somebody must look: a claim of the mission lies there, or what came in before it."""


@frozen
class Candidate:
    """An entry that was read just before it may be claimed."""

    entry: Entry
    place: Place
    inode: int
    device: int
    born_ns: int | None


@frozen
class Past:
    """What the records of a mission's runs tell: the largest number, and its last run with wall times."""

    number: int | None = None
    run: int | None = None
    began: float | None = None
    ended: float | None = None

    def was_running_at(self, moment: float) -> bool:
        """Whether the last run had begun by then and had not ended."""
        return self.began is not None and self.began <= moment and (self.ended is None or moment < self.ended)


@frozen
class Unclaimed:
    """A file that asks for a mission and that nobody has claimed: an entry, or what lies in the inbox.

    `folder` is the one inside the queue, empty for the queue itself; `entry_name` is the name that it has or would
    have among what may run.
    """

    mission: MissionId
    folder: str
    name: str
    entry_id: str | None
    entry_name: str
    inode: int
    born_ns: int | None
    number: int


@dataclass(slots=True)
class Examined:
    """What a dispatcher remembers of folders that it has looked through; nothing in it is needed for correctness."""

    folders: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)


class MissionQueue(Protocol):
    """What a turn asks of a queue of missions. All of it goes through directories that were opened at its start."""

    def in_order(self) -> Iterator[Candidate]:
        """The entries in order, each read when its turn comes; bad files on the way are quarantined."""
        ...

    def claim(self, candidate: Candidate, pid: int, suffix: str) -> Claimed | None:
        """Take the candidate for a keeper; None when another was faster or the file is not the one that was read."""
        ...

    def item_claim_name(self, mission: MissionId, pid: int, suffix: str) -> str:
        """The name that the claim of a keeper on an item will have."""
        ...

    def claim_item(self, mission: MissionId, pid: int, suffix: str, content: bytes) -> Claimed:
        """The claim of a keeper on an item of the work queue: made anew, with what is known of the item, durable."""
        ...

    def end_item(self, claimed: Claimed) -> None:
        """Remove the claim on an item whose end was handed in."""
        ...

    def item_content(self, claimed: Claimed) -> bytes | None:
        """What the claim on an item says of it; None when that cannot be read."""
        ...

    def claims(self) -> Sequence[Claimed]:
        """All claims that lie in the queue, with inode and last touch."""
        ...

    def places(self, mission: MissionId) -> Sequence[Place]:
        """Where entries of a mission are, whatever their state."""
        ...

    def change(self) -> AbstractContextManager[None]:
        """The lock around a change of names."""
        ...

    def still_there(self, claimed: Claimed) -> bool:
        """Whether the claim is still the same file under the same name. `change` must be held."""
        ...

    def take_number(self, floor: int | None) -> AbstractContextManager[int]:
        """A new number, given out while the context lasts. `change` must be held."""
        ...

    def carry_out(self, place: Place, fate: Fate) -> Fate:
        """Do exactly `fate` to an entry or claim: one rename or one unlink; returns what was done.

        `change` must be held. Where the name to go back to is taken, the file is parked instead.
        """
        ...

    def quarantine(self, place: Place, why: str) -> None:
        """Set a candidate that must never run aside, with its bytes."""
        ...
