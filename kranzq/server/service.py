"""What all handlers share: the store, the threads for it, limits, counters, and the sign that the server closes."""

from __future__ import annotations

import asyncio
import collections
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast

from kranzq.backend.presence import SharedStore
from kranzq.model.frozen import frozen
from kranzq.server.identity import Callers
from kranzq.server.pool import Pool
from kranzq.server.together import Together
from kranzq.server.waiting import Waiting

if TYPE_CHECKING:
    from kranzq.server.routing import Route

T = TypeVar("T")
Observer = Callable[["Route | None", int, float], None]
"""Is told of each answer: its route (None: there was none), status, and seconds from the first byte to the last."""


@frozen
class Limits:
    """How much and how long the server puts up with; seconds and bytes."""

    body: int = 8 * 1024 * 1024
    """Of one request, counted as they arrive."""
    bodies: int = 128 * 1024 * 1024
    """Of all requests together that are being read or answered; those that came at once are not counted."""
    header_s: float = 10.0
    """Until a request line and its headers are there."""
    body_s: float = 15.0
    """Until a body is there, and a second more for each `body_rate` bytes of it that came."""
    body_rate: int = 16 * 1024
    idle_s: float = 75.0
    """Between two requests of one connection."""
    stalled_s: float = 30.0
    """During which a client reads nothing of its answer."""
    connections: int = 1000
    """At once; one more closes the one that has been idle longest, and is refused when none is idle."""
    threads: int = 64
    """For calls of the store."""
    waiting_threads: int = 4
    """For the looks of those that wait for work: however many wait, others find a thread."""
    looking_threads: int = 4
    """For costly looks at the queue of missions: however many ask, others find a thread."""
    wait_ms: int = 60_000
    """The longest wait for work that may be asked for."""


@dataclass
class Service:
    """One server process. Everything in it belongs to the loop's thread but the store, which threads share."""

    store: SharedStore
    environ: Mapping[str, str] = field(repr=False)
    directory: str
    """Where the server was started: the checkout of the mission queue, if it is one."""
    limits: Limits = field(default_factory=Limits)
    boot_id: str = field(default_factory=lambda: secrets.token_hex(8))
    """Names this start of the server."""
    routes: tuple[Route, ...] = ()
    """All that is served; set by the application."""
    observers: list[Observer] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the threads."""
        self.closing = asyncio.Event()
        self._pools: list[Pool] = []
        self.pool = self.make_pool(self.limits.threads, "store")
        self.waiting = Waiting(self)
        self.together = Together(self)
        self._shared: dict[Callable[[Service], object], object] = {}
        self.callers = Callers()
        self._counted: collections.Counter[str] = collections.Counter()
        self._mutex = threading.Lock()

    def make_pool(self, threads: int, name: str) -> Pool:
        """Threads that end with the server."""
        self._pools.append(Pool(threads, name))
        return self._pools[-1]

    @property
    def running(self) -> int:
        """Calls in all threads that have not returned: each keeps the process from ending."""
        return sum(pool.running for pool in self._pools)

    def count(self, name: str) -> None:
        """Count a fallback of identity, by the name that it has in seed g.4. For any thread."""
        with self._mutex:
            self._counted[name] += 1

    def counted(self) -> dict[str, int]:
        """What this process has counted since its start."""
        with self._mutex:
            return dict(self._counted)

    def shared(self, make: Callable[[Service], T]) -> T:
        """What `make` gives for this server: one for all, made when it is first asked for. For the loop's thread."""
        if make not in self._shared:
            self._shared[make] = make(self)
        return cast("T", self._shared[make])

    async def until_closing(self, seconds: float) -> bool:
        """Wait so long, or until the server closes; whether it does."""
        try:
            async with asyncio.timeout(seconds):
                await self.closing.wait()
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        """Let go of threads and store."""
        self.end_calls()
        self.store.close()

    def end_calls(self) -> None:
        """Take no more calls of any thread."""
        for pool in self._pools:
            pool.close()
