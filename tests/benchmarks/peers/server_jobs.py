"""The jobs that peers on PostgreSQL are given. A module of its own, for some look a job up by its name."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from tests.benchmarks.peers.acts import PATIENCE_S, PAUSE_S

_BEGAN: list[asyncio.Future[float]] = []
"""The one who waits for a job to begin."""


async def nothing() -> None:
    """Do nothing."""


async def tells() -> None:
    """Tell whoever waits for it that it began, and when."""
    _BEGAN.pop().set_result(time.perf_counter())


chancy_nothing: Any = None
chancy_tells: Any = None
if importlib.util.find_spec("chancy") is not None:
    chancy_nothing = importlib.import_module("chancy").job()(nothing)
    chancy_tells = importlib.import_module("chancy").job()(tells)


class Pickup:
    """A worker that listens, on the loop of whoever enqueues; it rests while the loop does not run."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        enqueue: Callable[[], Awaitable[object]],
        work: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._loop, self._enqueue, self._work = loop, enqueue, work
        self._worker: asyncio.Task[None] | None = None

    def once(self) -> float:
        """Milliseconds from the call that enqueues `tells` until it begins. Raises what ended the worker."""
        return self._loop.run_until_complete(self._once())

    async def _once(self) -> float:
        self._worker = self._worker or self._loop.create_task(self._work())
        await asyncio.sleep(PAUSE_S)
        job: asyncio.Future[float] = self._loop.create_future()
        _BEGAN[:] = [job]
        began = time.perf_counter()
        await self._enqueue()
        either: set[asyncio.Future[Any]] = {job, self._worker}
        done, _ = await asyncio.wait(either, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if job in done:
            return (job.result() - began) * 1000
        if not done:
            raise TimeoutError(f"the job did not begin within {PATIENCE_S:g} s")
        self._worker.result()
        raise RuntimeError("the worker has ended")

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                self._loop.run_until_complete(asyncio.wait_for(self._worker, PATIENCE_S))
