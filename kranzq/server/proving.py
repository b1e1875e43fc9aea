"""Whose token that is, asked of the store with every request: one question for all requests of the moment.

Each is answered by a look that began after it came, so a token that is revoked opens nothing from that moment on. They
are asked together because what costs is not the look but a hop to a thread and back for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from kranzq.model.agents import Agent
from kranzq.server.pool import Pool

LookUp = Callable[[Sequence[str]], list[Agent | None]]
_Asked = tuple[str, "asyncio.Future[Agent | None]"]


class Proving:
    """Asks in one thread. For the loop's thread."""

    def __init__(self, look_up: LookUp, pool: Pool) -> None:
        self._look_up, self._pool = look_up, pool
        self._asked: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None

    async def whose(self, token: str) -> Agent | None:
        """The agent; None for a token that is unknown or has expired. Raises as stores do."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[Agent | None] = loop.create_future()
        self._asked.append((token, told))
        if self._task is None:
            self._task = loop.create_task(self._answer())
        return await told

    async def _answer(self) -> None:
        """Ask for all who have come meanwhile, until nobody has."""
        try:
            while self._asked:
                asked, self._asked = self._asked, []
                try:
                    found = await self._pool.run(self._look_up, [token for token, _ in asked])
                except Exception as fault:  # noqa: BLE001 - whatever it was: they are told, not this task
                    # Also those who came meanwhile: a store that did not answer would keep them as long once more.
                    self._asked, late = [], self._asked
                    _tell([*asked, *late], fault)
                else:
                    for (_, told), agent in zip(asked, found, strict=True):
                        if not told.done():
                            told.set_result(agent)
        finally:
            self._task = None


def _tell(asked: Sequence[_Asked], fault: Exception) -> None:
    for _, told in asked:
        if not told.done():
            told.set_exception(fault)
