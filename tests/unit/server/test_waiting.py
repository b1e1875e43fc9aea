"""Waiting for work: who asks the store, and when, without a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

from kranzq.server.pool import Pool
from kranzq.server.service import Limits
from kranzq.server.waiting import Waiting


class Claimer:
    """One that waits, and counts how often it was asked for."""

    def __init__(
        self, waiting: Waiting, seconds: float = 60.0, *, stuck: threading.Event | None = None, missed: int = 0
    ) -> None:
        self.asked, self._stuck = 0, stuck
        self.gone = asyncio.create_task(cast("Coroutine[Any, Any, None]", asyncio.Event().wait()))
        self.result = asyncio.create_task(
            waiting.until_there_is_one(self._take, seconds, self.gone, waiting.hints - missed)
        )

    def _take(self) -> str | None:
        self.asked += 1
        if self._stuck is not None:
            self._stuck.wait(20)
        return None


def waiting_for(hints: threading.Event, threads: int = 1) -> Waiting:
    """A server's waiting, whose store gives a hint when it is told to."""

    def wait_for_work(_: float) -> bool:
        hints.wait(20)
        hints.clear()
        return True

    store = SimpleNamespace(wait_for_work=wait_for_work)
    limits = Limits(waiting_threads=threads)
    service = SimpleNamespace(store=store, limits=limits, closing=asyncio.Event(), make_pool=Pool)
    return Waiting(cast("Any", service))


async def until(condition: Any) -> None:
    """Let the loop run until it is so."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is looked at belongs to threads
            await asyncio.sleep(0.005)


def test_one_that_hangs_up_lets_nobody_else_ask() -> None:
    """Nor is the store asked once more for the one that has gone."""

    async def run() -> tuple[list[int], object]:
        hints = threading.Event()
        waiting = waiting_for(hints)
        claimers = [Claimer(waiting) for _ in range(3)]
        await until(lambda: waiting.count == 3)
        claimers[0].gone.cancel()
        found = await claimers[0].result
        asked = [one.asked for one in claimers]
        hints.set()
        await until(lambda: claimers[2].asked and claimers[1].asked)
        for one in claimers:
            one.gone.cancel()
        hints.set()
        return [*asked, claimers[0].asked], found

    assert asyncio.run(run()) == ([0, 0, 0, 0], None)


def test_whose_time_went_by_in_the_queue_asks_no_more() -> None:
    """A store that does not answer holds up the few threads that ask; it is not asked for those who are long gone."""

    async def run() -> list[int]:
        hints, stuck = threading.Event(), threading.Event()
        waiting = waiting_for(hints)
        first = Claimer(waiting, stuck=stuck)
        await until(lambda: waiting.count == 1)
        hints.set()
        await until(lambda: first.asked)
        late, left = Claimer(waiting, 0.1, missed=1), Claimer(waiting, missed=1)
        await until(lambda: waiting.count == 3)
        left.gone.cancel()
        end = asyncio.get_running_loop().time() + 0.1
        await until(lambda: asyncio.get_running_loop().time() > end)
        stuck.set()
        first.gone.cancel()
        await asyncio.gather(first.result, late.result, left.result)
        hints.set()
        return [late.asked, left.asked]

    assert asyncio.run(run()) == [0, 0]
