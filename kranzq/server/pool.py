"""Threads for calls that block, awaited from the loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


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
