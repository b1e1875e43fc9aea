"""What a claim over HTTP could stand behind: the same store behind three frameworks, and a commit for each claim.

They check nothing, or only the shape of a body; `tests.benchmarks.http` runs them beside `kranzq serve`.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kranzq import work
from kranzq.model.claim import Holder
from kranzq.model.work_json import claim_json
from tests.benchmarks.floors.sql import SqliteFloor

THREADS = 64
FLOOR_ROWS = 200_000


def starlette(store: work.SharedStore) -> Any:
    """The least that can be done: no checks, no access."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    pool = ThreadPoolExecutor(THREADS)

    async def claim(request: Request) -> Response:
        said = json.loads(await request.body())
        act = functools.partial(claimed, store, said["kind"], said["lease_ms"])
        found = await asyncio.get_running_loop().run_in_executor(pool, act)
        return Response(json.dumps(found), media_type="application/json")

    return Starlette(routes=[Route("/v1/work/claim", claim, methods=["POST"])])


def fastapi(store: work.SharedStore) -> Any:
    """A model for the body, and the answer as it is."""
    import anyio.to_thread
    from pydantic import BaseModel

    class Body(BaseModel):
        kind: str = ""
        lease_ms: int | None = None

    app = importlib.import_module("fastapi").FastAPI()

    async def claim(said: Any) -> dict[str, Any]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        return await anyio.to_thread.run_sync(claimed, store, said.kind, said.lease_ms)

    claim.__annotations__["said"] = Body
    app.post("/v1/work/claim")(claim)
    return app


def litestar(store: work.SharedStore) -> Any:
    """A struct for the body, and the answer as it is."""
    import msgspec

    of = importlib.import_module("litestar")

    class Body(msgspec.Struct):
        kind: str = ""
        lease_ms: int | None = None

    pool = ThreadPoolExecutor(THREADS)

    async def claim(data: Body) -> dict[str, Any]:
        act = functools.partial(claimed, store, data.kind, data.lease_ms)
        return await asyncio.get_running_loop().run_in_executor(pool, act)

    claim.__annotations__ = {"data": Body, "return": dict[str, Any]}
    return of.Litestar(route_handlers=[of.post("/v1/work/claim", status_code=200)(claim)])


def commit_each(url: str) -> Any:
    """A claim as a statement with a commit of its own, by the driver, on the loop; the table is beside the store."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    floor = SqliteFloor(Path(f"{url.removeprefix('sqlite://')}.floor"))
    floor.fill(FLOOR_ROWS)

    async def claim(request: Request) -> Response:
        json.loads(await request.body())
        return Response(json.dumps({"claimed": True, "id": floor.claim()}), media_type="application/json")

    return Starlette(routes=[Route("/v1/work/claim", claim, methods=["POST"])])


COMMIT_EACH = "starlette, a commit for each"
FRAMEWORKS: dict[str, Callable[[work.SharedStore], Any]] = {
    "starlette": starlette,
    "fastapi": fastapi,
    "litestar": litestar,
}


def claimed(store: work.SharedStore, kind: str, lease_ms: int | None) -> dict[str, Any]:
    """What every framework is asked for: one claim, as the server answers it."""
    found = store.claim(Holder("bench"), work.Wanted(kind=kind), lease_ms=lease_ms)
    return {"claimed": False} if found is None else {"claimed": True, **claim_json(found)}
