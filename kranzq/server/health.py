"""Whether the server still sees its store and its queue: not that a process exists, but when it last looked.

A look is taken when somebody asks and the last one is not new; one at a time, in a thread of its own, so that neither
many who ask nor a store that hangs cost more than that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kranzq.errors import KranzqError
from kranzq.server.telling import tell

if TYPE_CHECKING:
    from kranzq.server.service import Service
    from kranzq.wiring.missions import Missions

READY_S = 10.0
"""What was not looked at for so long may be away."""
_NEW_S = 1.0
_PATIENCE_S = 2.0


class Health:
    """When each of the things was last seen. For the loop's thread."""

    def __init__(self, service: Service, missions: Missions | None) -> None:
        self._looks: dict[str, Callable[[], object]] = {"store": lambda: service.store.entries(limit=0)}
        if missions is not None:
            self._looks["queue"] = missions.is_there
        self._seen: dict[str, float] = {}
        self._said: dict[str, str] = {}
        self._pool = service.make_pool(1, "health")
        self._task: asyncio.Task[None] | None = None

    async def ages(self) -> dict[str, float | None]:
        """How many seconds ago each was seen, after a look that may take a moment; None: never."""
        if any(age is None or age > _NEW_S for age in self._ages().values()):
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._look())
            await asyncio.wait({self._task}, timeout=_PATIENCE_S)
        return self._ages()

    def _ages(self) -> dict[str, float | None]:
        now = time.monotonic()
        return {name: now - self._seen[name] if name in self._seen else None for name in self._looks}

    async def _look(self) -> None:
        for name, look in self._looks.items():
            begun = time.monotonic()
            try:
                await self._pool.run(look)
            except (KranzqError, OSError) as fault:
                if self._said.get(name) != str(fault):
                    self._said[name] = str(fault)
                    tell(f"{name}: {fault}")
            else:
                self._seen[name] = begun
                self._said.pop(name, None)
