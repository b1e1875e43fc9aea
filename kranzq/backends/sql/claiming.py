"""How a claim is put together of its acts, on an engine in this process and on one that is a way off.

Near: all in one transaction, overdue leases first. Far: one message, with which a sweep goes only now and then. When
nothing was found it is sent once more, with a sweep: what another claimer locked for a moment, and then did not take,
was skipped by the first look.
"""

from __future__ import annotations

import threading
import time
import uuid

from kranzq.backend import Wanted
from kranzq.backends.sql import claims
from kranzq.backends.sql.database import Database, Row, StatementCall, Transaction
from kranzq.model.claim import Holder
from kranzq.model.work import MOST_NAME, Recovered, check_text

SWEEP_EVERY_S = 0.25
"""An overdue lease, or a due item of high priority, waits at most so long for a claimer that is never short of work."""


class Claiming:
    """The claims of one process: it remembers who has asked, and when it last swept. May be shared by threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mutex = threading.Lock()
        self._seen: set[str] = set()
        self._swept = float("-inf")

    def claim(
        self, holder: Holder, wanted: Wanted, limit: int, lease: int | None, request: str
    ) -> tuple[list[Row], Recovered]:
        """Up to `limit` rows of items that are now the holder's, and what was swept on the way."""
        check_text("request_id", request, MOST_NAME)
        mine = claims.targets(holder.name, holder.uid, wanted)
        new = [{"target": target} for target in mine if target not in self._seen]
        take = self._near if self._database.is_near else self._far
        found = take(_Wish(holder, wanted, limit, lease, request), new)
        self._seen.update(mine)
        return found

    def sweep(self) -> Recovered:
        """One short sweep."""
        with self._mutex:
            self._swept = time.monotonic()
        return self._database.write(claims.sweep, single=True)

    def _near(self, wish: _Wish, new: list[dict[str, str]]) -> tuple[list[Row], Recovered]:
        def act(transaction: Transaction) -> tuple[list[Row], Recovered]:
            transaction.each("seen", new)
            swept = claims.sweep(transaction) if claims.is_due(transaction) else Recovered()
            rows = wish.before(transaction) if wish.request else []
            while len(rows) < wish.limit:
                (more,) = transaction.several([wish.call(wish.limit - len(rows), wish.request)])
                if not more:
                    break
                rows += more
            return rows, swept

        return self._database.write(act)

    def _far(self, wish: _Wish, new: list[dict[str, str]]) -> tuple[list[Row], Recovered]:
        if new:
            self._database.write(lambda transaction: transaction.each("seen", new), single=True)
        rows, swept = self._take(wish, wish.limit, sweeps=self._is_time())
        if len(rows) < wish.limit:
            more, also = self._take(wish, wish.limit - len(rows), sweeps=True)
            rows, swept = rows + more, swept + also
        return rows, swept

    def _take(self, wish: _Wish, most: int, *, sweeps: bool) -> tuple[list[Row], Recovered]:
        """One claim. An answer that was lost with the connection is asked for again by the name of the request."""
        request = wish.request or uuid.uuid4().hex
        repeated = False

        def act(transaction: Transaction) -> tuple[list[Row], Recovered]:
            nonlocal repeated
            if wish.request:  # a caller may send it twice at once
                transaction.run("request_lock", request_id=request)
            if (wish.request or repeated) and (rows := wish.before(transaction, request)):
                return rows, Recovered()
            repeated = True
            *told, rows = transaction.several([*(claims.sweeping() if sweeps else ()), wish.call(most, request)])
            return rows, claims.swept(*told) if told else Recovered()

        if sweeps:
            with self._mutex:
                self._swept = time.monotonic()
        return self._database.write(act, single=not wish.request)

    def _is_time(self) -> bool:
        with self._mutex:
            return time.monotonic() - self._swept > SWEEP_EVERY_S


class _Wish:
    """What a claimer wants, in the terms of its acts."""

    __slots__ = ("holder", "lease", "limit", "request", "wanted")

    def __init__(self, holder: Holder, wanted: Wanted, limit: int, lease: int | None, request: str) -> None:
        self.holder, self.wanted, self.limit, self.lease, self.request = holder, wanted, limit, lease, request

    def before(self, transaction: Transaction, request: str = "") -> list[Row]:
        """What the request was given before."""
        return claims.claimed_before(transaction, self.holder, self.lease, request or self.request)

    def call(self, most: int, request: str) -> StatementCall:
        """What gives the next items."""
        return claims.claiming(self.holder, self.wanted, self.lease, request, most)
