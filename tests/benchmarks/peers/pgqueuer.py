"""pgqueuer: PostgreSQL through asyncpg; it takes many jobs at a time, and writes many ends at a time."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.metadata
import logging
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.benchmarks.peers.acts import ServerActs, not_installed
from tests.benchmarks.peers.server_jobs import Pickup, tells

NAME = "pgqueuer"
PROMISES = "durable; ends are buffered, and lost with the worker: such jobs run again"
BATCHES = (1, 10, 100)


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return not_installed("pgqueuer") or not_installed("asyncpg")


def version() -> str:
    """Its version."""
    return importlib.metadata.version("pgqueuer")


@contextlib.contextmanager
def on_postgres(url: str) -> Iterator[ServerActs]:
    """Its own tables in a database of one's own."""
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    module: Any = importlib.import_module("pgqueuer")
    kinds: Any = importlib.import_module("pgqueuer.types")
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(_connected(url))
    driver = module.AsyncpgDriver(connection)
    queries: Any = importlib.import_module("pgqueuer.queries").Queries(driver)
    loop.run_until_complete(queries.install())

    async def one_by_one(many: int) -> None:
        for _ in range(many):
            await queries.enqueue("nothing", b"a payload", 0)

    def enqueue(many: int) -> float:
        began = time.perf_counter()
        loop.run_until_complete(one_by_one(many))
        taken = (time.perf_counter() - began) / many * 1000
        loop.run_until_complete(queries.clear_queue())
        return taken

    def work(many: int, batch: int) -> float:
        loop.run_until_complete(queries.enqueue(["nothing"] * many, [b"a payload"] * many, [0] * many))
        worker = module.PgQueuer(driver)

        @worker.entrypoint("nothing")  # type: ignore[untyped-decorator, unused-ignore]
        async def nothing(job: object) -> None:
            del job

        began = time.perf_counter()
        loop.run_until_complete(worker.run(batch_size=batch, mode=kinds.QueueExecutionMode.drain))
        return (time.perf_counter() - began) / many * 1000

    async def listen() -> None:
        own = await _connected(url)  # a connection takes one call at a time, and the sender's is another
        worker = module.PgQueuer(module.AsyncpgDriver(own))

        @worker.entrypoint("tells")  # type: ignore[untyped-decorator, unused-ignore]
        async def told(job: object) -> None:
            del job
            await tells()

        try:
            await worker.run()
        finally:
            await own.close()

    pickup = Pickup(loop, lambda: queries.enqueue("tells", b"a payload", 0), listen)
    try:
        works = {f"batches of {one}": lambda many, one=one: work(many, one) for one in BATCHES}
        yield ServerActs(enqueue, works, PROMISES, pickup.once)
    finally:
        pickup.close()
        loop.run_until_complete(connection.close())
        loop.close()


async def _connected(url: str) -> Any:
    parts = urlsplit(url)
    said = parse_qs(parts.query)
    asyncpg: Any = importlib.import_module("asyncpg")
    return await asyncpg.connect(user=parts.username, database=parts.path[1:], host=said["host"][0])
