"""Whose token that is: asked together, answered each by a look that began later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from kranzq.errors import StoreUnreachable
from kranzq.model.agents import Agent, Scope
from kranzq.model.tokens import new_token
from kranzq.server.pool import Pool
from kranzq.server.proving import Proving

ANN = Agent("uid", "ann", frozenset(), frozenset({Scope.WORK}), None, 0, None)


class Agents:
    """Knows a few tokens; a look takes until it is let go, and sees what is known at its beginning."""

    def __init__(self, *known: str) -> None:
        self.known, self.looks = set(known), list[list[str]]()
        self.fault: Exception | None = None
        self.let_go = threading.Semaphore(0)

    def by_tokens(self, tokens: Sequence[str]) -> list[Agent | None]:
        """As a store."""
        found = [ANN if token in self.known else None for token in tokens]
        self.looks.append(list(tokens))
        assert self.let_go.acquire(timeout=20)
        if self.fault is not None:
            raise self.fault
        return found


async def looking(agents: Agents, many: int) -> None:
    """Let the loop run until so many looks have begun."""
    async with asyncio.timeout(20):
        while len(agents.looks) < many:  # noqa: ASYNC110 - what is looked at belongs to a thread
            await asyncio.sleep(0.005)


def proving_with(agents: Agents) -> Proving:
    """One that asks these."""
    return Proving(agents.by_tokens, Pool(1, "tokens"))


def test_a_look_that_had_begun_lets_nobody_in() -> None:
    """A token that is revoked while others are asked about is unknown to whoever shows it after that."""

    async def run() -> list[Agent | None]:
        one, other = new_token(), new_token()
        agents = Agents(one, other)
        proving = proving_with(agents)
        first = asyncio.create_task(proving.whose(one))
        await looking(agents, 1)
        agents.known.remove(one)
        later = [asyncio.create_task(proving.whose(token)) for token in (one, other, one)]
        agents.let_go.release(2)
        return [await task for task in (first, *later)]

    assert asyncio.run(run()) == [ANN, None, ANN, None]


def test_all_who_come_meanwhile_are_asked_about_at_once() -> None:
    """However many they are; one that goes meanwhile takes nobody along."""

    async def run() -> tuple[list[object], list[int]]:
        token = new_token()
        agents = Agents(token)
        proving = proving_with(agents)
        first = asyncio.create_task(proving.whose(token))
        await looking(agents, 1)
        later = [asyncio.create_task(proving.whose(token)) for _ in range(50)]
        await asyncio.sleep(0)
        first.cancel()
        later[0].cancel()
        agents.let_go.release(2)
        found = await asyncio.gather(first, *later, return_exceptions=True)
        return [one if isinstance(one, Agent) else type(one) for one in found], [len(one) for one in agents.looks]

    found, looks = asyncio.run(run())
    assert found == [asyncio.CancelledError] * 2 + [ANN] * 49
    assert looks == [1, 50]


def test_a_store_that_is_away_is_waited_for_once() -> None:
    """Who came while it did not answer is told so with the others; the next one asks anew."""

    async def run() -> tuple[list[object], Agent | None]:
        token = new_token()
        agents = Agents(token)
        proving = proving_with(agents)
        agents.fault = StoreUnreachable("the place", "it is away")
        first = asyncio.create_task(proving.whose(token))
        await looking(agents, 1)
        second = asyncio.create_task(proving.whose(token))
        await asyncio.sleep(0)
        agents.let_go.release()
        told = await asyncio.gather(first, second, return_exceptions=True)
        agents.fault = None
        agents.let_go.release()
        return list(told), await proving.whose(token)

    told, after = asyncio.run(run())
    assert [type(one) for one in told] == [StoreUnreachable] * 2
    assert after == ANN


def test_each_gets_its_own_answer() -> None:
    """In whatever order they came."""

    async def run() -> list[Agent | None]:
        tokens = [new_token() for _ in range(5)]
        agents = Agents(*tokens[::2])
        agents.let_go.release(5)
        return await asyncio.gather(*map(proving_with(agents).whose, tokens))

    assert asyncio.run(run()) == [ANN, None, ANN, None, ANN]
