"""The work queue as surfaces and the daemon see it, whichever engine keeps it.

Every verb is one transaction: done and durable when it returns, or not done at all. What a holder calls is believed
while its item is claimed or lapsed under its attempt, and refused from the moment that another has claimed it.

Errors: UsageFault for what is wrong with the call, NoSuchItem for an unknown id, Conflict for an id or key that was
used for something else, ClaimLost (with `state`, and `cancelled` when that is why) for a claim that is no longer the
holder's, TryLater when the store was locked for too long, StoreUnavailable when it cannot be reached or written.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from kranzq.backend.verbs import Accepted, Leased, Wanted
from kranzq.errors import KranzqError
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import Attempt, Finish, Held, ItemClaim, ItemState, NewItem, Page, Recovered, Stats, WorkItem

AcceptedItem = Accepted[WorkItem, ItemState]


class WorkStore(Leased[NewItem, WorkItem, ItemState, ItemClaim], Protocol):
    """The work queue. May be shared by threads."""

    def enqueue(self, new: NewItem, /) -> AcceptedItem:
        """Keep the item. The same id or idempotency key with the same content gives the item that is there."""
        ...

    def enqueue_many(self, new: Sequence[NewItem]) -> list[AcceptedItem]:
        """Keep all of them in one transaction, or, when one is refused, none. At most 1000."""
        ...

    def claim(
        self, holder: Holder, wanted: Wanted | None = None, *, lease_ms: int | None = None, request_id: str = ""
    ) -> ItemClaim | None:
        """The first item that the holder may have: highest priority, then the oldest. Overdue leases lapse first.

        The same `request_id` again gives the same holder the same item and attempt, while it is still its own: an
        answer that was lost costs nothing.
        """
        ...

    def claim_many(
        self, holder: Holder, wanted: Wanted | None = None, *, limit: int, lease_ms: int | None = None
    ) -> list[ItemClaim]:
        """Up to `limit` items (at most 1000) in one transaction, in order."""
        ...

    def heartbeat(self, held: Held, lease_ms: int | None = None) -> ItemClaim:
        """A lease of that length from now on; a lapsed item is claimed again. Raises ClaimLost, NoSuchItem."""
        ...

    def finish(self, held: Held, outcome: Outcome = Outcome.SUCCEEDED, result: str = "") -> None:
        """Done, or with another outcome failed, for good. The same end again under the same attempt is a success."""
        ...

    def finish_many(self, ends: Sequence[Finish]) -> list[KranzqError | None]:
        """Record many ends in one transaction; for each one None, or why it was refused. The others are kept."""
        ...

    def release(self, held: Held, why: str = "", *, declined: bool = False, delay_ms: int = 0) -> ItemState:
        """Back to its old place; failed when its attempts are used up. A declined attempt uses none up.

        With `delay_ms` (at most 30 days) it is not given to anybody before that has passed.
        """
        ...

    def cancel(self, name: str, /, why: str = "") -> bool:
        """End what is not terminal, claimed or not. False when it had ended. Raises NoSuchItem."""
        ...

    def sweep(self) -> Recovered:
        """Lapse every overdue lease and open what is due, a hundred in each transaction."""
        ...

    def grant_grace(self, seconds: float) -> None:
        """Let no lease lapse for so long: after a sleep of the host, holders get one round to renew."""
        ...

    def wait_for_work(self, seconds: float) -> bool:
        """Wait until something may have changed since this thread's last call returned; its first is true at once.

        False after `seconds` is no proof: hints may be lost, and items come due unannounced. So claim again anyway.
        """
        ...

    def entries(self, state: ItemState = ItemState.OPEN, limit: int | None = None) -> list[WorkItem]:
        """The items in a state: what may be claimed in the order in which it would be, the rest newest change first."""
        ...

    def page(self, state: str = "", *, limit: int = 50, cursor: str | None = None) -> Page:
        """Items, newest change first; `state` is a state or blank for all. `open` finds `delayed` and `lapsed` too.

        An unknown state gives an empty page. `limit` is clamped to 1..500.
        """
        ...

    def show(self, name: str, /) -> WorkItem:
        """One item. Raises NoSuchItem."""
        ...

    def attempts(self, name: str, /) -> list[Attempt]:
        """Every claim of an item, oldest first. Raises NoSuchItem."""
        ...

    def unseen(self, limit: int = 100) -> list[WorkItem]:
        """Open items whose agent was never seen here: perhaps a mistyped name."""
        ...

    def prune(self, older_than_s: float) -> int:
        """Remove items that ended longer ago, with their history and keys; how many."""
        ...

    def stats(self) -> Stats:
        """What there is, counted."""
        ...

    def counters(self) -> dict[str, int]:
        """How often something was known by name only, since this store was opened, by the names of seed g.4."""
        ...

    def close(self) -> None:
        """Let go of connections; a closed store is opened anew by its URL."""
        ...

    def __enter__(self) -> Self:
        """Close when the block ends."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        ...


__all__ = ["AcceptedItem", "WorkStore"]
