"""What all handlers share: the store, the threads for it, limits, counters, and the sign that the server closes."""

from __future__ import annotations

import asyncio
import collections
import functools
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from kranzq.backend.presence import SharedStore

if TYPE_CHECKING:
    from kranzq.server.routing import Route

P = ParamSpec("P")
R = TypeVar("R")
Observer = Callable[["Route | None", int, float], None]
"""Is told of each answer: its route (None: there was none), status, and seconds from the first byte to the last."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much and how long the server puts up with; seconds and bytes."""

    body: int = 8 * 1024 * 1024
    """Of one request, counted as they arrive."""
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
    wait_ms: int = 60_000
    """The longest wait for work that may be asked for."""


class Pool:
    """Threads for calls that block."""

    def __init__(self, threads: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._mutex = threading.Lock()
        self.running = 0
        """Calls that have begun and not returned."""

    async def run(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call it in a thread. Whoever is cancelled meanwhile leaves the call running to its end."""
        call = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._counted, call)

    def close(self) -> None:
        """Take no more calls; those that run are not waited for."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _counted(self, call: Callable[[], R]) -> R:
        with self._mutex:
            self.running += 1
        try:
            return call()
        finally:
            with self._mutex:
                self.running -= 1


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
    counters: collections.Counter[str] = field(default_factory=collections.Counter)
    """Fallbacks of identity that this process has seen, by the names of seed g.4."""
    observers: list[Observer] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the threads."""
        self.closing = asyncio.Event()
        self.pool = Pool(self.limits.threads, "store")
        self.waiting_pool = Pool(self.limits.waiting_threads, "waiting")

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
        self.pool.close()
        self.waiting_pool.close()
        self.store.close()
