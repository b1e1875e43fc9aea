"""Waiting for work without a thread for each that waits: one looks for hints, and a few ask in the name of all.

A hint wakes everybody, for only the store knows whom an item is for. They ask in a small pool of their own, and the
next hint is waited for when all have asked, after a pause as long as that took: two hundred that wait take half of one
processor at most, and no thread of those who have something to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kranzq.errors import KranzqError

if TYPE_CHECKING:
    from kranzq.server.service import Service

T = TypeVar("T")
LOOK_S = 2.0
"""So often everybody asks without a hint: items come due in silence."""
_PAUSE_S = 0.02


class Waiting:
    """Those that wait for work in one server. For the loop's thread."""

    def __init__(self, service: Service) -> None:
        self._service = service
        # One thread: the store tells each thread what came since its own last wait.
        self._hints = service.make_pool(1, "hints")
        self._asking = service.make_pool(service.limits.waiting_threads, "waiting")
        self._woken: set[asyncio.Future[None]] = set()
        self._rounds: set[asyncio.Future[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self.count = 0
        """How many wait."""
        self.hints = 0
        """How often everybody was woken: read it before asking in vain, and no hint falls between."""

    async def until_there_is_one(
        self, take: Callable[[], T | None], seconds: float, gone: asyncio.Task[None], asked_at: int
    ) -> T | None:
        """What `take` gives, asked again at each hint; None after so long, when the client went, or at the end.

        `asked_at` is what `hints` was before it was asked in vain.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds

        def take_in_time() -> T | None:
            """A store that is away holds up the few who ask: whoever's time went by in their queue asks no more."""
            return take() if loop.time() < until and not gone.done() else None

        self.count += 1
        try:
            while True:
                if self.hints == asked_at and not await self._next(until - loop.time(), gone):
                    return None
                if gone.done() or self._service.closing.is_set():
                    return None
                asked_at = self.hints
                asked = loop.create_future()
                self._rounds.add(asked)
                try:
                    if (found := await self._asking.run(take_in_time)) is not None:
                        return found
                finally:
                    self._rounds.discard(asked)
                    asked.cancel()
        finally:
            self.count -= 1

    async def until_closing(self) -> None:
        """Wake everybody when the server closes."""
        await self._service.closing.wait()
        self._wake()

    async def _next(self, seconds: float, gone: asyncio.Task[None]) -> bool:
        """Wait for the next hint, or until the client has gone; False when the time is over."""
        if seconds <= 0 or self._service.closing.is_set():
            return False
        if self._watch is None or self._watch.done():
            self._watch = asyncio.create_task(self._look())
        woken = asyncio.get_running_loop().create_future()
        self._woken.add(woken)
        try:
            done, _ = await asyncio.wait({woken, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._woken.discard(woken)
        return bool(done)

    async def _look(self) -> None:
        """Pass on hints as long as anybody waits."""
        loop = asyncio.get_running_loop()
        while self.count and not self._service.closing.is_set():
            try:
                await self._hints.run(self._service.store.wait_for_work, LOOK_S)
            except KranzqError:
                await self._service.until_closing(LOOK_S)  # whoever asks is told of the fault by the store itself
            begun = loop.time()
            self._wake()
            await asyncio.sleep(0)
            while self._rounds:
                await asyncio.wait(set(self._rounds))
            await asyncio.sleep(max(_PAUSE_S, loop.time() - begun))

    def _wake(self) -> None:
        self.hints += 1
        for woken in self._woken:
            if not woken.done():
                woken.set_result(None)
