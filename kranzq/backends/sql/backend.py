"""The work queue on a database: satisfies `SharedStore` by running each act in one transaction."""

from __future__ import annotations

import collections
import functools
import threading
import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TypeVar

from kranzq.backend import Wanted
from kranzq.backend.items import AcceptedItem
from kranzq.backends.sql import claims, items
from kranzq.backends.sql.agents import SqlAgents
from kranzq.backends.sql.claiming import Claiming
from kranzq.backends.sql.database import Database, Row, Transaction
from kranzq.backends.sql.presence import SqlPresence
from kranzq.errors import KranzqError
from kranzq.events import (
    ItemCancelled,
    ItemClaimed,
    ItemEnded,
    ItemEnqueued,
    ItemReleased,
    LeaseRenewed,
    WorkSwept,
    emit,
)
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import (
    MOST_BATCH,
    MOST_LEASE_MS,
    Attempt,
    Finish,
    Held,
    ItemClaim,
    ItemState,
    NewItem,
    Page,
    Recovered,
    Stats,
    WorkItem,
    check_number,
    span_ms,
)
from kranzq.progress import advance

R = TypeVar("R")
HOLDER_BY_NAME = "m4c.holder_by_name"
"""Counted when a holder was known by its name only (seed g.4)."""
ENQUEUE_WITHOUT_UID, CLAIM_WITHOUT_UID = "work_enqueue.uid_not_carried", "work_claim.uid_not_carried"
"""Counted when an addressee, or a claimer, was given by its name only (seed g.4)."""
_ANYTHING = Wanted()
_ALL = 2**31
_CENTURIES_S = 10**10
_PRUNED_AT_ONCE = 500


class SqlBackend:
    """The work queue. May be shared by threads."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.presence = SqlPresence(database)
        self.agents = SqlAgents(database)
        self._counters: collections.Counter[str] = collections.Counter()
        self._claiming = Claiming(database)
        self._mutex = threading.Lock()

    def enqueue(self, new: NewItem, /) -> AcceptedItem:
        """Keep one item, or give the one that is there."""
        return self.enqueue_many([new])[0]

    def enqueue_many(self, new: Sequence[NewItem]) -> list[AcceptedItem]:
        """Keep all of them, or none."""
        named = [(one, one.id or str(uuid.uuid4())) for one in new]
        act = functools.partial(items.enqueue_many, named=named)
        while True:
            try:
                accepted = self.database.write(act, single=len(new) == 1 and not new[0].key)
            except items.KeyRace:
                continue  # the item of the other one is there now
            break
        for one in accepted:
            if one.created:
                if one.entry.target.agent and not one.entry.target.uid:
                    self._count(ENQUEUE_WITHOUT_UID)
                emit(ItemEnqueued(one.entry.id, one.entry.target.key, one.entry.kind, one.entry.priority))
        return accepted

    def claim(
        self, holder: Holder, wanted: Wanted | None = None, *, lease_ms: int | None = None, request_id: str = ""
    ) -> ItemClaim | None:
        """The first item that the holder may have."""
        given = self._claim(holder, wanted or _ANYTHING, 1, lease_ms, request_id)
        return given[0] if given else None

    def claim_many(
        self, holder: Holder, wanted: Wanted | None = None, *, limit: int, lease_ms: int | None = None
    ) -> list[ItemClaim]:
        """Up to `limit` items in one transaction."""
        check_number("limit", limit, 1, MOST_BATCH)
        return self._claim(holder, wanted or _ANYTHING, limit, lease_ms, "")

    def heartbeat(self, held: Held, lease_ms: int | None = None) -> ItemClaim:
        """A lease of that length from now on."""
        row = self.database.write(lambda transaction: claims.heartbeat(transaction, held, lease_ms), single=True)
        self._known_by(held, row)
        emit(LeaseRenewed(held.id, held.attempt))
        return claims.given(row, held.holder)

    def finish(self, held: Held, outcome: Outcome = Outcome.SUCCEEDED, result: str = "") -> None:
        """End it for good."""
        row = self.database.write(lambda transaction: claims.finish(transaction, held, outcome, result), single=True)
        if row is not None:
            self._finished(held, row)

    def finish_many(self, ends: Sequence[Finish]) -> list[KranzqError | None]:
        """End many in one transaction."""
        told: list[tuple[Held, Row]] = []

        def act(transaction: Transaction) -> list[KranzqError | None]:
            told.clear()
            return claims.finish_many(transaction, ends, lambda held, row: told.append((held, row)))

        answers = self.database.write(act)
        for held, row in told:
            self._finished(held, row)
        return answers

    def release(self, held: Held, why: str = "", *, declined: bool = False, delay_ms: int = 0) -> ItemState:
        """Give it back; where it is now."""
        state = self.database.write(
            lambda transaction: claims.release(transaction, held, why, declined=declined, delay_ms=delay_ms),
            single=True,
        )
        emit(ItemReleased(held.id, held.attempt, state.value, why))
        return state

    def cancel(self, name: str, /, why: str = "") -> bool:
        """End what is not terminal."""
        runs = 0

        def act(transaction: Transaction) -> bool:
            nonlocal runs
            runs += 1
            return claims.cancel(transaction, name, why, repeated=runs > 1)

        done = self.database.write(act, single=True)
        if done:
            emit(ItemCancelled(name, why))
        return done

    def recover(self) -> tuple[str, ...]:
        """Lapse every overdue lease; the ids."""
        swept = self.sweep()
        return (*swept.lapsed, *swept.failed)

    def sweep(self) -> Recovered:
        """Lapse what is overdue and open what is due, in short transactions, until nothing is left."""
        total = Recovered()
        while True:
            found = self._claiming.sweep()
            total += found
            if max(len(found.lapsed) + len(found.failed), found.opened) < claims.SWEEP_MOST:
                break
        if total:
            emit(WorkSwept(total.lapsed, total.failed, total.opened))
        return total

    def grant_grace(self, seconds: float) -> None:
        """Let no lease lapse for so long."""
        grace = span_ms("seconds", seconds, 0, MOST_LEASE_MS / 1000)
        self.database.write(lambda transaction: transaction.run("grace", grace=grace), single=True)

    def wait_for_work(self, seconds: float) -> bool:
        """Wait until something may have changed."""
        return self.database.wait_for_change(seconds)

    def entries(self, state: ItemState = ItemState.OPEN, limit: int | None = None) -> list[WorkItem]:
        """The items in a state."""
        most = _ALL if limit is None else limit
        check_number("limit", most, 0, _ALL)
        return self.database.read(lambda transaction: items.entries(transaction, state, most), single=True)

    def page(self, state: str = "", *, limit: int = 50, cursor: str | None = None) -> Page:
        """Items, newest change first."""
        return self.database.read(lambda transaction: items.page(transaction, state, limit, cursor))

    def show(self, name: str, /) -> WorkItem:
        """One item."""
        return self.database.read(lambda transaction: items.show(transaction, name), single=True)

    def attempts(self, name: str, /) -> list[Attempt]:
        """Every claim of an item."""
        return self.database.read(lambda transaction: items.attempts(transaction, name), single=True)

    def unseen(self, limit: int = 100) -> list[WorkItem]:
        """Open items whose agent was never seen here."""
        check_number("limit", limit, 0, _ALL)
        return self.database.read(lambda transaction: items.unseen(transaction, limit), single=True)

    def prune(self, older_than_s: float) -> int:
        """Remove items that ended longer ago."""
        age = span_ms("older_than_s", older_than_s, -_CENTURIES_S, _CENTURIES_S)
        before, removed = self.database.wall_ms() - age, 0
        while True:
            gone = self.database.write(
                lambda transaction: len(transaction.all("prune", before=before, most=_PRUNED_AT_ONCE)), single=True
            )
            removed += gone
            advance("removing items", removed)
            if gone < _PRUNED_AT_ONCE:
                return removed

    def stats(self) -> Stats:
        """What there is, counted."""

        def act(transaction: Transaction) -> Stats:
            names = ("counts", "oldest_open", "unseen_count", "overdue")
            states, oldest, unseen, overdue = transaction.several([(name, {}) for name in names])
            counted = {row["state"]: row["many"] for row in states}
            return Stats(
                {state.value: counted.get(state.value, 0) for state in ItemState},
                unseen[0]["many"],
                overdue[0]["many"],
                oldest[0]["oldest"],
                size.data,
                size.log,
            )

        size = self.database.size()
        return self.database.read(act, single=True)

    def counters(self) -> dict[str, int]:
        """How often something was known by name only."""
        with self._mutex:
            return dict(self._counters)

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _claim(self, holder: Holder, wanted: Wanted, limit: int, lease: int | None, request: str) -> list[ItemClaim]:
        rows, swept = self._claiming.claim(holder, wanted, limit, lease, request)
        if not holder.uid:
            self._count(CLAIM_WITHOUT_UID)
        given = [claims.given(row, holder) for row in rows]
        if swept:
            emit(WorkSwept(swept.lapsed, swept.failed, swept.opened))
        for one, row in zip(given, rows, strict=True):
            emit(ItemClaimed(one.id, one.attempt, holder.name, claims.waited_ms(row)))
        return given

    def _finished(self, held: Held, row: Row) -> None:
        self._known_by(held, row)
        emit(ItemEnded(held.id, held.attempt, row["state"]))

    def _known_by(self, held: Held, row: Row) -> None:
        if not (held.holder.uid and row["claimed_by_uid"]):
            self._count(HOLDER_BY_NAME)

    def _count(self, what: str) -> None:
        with self._mutex:
            self._counters[what] += 1
