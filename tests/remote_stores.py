"""A server's work queue and presence as stores for the suites: real requests over a real socket.

The server lives in a thread of the test's process, so that its store's clock can be moved. Whoever is named as a holder
or creator gets a token of an agent of that name; uids that only the tokens brought about are not shown to the suites.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from kranzq.backend import Wanted
from kranzq.backend.agents import Agents
from kranzq.backend.items import AcceptedItem
from kranzq.backend.presence import Presence, Put, SharedStore
from kranzq.client.remote import RemoteStore
from kranzq.client.sending import Client
from kranzq.errors import KranzqError
from kranzq.model.agents import Scope
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.presence import NewPresence, PresenceClaim
from kranzq.model.tokens import OPERATOR_PREFIX, new_token
from kranzq.model.who import Facts, Question, Working
from kranzq.model.work import (
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
    folded,
)
from kranzq.server import serving
from kranzq.server.access import Door
from kranzq.server.app import App
from kranzq.server.service import Limits, Service
from kranzq.server.table import table
from kranzq.testing.items import ItemStore
from tests.item_stores import SqliteItems
from tests.laboratory import PATIENCE

NOBODY = Holder("")


@dataclass
class Served:
    """A server in a thread, whose store is exchanged for each test."""

    path: str
    service: Service
    door: Door
    key: str

    def put_before(self, store: SharedStore) -> None:
        """Serve that store from now on."""
        self.service.store = store
        self.door.agents = store.agents


@contextlib.contextmanager
def served(folder: Path, store: SharedStore) -> Iterator[Served]:
    """A server on a Unix socket while the block lasts."""
    path, key = str(folder / "socket"), new_token(OPERATOR_PREFIX)
    service = Service(store, os.environ, str(folder))
    door = Door(store.agents, lambda: key)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listening.bind(path)
    listening.listen(64)
    config = serving._config(App(service, door, table()), Limits())
    begun = threading.Event()
    server = serving.Server(config, begun.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), name="server")
    thread.start()
    try:
        assert begun.wait(20)
        yield Served(path, service, door, key)
    finally:
        server.should_exit = True
        thread.join(20)
        listening.close()
        service.end_calls()


@dataclass
class RemoteItems(ItemStore):
    """The work queue of a server on an empty SQLite file, and a clock that only moves when it is told to."""

    server: Served
    items: SqliteItems
    _agents: dict[str, tuple[str, str, frozenset[str]]] = field(default_factory=dict)
    _hidden: set[str] = field(default_factory=set)
    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _clients: list[RemoteStore] = field(default_factory=list)
    _by_token: dict[str, RemoteStore] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Serve the file."""
        self.server.put_before(self.items.open())

    def open(self) -> ManyAgents:
        """The work queue, for everybody who is named."""
        return ManyAgents(self)

    def pass_time(self, seconds: float) -> None:
        """Move the clocks of the server's store."""
        self.items.pass_time(seconds)

    def close(self) -> None:
        """Let go of connections."""
        for one in self._by_token.values():
            one.close()
        self.items.close()

    def of(self, holder: Holder, groups: frozenset[str] = frozenset()) -> RemoteStore:
        """The store as an agent has it that is in these groups; the operator's for nobody."""
        with self._mutex:
            return self._client(self.server.key if not holder.name and not holder.uid else self._token(holder, groups))

    def shown_uid(self, uid: str) -> str:
        """Blank where only a token brought it about."""
        return "" if uid in self._hidden else uid

    def _token(self, holder: Holder, groups: frozenset[str]) -> str:
        """A new one where the agent has got another name or other groups since."""
        who = f"u:{holder.uid}" if holder.uid else f"n:{folded(holder.name)}"
        token, name, has = self._agents.get(who, ("", "", frozenset()))
        if (token, name, has) == (token, holder.name, groups):
            return token
        agents = self.server.door.agents
        uid = holder.uid or f"made-for-{hashlib.sha256(who.encode()).hexdigest()}"
        if token:
            agents.revoke(uid)
        shown = holder.name if holder.name == holder.name.strip() else f"[{holder.name}]"
        made, token = agents.add(shown, groups=groups, scopes=[Scope.OPERATE], uid=uid, another=True)
        if not holder.uid:
            self._hidden.add(made.uid)
        self._agents[who] = token, holder.name, groups
        return token

    def _client(self, token: str) -> RemoteStore:
        if token not in self._by_token:
            self._by_token[token] = RemoteStore(Client(f"unix:{self.server.path}", token, patience_s=PATIENCE))
        return self._by_token[token]


@dataclass
class RemotePresences:
    """Presence beside those items."""

    items: RemoteItems

    def open(self) -> Presence:
        """As many agents have it."""
        return self.items.open().presence

    def pass_time(self, seconds: float) -> None:
        """Move the clocks of the server's store."""
        self.items.pass_time(seconds)


class ManyAgents:
    """A `SharedStore` in whose name many agents call, each with a token of its own."""

    def __init__(self, items: RemoteItems) -> None:
        self._items = items
        self._operator = items.of(NOBODY)

    @property
    def presence(self) -> Presence:
        """Presence of everybody who is named."""
        return ManyPresences(self._items)

    @property
    def agents(self) -> Agents:
        """Refused."""
        return self._operator.agents

    def enqueue(self, new: NewItem, /) -> AcceptedItem:
        """In the name of its creator."""
        accepted = self._by(new).enqueue(_anonymous(new))
        return replace(accepted, entry=self._shown(accepted.entry))

    def enqueue_many(self, new: Sequence[NewItem]) -> list[AcceptedItem]:
        """In the name of the first one's creator."""
        by = self._by(new[0]) if new else self._operator
        found = by.enqueue_many([_anonymous(one) for one in new])
        return [replace(one, entry=self._shown(one.entry)) for one in found]

    def claim(
        self, holder: Holder, wanted: Wanted | None = None, *, lease_ms: int | None = None, request_id: str = ""
    ) -> ItemClaim | None:
        """As the holder."""
        by = self._items.of(holder, wanted.groups if wanted is not None else frozenset())
        found = by.claim(by.me().holder, wanted, lease_ms=lease_ms, request_id=request_id)
        return self._claim(found, holder) if found is not None else None

    def claim_many(
        self, holder: Holder, wanted: Wanted | None = None, *, limit: int, lease_ms: int | None = None
    ) -> list[ItemClaim]:
        """As the holder."""
        by = self._items.of(holder, wanted.groups if wanted is not None else frozenset())
        found = by.claim_many(by.me().holder, wanted, limit=limit, lease_ms=lease_ms)
        return [self._claim(one, holder) for one in found]

    def heartbeat(self, held: Held, lease_ms: int | None = None) -> ItemClaim:
        """As the holder."""
        by, mine = self._held(held)
        return self._claim(by.heartbeat(mine, lease_ms), held.holder)

    def finish(self, held: Held, outcome: Outcome = Outcome.SUCCEEDED, result: str = "") -> None:
        """As the holder."""
        by, mine = self._held(held)
        by.finish(mine, outcome, result)

    def finish_many(self, ends: Sequence[Finish]) -> list[KranzqError | None]:
        """As the first one's holder, and each other one as its own."""
        if len({one.held.holder for one in ends}) > 1:
            return [fault for one in ends for fault in self.finish_many([one])]
        if not ends:
            return self._operator.finish_many(ends)
        by, _ = self._held(ends[0].held)
        return by.finish_many([replace(one, held=self._held(one.held)[1]) for one in ends])

    def release(self, held: Held, why: str = "", *, declined: bool = False, delay_ms: int = 0) -> ItemState:
        """As the holder."""
        by, mine = self._held(held)
        return by.release(mine, why, declined=declined, delay_ms=delay_ms)

    def cancel(self, name: str, /, why: str = "") -> bool:
        """As the operator."""
        return self._operator.cancel(name, why)

    def recover(self) -> tuple[str, ...]:
        """As the operator."""
        return self._operator.recover()

    def sweep(self) -> Recovered:
        """As the operator."""
        return self._operator.sweep()

    def grant_grace(self, seconds: float) -> None:
        """Where the store is: no client may do it."""
        self._items.server.service.store.grant_grace(seconds)

    def wait_for_work(self, seconds: float) -> bool:
        """As of the client."""
        return self._operator.wait_for_work(seconds)

    def entries(self, state: ItemState = ItemState.OPEN, limit: int | None = None) -> list[WorkItem]:
        """As the operator."""
        return [self._shown(one) for one in self._operator.entries(state, limit)]

    def page(self, state: str = "", *, limit: int = 50, cursor: str | None = None) -> Page:
        """As the operator."""
        page = self._operator.page(state, limit=limit, cursor=cursor)
        return replace(page, items=tuple(map(self._shown, page.items)))

    def show(self, name: str, /) -> WorkItem:
        """As the operator."""
        return self._shown(self._operator.show(name))

    def attempts(self, name: str, /) -> list[Attempt]:
        """As the operator."""
        return [replace(one, holder_uid=self._items.shown_uid(one.holder_uid)) for one in self._operator.attempts(name)]

    def unseen(self, limit: int = 100) -> list[WorkItem]:
        """As the operator."""
        return [self._shown(one) for one in self._operator.unseen(limit)]

    def prune(self, older_than_s: float) -> int:
        """As the operator."""
        return self._operator.prune(older_than_s)

    def stats(self) -> Stats:
        """As the operator."""
        return self._operator.stats()

    def counters(self) -> dict[str, int]:
        """As the operator."""
        return self._operator.counters()

    def close(self) -> None:
        """Nothing: the clients belong to the store."""

    def __enter__(self) -> Self:
        """Nothing is to be closed."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is to be closed."""

    def _by(self, new: NewItem) -> RemoteStore:
        return self._items.of(Holder(new.created_by, uid=new.created_by_uid))

    def _held(self, held: Held) -> tuple[RemoteStore, Held]:
        by = self._items.of(held.holder)
        return by, replace(held, holder=by.me().holder)

    def _claim(self, claim: ItemClaim, holder: Holder) -> ItemClaim:
        return ItemClaim(claim.id, claim.attempt, holder, self._shown(claim.item))

    def _shown(self, item: WorkItem) -> WorkItem:
        return replace(
            item,
            claimed_by_uid=self._items.shown_uid(item.claimed_by_uid),
            created_by_uid=self._items.shown_uid(item.created_by_uid),
        )


class ManyPresences:
    """Presence in whose name many agents call."""

    def __init__(self, items: RemoteItems) -> None:
        self._items = items
        self._operator = items.of(NOBODY).presence

    def put(self, new: NewPresence, /) -> Put:
        """As its holder."""
        by, about = self._items.of(new.holder), new.subject
        mine = replace(new, holder=by.me().holder)
        if about.path is not None and about.repo is None and about.absolute_path is None:
            put = self._items.server.service.store.presence.put(mine)  # in no repository: no client can name that
        else:
            put = by.presence.put(mine)
        return replace(put, claim=self._shown(put.claim))

    def live(self) -> list[PresenceClaim]:
        """As the operator."""
        return [self._shown(one) for one in self._operator.live()]

    def release(self, holder: Holder, claim: str | None = None) -> list[PresenceClaim]:
        """As the holder."""
        by = self._items.of(holder)
        return [self._shown(one) for one in by.presence.release(by.me().holder, claim)]

    def about(self, question: Question) -> list[PresenceClaim]:
        """As the operator."""
        return [self._shown(one) for one in self._operator.about(question)]

    def who(
        self, question: Question, *, caller: Holder | None = None, facts: Sequence[Facts] = ()
    ) -> tuple[Working, ...]:
        """As the operator."""
        if caller is not None:
            caller = self._items.of(caller).me().holder
        found = self._operator.who(question, caller=caller, facts=facts)
        return tuple(replace(one, facts=replace(one.facts, uid=self._items.shown_uid(one.facts.uid))) for one in found)

    def _shown(self, claim: PresenceClaim) -> PresenceClaim:
        return replace(claim, agent_uid=self._items.shown_uid(claim.agent_uid))


def _anonymous(new: NewItem) -> NewItem:
    return replace(new, created_by="", created_by_uid="")
