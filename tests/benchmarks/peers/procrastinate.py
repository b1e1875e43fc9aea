"""procrastinate: PostgreSQL through psycopg, one worker that runs jobs as tasks of its loop."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import logging
import time
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.peers.acts import ServerActs, not_installed
from tests.benchmarks.peers.server_jobs import Pickup, nothing, tells

NAME = "procrastinate"
PROMISES = "durable; a job is kept until it is recorded as done"
AT_ONCE = (1, 10)


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return not_installed("procrastinate")


def version() -> str:
    """Its version."""
    return importlib.metadata.version("procrastinate")


@contextlib.contextmanager
def on_postgres(url: str) -> Iterator[ServerActs]:
    """Its own tables in a database of one's own."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    module: Any = importlib.import_module("procrastinate")
    loop = asyncio.new_event_loop()
    app = module.App(connector=module.PsycopgConnector(conninfo=url))
    task = app.task(name="nothing")(nothing)
    telling = app.task(name="tells")(tells)

    async def defer(many: int) -> None:
        for _ in range(many):
            await task.defer_async()

    def enqueue(many: int) -> float:
        began = time.perf_counter()
        loop.run_until_complete(defer(many))
        taken = (time.perf_counter() - began) / many * 1000
        loop.run_until_complete(app.run_worker_async(wait=False, concurrency=10, install_signal_handlers=False))
        return taken

    def work(many: int, concurrency: int) -> float:
        loop.run_until_complete(defer(many))
        began = time.perf_counter()
        words = {"wait": False, "concurrency": concurrency, "install_signal_handlers": False}
        loop.run_until_complete(app.run_worker_async(**words))
        return (time.perf_counter() - began) / many * 1000

    async def listen() -> None:
        await app.run_worker_async(wait=True, concurrency=1, install_signal_handlers=False)

    pickup = Pickup(loop, telling.defer_async, listen)
    loop.run_until_complete(app.open_async())
    try:
        loop.run_until_complete(app.schema_manager.apply_schema_async())
        works = {f"concurrency {one}": lambda many, one=one: work(many, one) for one in AT_ONCE}
        yield ServerActs(enqueue, works, PROMISES, pickup.once)
    finally:
        pickup.close()
        loop.run_until_complete(app.close_async())
        loop.close()
