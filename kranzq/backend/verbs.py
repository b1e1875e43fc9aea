"""Seven verbs that are true of every backend, and what leases add.

A backend takes new work `N_contra`, keeps it as `T`, says where it is with a state `S`, and gives it away
as a claim `C`: entries of missions, or items.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId

if TYPE_CHECKING:
    from kranzq.model.outcome import Outcome

N_contra = TypeVar("N_contra", contravariant=True)
T = TypeVar("T")
S = TypeVar("S")
C = TypeVar("C")


@frozen
class Accepted(Generic[T, S]):
    """The answer to an enqueue: what is there now, and whether this call made it."""

    entry: T
    created: bool
    state: S


@frozen
class Wanted:
    """What a claimer takes; empty means anything. `missions` are ids; kind and groups count for items only.

    `groups` are those that the claimer belongs to: an item for a group is given to nobody else.
    """

    missions: frozenset[str] = field(default_factory=frozenset)
    kind: str = ""
    groups: frozenset[str] = field(default_factory=frozenset)


class Backend(Protocol[N_contra, T, S, C]):
    """Seven verbs, true of every backend; the conformance suite is `kranzq.testing.contract`."""

    def enqueue(self, new: N_contra, /) -> Accepted[T, S]:
        """Durable and visible when it returns; the same id twice is a no-op that says so."""
        ...

    def claim(self, holder: Holder, wanted: Wanted | None = None) -> C | None:
        """The front entry by priority, then insertion, or None; never the same entry to two holders."""
        ...

    def finish(self, claim: C, outcome: Outcome) -> None:
        """Retire the entry. Raises ClaimLost when the claim is no longer this holder's."""
        ...

    def release(self, claim: C, why: str = "") -> S:
        """Back to its old place, or set aside; says which. Raises ClaimLost as `finish` does."""
        ...

    def cancel(self, name: MissionId, /, why: str = "") -> bool:
        """End what has not ended, an operator's act. False when there was nothing to end.

        A mission that is claimed is left to its holder; the holder of an item learns of it at its next call.
        """
        ...

    def recover(self) -> tuple[str, ...]:
        """Put back what gone holders left; the names that were moved. Safe at any time, by anyone."""
        ...

    def entries(self, state: S = ..., limit: int | None = None) -> list[T]:
        """What is there, in order; a look, not a lock."""
        ...


class Leased(Backend[N_contra, T, S, C], Protocol[N_contra, T, S, C]):
    """A backend whose holders promise to be alive instead of being looked at."""

    def heartbeat(self, claim: C, lease_ms: int | None = None) -> C:
        """Extend the lease from now. Raises ClaimLost when another has the work, or it has ended."""
        ...
