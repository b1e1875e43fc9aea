"""The contracts between turns, surfaces and whatever keeps the work.

`Backend` is true of every backend; `Leased` adds what only leases need; `Presence` is advisory and a thing of its own.
`MissionQueue` is what one turn asks of a queue of missions. Dispatch and daemon see only these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kranzq.model.claim import Claim, Claimed, Holder, Place
from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.state import State

if TYPE_CHECKING:
    from kranzq.model.outcome import Fate, Outcome

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Accepted(Generic[T]):
    """The answer to an enqueue: what is there now, and whether this call made it."""

    entry: T
    created: bool
    state: State


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a claimer takes; empty means anything."""

    missions: frozenset[str] = field(default_factory=frozenset)


class Backend(Protocol[T]):
    """Seven verbs, true of every backend; the conformance suite is `kranzq.testing.contract`."""

    def enqueue(self, new: T) -> Accepted[T]:
        """Durable and visible when it returns; the same id twice is a no-op that says so."""
        ...

    def claim(self, holder: Holder, wanted: Wanted | None = None) -> Claim | None:
        """The front entry by priority, then insertion, or None; never the same entry to two holders."""
        ...

    def finish(self, claim: Claim, outcome: Outcome) -> None:
        """Retire the entry. Raises ClaimLost when the claim is no longer this holder's."""
        ...

    def release(self, claim: Claim, why: str = "") -> State:
        """Back to its old place, or parked; says which. Raises ClaimLost as `finish` does."""
        ...

    def cancel(self, mission: MissionId, why: str = "") -> bool:
        """Remove what has not been claimed; an operator's act. False when there was nothing to remove."""
        ...

    def recover(self) -> tuple[str, ...]:
        """Put back what gone holders left; the names that were moved. Safe at any time, by anyone."""
        ...

    def entries(self, state: State = State.QUEUED, limit: int | None = None) -> list[T]:
        """What is there, in order; a look, not a lock."""
        ...


class Leased(Backend[T], Protocol[T]):
    """A backend whose holders promise to be alive instead of being looked at."""

    def heartbeat(self, claim: Claim, lease_s: float) -> Claim:
        """Extend the lease. Raises ClaimLost when another has the work."""
        ...


class Presence(Protocol):
    """Who is working on what: advisory, blocks nobody, expires."""

    def put(self, holder: Holder, target: str, ttl_s: float, note: str = "") -> str:
        """Make or renew the holder's presence claim on a target; its id."""
        ...

    def live(self, target: str | None = None) -> list[tuple[str, str]]:
        """(holder, target) of all presence claims that have not expired."""
        ...

    def release_presence(self, holder: Holder, presence_id: str) -> bool:
        """End one's own presence claim early."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that was read just before it may be claimed."""

    entry: Entry
    place: Place
    inode: int
    device: int
    born_ns: int | None


@dataclass(frozen=True, slots=True)
class Past:
    """What the records of a mission's runs tell: the largest number, and its last run with wall times."""

    number: int | None = None
    run: int | None = None
    began: float | None = None
    ended: float | None = None

    def was_running_at(self, moment: float) -> bool:
        """Whether the last run had begun by then and had not ended."""
        return self.began is not None and self.began <= moment and (self.ended is None or moment < self.ended)


@dataclass(frozen=True, slots=True)
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
