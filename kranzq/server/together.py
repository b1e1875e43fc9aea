"""Costly looks at the queue, taken once for all who ask at the same time, and a few at once.

A hundred open dashboards ask the same things at the same event, and each look at a long queue takes the better part of
a second. So whoever asks while one is being taken shares the next one with all others: nobody is told anything older
than his question, and those who claim find a thread and a processor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kranzq.server.service import Service


class Together:
    """The looks of one server. For the loop's thread."""

    def __init__(self, service: Service) -> None:
        most = service.limits.looking_threads
        self._pool = service.make_pool(most, "looking")
        self._free = asyncio.Semaphore(most)
        self._next: dict[Hashable, asyncio.Task[object]] = {}
        self._running: dict[Hashable, asyncio.Task[object]] = {}

    async def take(self, key: Hashable, look: Callable[[], object]) -> object:
        """What a look gives that begins after this call, in a thread; `key` names what is looked at. Raises as it."""
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._take(key, look, self._running.get(key)))
            task.add_done_callback(_heard)
        return await asyncio.shield(task)  # whoever goes takes it from nobody

    async def _take(self, key: Hashable, look: Callable[[], object], before: asyncio.Task[object] | None) -> object:
        if before is not None:
            await asyncio.wait({before})
        async with self._free:
            task = self._running[key] = self._next.pop(key)
            try:
                return await self._pool.run(look)
            finally:
                if self._running.get(key) is task:
                    del self._running[key]


def _heard(task: asyncio.Task[object]) -> None:
    """Its fault is told to those who asked; where all of them have gone, to nobody."""
    if not task.cancelled():
        task.exception()
