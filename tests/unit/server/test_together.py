"""Looks that many ask for at once: how often one is taken, and what those who asked are told."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kranzq.errors import NotFound
from kranzq.server.pool import Pool
from kranzq.server.service import Limits
from kranzq.server.together import Together


class Look:
    """One that lasts until it is let go, and gives how often it was begun."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.begun, self.go, self._fault = 0, threading.Event(), fault

    def __call__(self) -> object:
        """Look."""
        self.begun += 1
        mine = self.begun
        assert self.go.wait(20)
        if self._fault is not None:
            raise self._fault
        return mine


def together(threads: int = 2) -> Together:
    """Those of a server with so many threads for it."""
    return Together(cast("Any", SimpleNamespace(limits=Limits(looking_threads=threads), make_pool=Pool)))


async def begun(look: Look, times: int = 1) -> None:
    """Wait until it was begun so often."""
    async with asyncio.timeout(20):
        while look.begun < times:  # noqa: ASYNC110 - what is looked at belongs to a thread
            await asyncio.sleep(0.005)


async def asked(shared: Together, key: str, look: Look, times: int = 1) -> list[asyncio.Task[object]]:
    """So many who ask, each of whom waits by now."""
    tasks = [asyncio.create_task(shared.take(key, look)) for _ in range(times)]
    await asyncio.sleep(0)
    return tasks


def test_a_hundred_who_ask_meanwhile_share_the_next_look() -> None:
    """Never the one that had begun before they asked: what it tells may be older than their question."""

    async def run() -> tuple[object, set[object], int]:
        shared, look = together(), Look()
        (first,) = await asked(shared, "status", look)
        await begun(look)
        others = await asked(shared, "status", look, 100)
        look.go.set()
        return await first, set(await asyncio.gather(*others)), look.begun

    assert asyncio.run(run()) == (1, {2}, 2)


def test_looks_at_other_things_take_a_few_threads_and_come_in_turn() -> None:
    """However many are asked for; none is lost."""

    async def run() -> list[int]:
        shared, looks = together(), [Look() for _ in range(9)]
        tasks = [(await asked(shared, f"mission-{number}", look))[0] for number, look in enumerate(looks)]
        await begun(looks[0])
        await begun(looks[1])
        seen = [sum(look.begun for look in looks)]
        for look in looks:
            look.go.set()
        await asyncio.gather(*tasks)
        return [*seen, *(look.begun for look in looks)]

    assert asyncio.run(run()) == [2, *[1] * 9]


def test_one_who_goes_takes_it_from_nobody_and_a_fault_is_told_to_all() -> None:
    """The next look is another one, whose answer is its own."""

    async def run() -> tuple[list[object], object]:
        shared, look = together(), Look(NotFound("Nothing is there."))
        tasks = await asked(shared, "status", look, 3)
        await begun(look)
        tasks[0].cancel()
        look.go.set()
        told = await asyncio.gather(*tasks[1:], return_exceptions=True)
        calm = Look()
        calm.go.set()
        return [type(one) for one in told], await shared.take("status", calm)

    assert asyncio.run(run()) == ([NotFound, NotFound], 1)


def test_nothing_is_kept_of_what_was_asked_for() -> None:
    """A server that is asked for one mission after the other does not grow by it."""

    async def run() -> list[int]:
        shared, look = together(), Look(NotFound("Nothing is there."))
        look.go.set()
        for number in range(3):
            with pytest.raises(NotFound):
                await shared.take(f"mission-{number}", look)
        return [len(one) for one in vars(shared).values() if isinstance(one, dict)]

    assert asyncio.run(run()) == [0, 0]
