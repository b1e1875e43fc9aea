"""How a route is declared, and found. One `Route` value is everything: dispatch, access, checks and OpenAPI read it.

A handler takes a `Call` and returns what is sent as JSON, a `Reply` with a status or headers of its own, or a response
of Starlette. A plain function runs in a thread of the pool and may call the store; a coroutine function runs on the
loop and must not block it; it calls the store by `Call.proven`. Faults are raised: those of `kranzq.errors`, or
`HttpFault`.

A new route: a function and a `Route` in the `ROUTES` of a `…_routes` module, which stands in `table`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import msgspec
from starlette.datastructures import Headers
from starlette.types import Receive

from kranzq.model.agents import Scope
from kranzq.model.frozen import frozen
from kranzq.server.errors import Form

if TYPE_CHECKING:
    from kranzq.server.access import Caller
    from kranzq.server.service import Service


T = TypeVar("T")
Sent = Mapping[str, Sequence[str]]
"""The headers of a request by their small names, each with all that it was given."""


@dataclass(slots=True)
class Call:
    """One request that may be answered: who calls, and what was said, checked. `body` and `query` are the route's."""

    service: Service
    route: Route
    caller: Caller
    path: Mapping[str, str]
    headers: Headers
    query: Any
    body: Any
    receive: Receive
    connection: Any = None
    """uvicorn's state of the request, of which only `disconnected` is read; None in a test without a connection."""

    @property
    def has_hung_up(self) -> bool:
        """Whether the client has gone, as far as is known."""
        return bool(getattr(self.connection, "disconnected", False))

    async def proven(self, act: Callable[[], T]) -> T:
        """What `act` gives, in a thread; one that was long in coming asks there whether the token still opens."""

        def run() -> T:
            self.caller.check()
            return act()

        return await self.service.pool.run(run)

    async def hung_up(self) -> None:
        """Wait until the client has gone. For coroutine handlers; to be cancelled when the answer is ready."""
        while (await self.receive())["type"] != "http.disconnect":
            pass


@frozen
class Reply:
    """An answer with more than a value."""

    value: object
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Call], object] | Callable[[Call], Awaitable[object]]


@frozen
class Route:
    """One operation. `path` has its parameters in braces, each a whole segment."""

    method: str
    path: str
    handler: Handler
    summary: str
    """A sentence for the reference page."""
    scope: Scope | None
    """What a token must open; None: everybody may, without one."""
    answer: Any
    """The type of a good answer, of which the schema is made: a `Struct`, a dict, or bytes for another medium."""
    body: type[msgspec.Struct] | None = None
    body_optional: bool = False
    query: type[msgspec.Struct] | None = None
    statuses: tuple[int, ...] = ()
    """Those that it answers beside 200 and what access, sizes and an unavailable store bring about."""
    form: Form = Form.V1
    needs_agent: bool = False
    """Whether an agent must call, who is known by its token."""
    media: str = "application/json"
    is_api: bool = True
    """Whether it stands in the OpenAPI document; what a browser shows does not."""
    is_shared: bool = False
    """Whether one look answers all who ask the same at once: for a costly one, that tells everybody the same."""

    async def run(self, call: Call) -> object:
        """What the handler answers: on the loop if it is a coroutine function, else in a thread."""
        if inspect.iscoroutinefunction(self.handler):
            return await self.handler(call)
        if self.is_shared:
            key = self.path, *call.path.values(), msgspec.json.encode(call.query)
            value = await call.service.together.take(key, lambda: msgspec.Raw(msgspec.json.encode(self.handler(call))))
            return await call.proven(lambda: value)
        return await call.service.pool.run(self._proven, call)

    def _proven(self, call: Call) -> object:
        call.caller.check()
        return self.handler(call)

    @property
    def segments(self) -> tuple[str | None, ...]:
        """The parts of the path; None stands for a parameter."""
        return tuple(None if part.startswith("{") else part for part in self.path.split("/"))

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in order."""
        return tuple(part[1:-1] for part in self.path.split("/") if part.startswith("{"))


@frozen
class Found:
    """The routes that have a path, by method, and what its parameters say."""

    by_method: Mapping[str, Route]
    values: tuple[str, ...] = ()

    def route(self, method: str) -> Route | None:
        """The one for a method; a `HEAD` is a `GET` whose body is not sent."""
        return self.by_method.get("GET" if method == "HEAD" else method)

    @property
    def allow(self) -> str:
        """The methods of the path, as the header has them."""
        return ", ".join(sorted({*self.by_method, "OPTIONS"} | ({"HEAD"} if "GET" in self.by_method else set())))


class Table:
    """All routes. A path without parameters goes before one with them; a `%2F` in a parameter is part of its value."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._plain: dict[str, dict[str, Route]] = {}
        self._with_parameters: dict[tuple[str | None, ...], dict[str, Route]] = {}
        for route in self.routes:
            methods = (
                self._with_parameters.setdefault(route.segments, {})
                if route.parameters
                else self._plain.setdefault(route.path, {})
            )
            if route.method in methods:
                raise ValueError(f"two routes for {route.method} {route.path}")
            methods[route.method] = route

    def find(self, raw_path: str) -> Found | None:
        """Who serves a path as it was sent, still quoted."""
        if (plain := self._plain.get(raw_path)) is not None:
            return Found(plain)
        parts = raw_path.split("/")
        for segments, methods in self._with_parameters.items():
            if len(segments) == len(parts) and all(
                one is None or one == part for one, part in zip(segments, parts, strict=True)
            ):
                values = tuple(unquote(part) for one, part in zip(segments, parts, strict=True) if one is None)
                return Found(methods, values) if all(values) else None
        return None


Part = Callable[["Service"], Awaitable[None]]
"""What runs as long as the server does: a coroutine function, cancelled a while after `closing` has been set."""
