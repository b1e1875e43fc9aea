"""chancy: PostgreSQL through psycopg, jobs as tasks of the worker's loop, looked for eagerly."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import logging
import time
from collections.abc import Iterator
from typing import Any

import psycopg

from tests.benchmarks.peers.acts import ServerActs, not_installed
from tests.benchmarks.peers.server_jobs import Pickup, chancy_nothing, chancy_tells

NAME = "chancy"
PROMISES = "durable; ends are buffered by its worker"
AT_ONCE = (10, 100)
PATIENCE_S = 60.0
LEFT = b"select count(*) from chancy_jobs where state <> 'succeeded'"


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return not_installed("chancy")


def version() -> str:
    """Its version."""
    return importlib.metadata.version("chancy")


@contextlib.contextmanager
def on_postgres(url: str) -> Iterator[ServerActs]:
    """Its own tables in a database of one's own."""
    quiet = logging.getLogger("chancy")
    quiet.setLevel(logging.ERROR)
    module: Any = importlib.import_module("chancy")
    loop = asyncio.new_event_loop()
    client = module.Chancy(url, log=quiet)
    loop.run_until_complete(client.__aenter__())
    watcher = psycopg.connect(url, autocommit=True)

    async def one_by_one(many: int) -> None:
        for _ in range(many):
            await client.push(chancy_nothing)

    def enqueue(many: int) -> float:
        began = time.perf_counter()
        loop.run_until_complete(one_by_one(many))
        taken = (time.perf_counter() - began) / many * 1000
        watcher.execute(b"truncate chancy_jobs")
        return taken

    async def worked(many: int, concurrency: int) -> float:
        queue = module.Queue(
            "default", concurrency=concurrency, eager_polling=True, executor=module.Chancy.Executor.Async
        )
        await client.declare(queue, upsert=True)
        async for _ in client.push_many([chancy_nothing.job] * many):
            pass
        async with module.Worker(client, register_signal_handlers=False):
            began = time.perf_counter()
            while watcher.execute(LEFT).fetchone() != (0,):
                if time.perf_counter() - began > PATIENCE_S:
                    raise TimeoutError(f"{many} jobs were not done within {PATIENCE_S:g} s")
                await asyncio.sleep(0.002)
            return (time.perf_counter() - began) / many * 1000

    def work(many: int, concurrency: int) -> float:
        return loop.run_until_complete(worked(many, concurrency))

    async def listen() -> None:
        await client.declare(module.Queue("default", executor=module.Chancy.Executor.Async), upsert=True)
        async with module.Worker(client, register_signal_handlers=False) as worker:
            await worker.wait_for_shutdown()

    pickup = Pickup(loop, lambda: client.push(chancy_tells), listen)
    try:
        loop.run_until_complete(client.migrate())
        works = {f"concurrency {one}": lambda many, one=one: work(many, one) for one in AT_ONCE}
        yield ServerActs(enqueue, works, PROMISES, pickup.once)
    finally:
        pickup.close()
        watcher.close()
        loop.run_until_complete(client.__aexit__(None, None, None))
        loop.close()
