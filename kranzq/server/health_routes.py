"""`/healthz`, `/readyz` and `/metrics`: for whatever watches over the server."""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.responses import Response

from kranzq.model.agents import Scope
from kranzq.server.errors import body_of
from kranzq.server.health import READY_S
from kranzq.server.identity import counters_of
from kranzq.server.live import health, metrics
from kranzq.server.routing import Call, Reply, Route


class Alive(msgspec.Struct):
    """It answers."""

    ok: Literal[True]


class Ready(msgspec.Struct):
    """How many seconds ago the store and the queue were seen; without a checkout there is no queue."""

    ok: Literal[True]
    store: float
    queue: float | None


async def alive(_: Call) -> object:
    """That the loop runs."""
    return {"ok": True}


async def ready(call: Call) -> object:
    """That store and queue were seen a moment ago."""
    ages = await call.service.shared(health).ages()
    told = {name: round(age, 3) if age is not None else None for name, age in ages.items()}
    shown = {"store": told["store"], "queue": told.get("queue")}
    for name, age in ages.items():
        if age is None or age > READY_S:
            when = "has not been seen yet" if age is None else f"was last seen {age:.0f} s ago"
            return Reply(body_of(f"The {name} {when}.", "The server's log says why.", "not_ready") | shown, 503)
    if call.service.closing.is_set():
        return Reply(body_of("The server ends.", "Ask another one.", "not_ready") | shown, 503)
    return {"ok": True} | shown


async def scrape(call: Call) -> object:
    """What is counted and measured."""
    found, accept = call.service.shared(metrics), call.headers.get("accept", "")
    text, kind = await call.service.pool.run(found.text, accept, counters_of(call))
    return Response(text, 200, {"content-type": kind})


ROUTES: tuple[Route, ...] = (
    Route("GET", "/healthz", alive, "Whether the server answers.", None, Alive),
    Route(
        "GET",
        "/readyz",
        ready,
        f"Whether store and queue were seen within the last {READY_S:.0f} seconds.",
        None,
        Ready,
        statuses=(503,),
    ),
    Route(
        "GET",
        "/metrics",
        scrape,
        "What is counted and measured, as Prometheus reads it.",
        Scope.READ,
        bytes,
        media="text/plain",
    ),
)
