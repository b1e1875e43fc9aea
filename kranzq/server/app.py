"""The application: from a request to an answer, in one order for every route.

Host and origin, credential, path and method, query, scope, body, handler. Whatever goes wrong becomes the one JSON form
of a fault; what nobody expected is told to the log under an id, and to the client by that id alone.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from kranzq import __version__
from kranzq.errors import KranzqError
from kranzq.model.agents import Agent
from kranzq.model.tokens import is_token
from kranzq.server import access, bodies
from kranzq.server.access import Caller, Door
from kranzq.server.bodies import Room, Taken
from kranzq.server.errors import Form, HttpFault, answer_to, body_of
from kranzq.server.proving import Proving
from kranzq.server.routing import Call, Found, Reply, Route, Sent, Table
from kranzq.server.service import Service
from kranzq.server.sessions import check_same_origin, secret_of, sessions
from kranzq.server.telling import tell_fault

ON_SOCKET = "kranzq.on_socket"
"""In a scope: the request came over the Unix socket."""
CONNECTION = "kranzq.connection"
"""In a scope: what uvicorn knows of the request's connection."""
ALWAYS = (
    (b"x-agentmux-srv-version", __version__.encode()),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
_DECODED_ON_LOOP = 64 * 1024
"""A longer body is decoded in a thread."""


class App:
    """One application of ASGI."""

    def __init__(self, service: Service, door: Door, table: Table) -> None:
        self.service, self.door, self.table = service, door, table
        service.routes = table.routes
        self.room = Room(service.limits.bodies)
        self.proving = Proving(door.whose, service.make_pool(1, "tokens"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        begun = time.perf_counter()
        found = self.table.find(scope.get("raw_path", scope["path"].encode()).decode("ascii", "replace"))
        route = found.route(scope["method"]) if found is not None else None
        taken = Taken(self.room)
        try:
            answer = await self._answer(scope, receive, found, route, taken)
        except (HttpFault, KranzqError) as fault:
            status, body, more = answer_to(fault, route.form if route is not None else Form.V1)
            answer = _json(Reply(body, status, more))
        except Exception as fault:  # noqa: BLE001 - the last resort: an id for the client, the rest for the log
            told = tell_fault(f"{scope['method']} {route.path if route is not None else '(no route)'}", fault)
            sentence = f"A fault of kranzq itself; it stands in the server's log as {told}."
            form = route.form if route is not None else Form.V1
            answer = _json(Reply(body_of(sentence, "Look there, and pass it on.", "fault", form), 500))
        finally:
            taken.give_back()
        status = answer.status_code
        try:
            await answer(scope, receive, _with_headers(send, self._cors(scope)))
        finally:
            for observe in self.service.observers:
                observe(route, status, time.perf_counter() - begun)

    async def _answer(
        self, scope: Scope, receive: Receive, found: Found | None, route: Route | None, taken: Taken
    ) -> Response:
        sent, on_socket = _by_name(scope["headers"]), bool(scope.get(ON_SOCKET))
        if not on_socket:
            self.door.check_host(sent, scope.get("server"))
        if scope["method"] == "OPTIONS" and found is not None and "origin" in sent:
            return Response(status_code=204, headers={"allow": found.allow})
        is_open = route is not None and route.scope is None
        caller = Caller(is_operator=False) if is_open else await self._caller(scope, sent, route)
        query = bodies.parse_query(scope.get("query_string", b""))
        access.check_query(query)
        if found is None:
            raise HttpFault(404, "not_found", "There is nothing at this path.", "See /openapi.json")
        if scope["method"] == "OPTIONS":
            return Response(status_code=204, headers={"allow": found.allow})
        if route is None:
            hint = f"It takes: {found.allow}"
            raise HttpFault(405, "method", "This path does not take that method.", hint, {"allow": found.allow})
        if route.scope is not None and not caller.may(route.scope):
            needs = f"This needs the scope {route.scope.value!r}, which the token does not have."
            raise HttpFault(403, "scope", needs, "Use another token, or ask the operator for one with that scope.")
        if route.needs_agent:
            caller.holder  # noqa: B018 - raises when no agent calls
        call = Call(
            self.service,
            route,
            caller,
            dict(zip(route.parameters, found.values, strict=True)) if found.values else {},
            Headers(scope=scope),
            bodies.decode_query(query, route.query) if route.query is not None else None,
            await self._body(route, sent, scope, receive, taken) if route.body is not None else None,
            receive,
            scope.get(CONNECTION),
        )
        value = await route.run(call)
        return value if isinstance(value, Response) else _json(value)

    async def _caller(self, scope: Scope, sent: Sent, route: Route | None) -> Caller:
        token = self.door.credential(sent)
        if token is not None:
            return await self._by_token(token, sent, route)
        if scope.get(ON_SOCKET):
            return Caller(True, await self._attributed(sent, route))
        return await self._by_session(scope, sent, route)

    async def _by_token(self, token: str, sent: Sent, route: Route | None) -> Caller:
        if self.door.is_operator(token):
            return Caller(True, await self._attributed(sent, route), functools.partial(self.door.prove_key, token))
        agent = await self._agent(token)
        if agent is None:
            raise access.unauthorized()
        return Caller(False, agent, functools.partial(self.door.prove, token))

    async def _by_session(self, scope: Scope, sent: Sent, route: Route | None) -> Caller:
        """The caller behind a cookie of the dashboard, whose token is proven as if it had come itself."""
        secret, known = secret_of(sent), self.service.shared(sessions)
        session = known.find(secret) if secret is not None else None
        if secret is None or session is None:
            raise access.unauthorized()
        check_same_origin(scope["method"], sent)
        caller = await self._by_token(session.token, sent, route)
        assert caller.prove is not None
        return dataclasses.replace(caller, prove=known.proving(secret, caller.prove, access.unauthorized))

    async def _attributed(self, sent: Sent, route: Route | None) -> Agent | None:
        """The agent for whom the operator's program calls. An unknown token attributes to nobody, and opens nothing.

        Where the store cannot be asked, the original paths take it for unknown; on `/v1` nothing is done in the name
        of nobody. Raises KranzqError there.
        """
        tokens = sent.get("x-agent-token", ())
        if not tokens:
            return None
        try:
            agent = await self._agent(tokens[0]) if len(tokens) == 1 else None
        except KranzqError:
            self.service.count(access.TOKEN_INDEX_AWAY)
            if route is not None and route.form is Form.V1:
                raise
            return None
        if agent is None:
            self.service.count(access.TOKEN_UNKNOWN)
        return agent

    async def _agent(self, token: str) -> Agent | None:
        agent = await self.proving.whose(token) if is_token(token) else None
        if agent is not None:
            self.service.callers.note_uid(agent.uid)
        return agent

    async def _body(self, route: Route, sent: Sent, scope: Scope, receive: Receive, taken: Taken) -> Any:
        assert route.body is not None
        is_there = not getattr(scope.get(CONNECTION), "more_body", True)
        raw = await bodies.read_body(receive, sent, self.service.limits, taken, is_there=is_there)
        if not raw and route.body_optional:
            return None
        bodies.check_type(sent)
        if not raw:
            raise HttpFault(400, "json", "This needs a body.", "See /openapi.json")
        if len(raw) > _DECODED_ON_LOOP:
            return await self.service.pool.run(bodies.decode, raw, route.body)
        return bodies.decode(raw, route.body)

    def _cors(self, scope: Scope) -> tuple[tuple[bytes, bytes], ...]:
        """What lets an allowed page of another origin read the answer."""
        origins = [value for name, value in scope["headers"] if name == b"origin"]
        if len(origins) != 1 or origins[0].decode("latin-1") not in self.door.origins:
            return ()
        return (
            (b"access-control-allow-origin", origins[0]),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type, last-event-id, x-agent-token, x-authkey"),
            (b"vary", b"origin"),
        )


def _by_name(headers: list[tuple[bytes, bytes]]) -> Sent:
    sent: dict[str, list[str]] = {}
    for name, text in headers:
        sent.setdefault(name.decode("latin-1"), []).append(text.decode("latin-1"))
    return sent


class _Json(Response):
    """A value as JSON; less work than Starlette's own, since nothing about its headers is left open."""

    def __init__(self, reply: Reply) -> None:
        self.body = msgspec.json.encode(reply.value)
        self.status_code = reply.status
        self.background = None
        self.raw_headers = [
            (b"content-length", b"%d" % len(self.body)),
            (b"content-type", b"application/json"),
            *((name.encode("latin-1"), text.encode("latin-1")) for name, text in reply.headers.items()),
        ]


def _json(value: object) -> Response:
    return _Json(value if isinstance(value, Reply) else Reply(value))


def _with_headers(send: Send, more: tuple[tuple[bytes, bytes], ...]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *ALWAYS, *more]
        await send(message)

    return sending
