"""The work queue and presence of a server, as the contracts that a local store fulfils.

Who calls is known by the token alone. A holder that is named here must be the one of the token; a name that is
another's is refused before anything is sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from kranzq.backend import Wanted
from kranzq.backend.agents import Agents
from kranzq.backend.items import AcceptedItem
from kranzq.client import presence_asks, work_asks
from kranzq.client.remote_presence import RemotePresence
from kranzq.client.sending import Client
from kranzq.client.values import Me
from kranzq.errors import AnswerTooLong, KranzqError, Refused
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import (
    MOST_PAGE,
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
    same_holder,
)

_STATES = frozenset(one.value for one in ItemState)
LOOK_S = 2.0
"""Between two looks of somebody who waits for work without a claim that waits."""


class RemoteStore:
    """A server's `SharedStore`. May be shared by threads."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._mutex = threading.Lock()
        self._me: Me | None = None
        self._local = threading.local()

    def me(self) -> Me:
        """Whom the server takes this caller for; asked once."""
        with self._mutex:
            if self._me is None:
                self._me = self._client.send(presence_asks.me())
            return self._me

    @property
    def presence(self) -> RemotePresence:
        """Who says that they work on what."""
        return RemotePresence(self._client, self._known)

    @property
    def agents(self) -> Agents:
        """Raises Refused: tokens are given out where the database is, never over the network."""
        raise Refused(
            f"The agents of {self._client.address} are looked after on its own machine.", "Type there: kranzq agent"
        )

    def enqueue(self, new: NewItem, /) -> AcceptedItem:
        """As of the contract; `created_by` is the token's."""
        self._check_creator(new)
        return self._client.send(work_asks.enqueue(new))

    def enqueue_many(self, new: Sequence[NewItem]) -> list[AcceptedItem]:
        """As of the contract."""
        for one in new:
            self._check_creator(one)
        return self._client.send(work_asks.enqueue_many(new))

    def claim(
        self,
        holder: Holder,
        wanted: Wanted | None = None,
        *,
        lease_ms: int | None = None,
        request_id: str = "",
        wait_s: float = 0.0,
    ) -> ItemClaim | None:
        """As of the contract, for the token's groups or those of them that are wanted; the server waits `wait_s`."""
        self._known(holder)
        return self._client.send(work_asks.claim(wanted, lease_ms, request_id, wait_s))

    def claim_many(
        self, holder: Holder, wanted: Wanted | None = None, *, limit: int, lease_ms: int | None = None
    ) -> list[ItemClaim]:
        """As of the contract; groups as in `claim`."""
        self._known(holder)
        return self._client.send(work_asks.claim_many(wanted, limit, lease_ms))

    def heartbeat(self, held: Held, lease_ms: int | None = None) -> ItemClaim:
        """As of the contract. Of a claim of `claim` the item is what it was but for its lease; else it is asked for."""
        self._known(held.holder)
        expires = self._client.send(work_asks.heartbeat(held, lease_ms))
        item = held.item if isinstance(held, ItemClaim) else self.show(held.id)
        kept = replace(item, state=ItemState.CLAIMED, claim_expires=expires)
        return ItemClaim(held.id, held.attempt, held.holder, kept)

    def finish(self, held: Held, outcome: Outcome = Outcome.SUCCEEDED, result: str = "") -> None:
        """As of the contract."""
        self._known(held.holder)
        self._client.send(work_asks.finish(held, outcome, result))

    def finish_many(self, ends: Sequence[Finish]) -> list[KranzqError | None]:
        """As of the contract."""
        for one in ends:
            self._known(one.held.holder)
        return self._client.send(work_asks.finish_many(ends, str(self._client.address)))

    def release(self, held: Held, why: str = "", *, declined: bool = False, delay_ms: int = 0) -> ItemState:
        """As of the contract."""
        self._known(held.holder)
        return self._client.send(work_asks.release(held, why, declined=declined, delay_ms=delay_ms))

    def cancel(self, name: str, /, why: str = "") -> bool:
        """As of the contract."""
        return self._client.send(work_asks.cancel(name, why))

    def recover(self) -> tuple[str, ...]:
        """As of the contract."""
        done = self.sweep()
        return done.lapsed + done.failed

    def sweep(self) -> Recovered:
        """As of the contract."""
        return self._client.send(work_asks.sweep())

    def grant_grace(self, seconds: float) -> None:
        """Nothing: leases count where the store is, and a sleep of this machine is none of the server's."""
        del seconds

    def wait_for_work(self, seconds: float) -> bool:
        """Wait a while; whoever claims then finds what came. A claim with `wait_s` is told at once instead."""
        if not getattr(self._local, "has_waited", False):
            self._local.has_waited = True
            return True
        time.sleep(min(seconds, LOOK_S))
        return True

    def entries(self, state: ItemState = ItemState.OPEN, limit: int | None = None) -> list[WorkItem]:
        """As of the contract; all pages are read."""
        found, cursor, most = list[WorkItem](), None, MOST_PAGE
        while True:
            try:
                page = self.page(state.value, limit=most, cursor=cursor)
            except AnswerTooLong:
                if most == 1:
                    raise
                most = max(1, most // 8)  # items of a megabyte each: in smaller pages
                continue
            found += [one for one in page.items if one.state is state]
            if (cursor := page.cursor) is None:
                break
        if state.may_be_claimed:
            found.sort(key=lambda one: (-one.priority, one.seq))
        return found[:limit]

    def page(self, state: str = "", *, limit: int = 50, cursor: str | None = None) -> Page:
        """As of the contract."""
        if state and state not in _STATES:
            return Page((), None)
        return self._client.send(work_asks.page(state, limit, cursor))

    def show(self, name: str, /) -> WorkItem:
        """As of the contract."""
        return self._client.send(work_asks.show(name))

    def attempts(self, name: str, /) -> list[Attempt]:
        """As of the contract."""
        return self._client.send(work_asks.attempts(name))

    def unseen(self, limit: int = 100) -> list[WorkItem]:
        """As of the contract."""
        return self._client.send(work_asks.unseen(limit))

    def prune(self, older_than_s: float) -> int:
        """As of the contract."""
        return self._client.send(work_asks.prune(older_than_s))

    def stats(self) -> Stats:
        """As of the contract."""
        return self._client.send(work_asks.stats())

    def counters(self) -> dict[str, int]:
        """Those of the server, since it was started."""
        return self._client.send(work_asks.counters())

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def __enter__(self) -> Self:
        """Close when the block ends."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _known(self, holder: Holder) -> None:
        """Refuse a holder whom the token does not speak for. Raises Refused."""
        me = self.me().holder
        if me.name and not same_holder(holder.name, holder.uid, me.name, me.uid):
            raise Refused(
                f"The server {self._client.address} knows you by your token as {me.name}, not as {holder.name[:100]}.",
                "Leave the name out, or use the token of that agent.",
            )

    def _check_creator(self, new: NewItem) -> None:
        if new.created_by or new.created_by_uid:
            self._known(Holder(new.created_by, uid=new.created_by_uid))
