"""The OpenAPI document, made from the same routes that answer."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kranzq import __version__
from kranzq.model.agents import Scope
from kranzq.server.routing import Call, Route

Schema = dict[str, Any]
_REF = "#/components/schemas/{name}"
_ABOUT = """\
The work queue, presence and missions. Times are wall milliseconds since 1970. Every fault is one JSON object with \
`error`, a sentence; `hint`, the next step; and `code`, one word. New fields may come; clients ignore what they do not \
know."""
MEANINGS: dict[int, str] = {
    200: "It is done, or this is what was asked for.",
    206: "A part of it: the headers say which.",
    400: "What was said is wrong, or is no JSON.",
    401: "No credential that opens anything, or no token that tells which agent calls.",
    403: "The token does not open this, or the host or origin is not allowed.",
    404: "There is no such thing.",
    405: "The path does not take that method; `Allow` has those that it takes.",
    408: "The body did not arrive in time.",
    409: "Somebody else has it, it has ended, or it was used for something else; `code` says which.",
    413: "The body is too long.",
    414: "The query is too long.",
    415: "The body does not say that it is JSON.",
    416: "There is nothing at that place.",
    422: "The shape is wrong: a field is missing, unknown or of another type.",
    500: "A fault of the server; its log has the rest under the id. On the original paths also: the store failed.",
    503: "The store is locked or away; nothing was changed. Try again.",
}
_GOOD = frozenset({200, 206})
_NO_BODY = frozenset({400, 401, 403, 414, 500, 503})
_WITH_BODY = frozenset({408, 413, 415, 422})


class Fault(msgspec.Struct):
    """What went wrong. Some faults have further fields."""

    error: str
    hint: str
    code: str
    ok: bool | msgspec.UnsetType = msgspec.UNSET
    verb: Annotated[str | msgspec.UnsetType, Meta(description="The next step for whoever has the command line.")] = (
        msgspec.UNSET
    )


class Document(msgspec.Struct):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]


@functools.cache
def document(routes: tuple[Route, ...]) -> Schema:
    """The document of these routes."""
    types = [one for route in routes for one in (route.answer, route.body, route.query) if is_schema(one)]
    distinct = list(dict.fromkeys([*types, Fault]))
    schemas, components = msgspec.json.schema_components(distinct, ref_template=_REF)
    named = dict(zip(distinct, schemas, strict=True))
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, named, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "kranzq", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                str(status): {"description": text, "content": {"application/json": {"schema": named[Fault]}}}
                for status, text in MEANINGS.items()
                if status not in _GOOD
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-AuthKey"},
            },
        },
    }


def statuses_of(route: Route) -> tuple[int, ...]:
    """Every status that a route answers."""
    found = {200, *route.statuses}
    if route.scope is not None or route.method != "GET":
        found |= _NO_BODY
    if route.parameters:
        found |= {405}  # a client that leaves a parameter empty meets another path
    if route.body is not None:
        found |= _WITH_BODY
    if route.query is not None:
        found |= {422}
    return tuple(sorted(found))


def is_schema(one: object) -> bool:
    """Whether it is a type of which a schema is made: bytes and None are not."""
    return one is not None and one is not bytes


def _operation(route: Route, named: dict[Any, Schema], components: Schema) -> Schema:
    made: Schema = {
        "summary": route.summary,
        "operationId": f"{route.method.lower()}{route.path.replace('/', '_').replace('{', '').replace('}', '')}",
        "tags": [tag_of(route)],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
            for name in route.parameters
        ]
        + (_query(named[route.query], components) if route.query is not None else []),
        "responses": {
            str(status): {"$ref": f"#/components/responses/{status}"}
            if status not in _GOOD
            else {"description": MEANINGS[status], "content": _content(route, named)}
            for status in statuses_of(route)
        },
        "security": [] if route.scope is None else [{"bearer": []}, {"key": []}],
    }
    if route.scope is not None:
        made["x-scope"] = route.scope.value
    if route.needs_agent:
        made["x-agent"] = True
    if route.body is not None:
        content = {"application/json": {"schema": named[route.body]}}
        made["requestBody"] = {"required": not route.body_optional, "content": content}
    return made


def _content(route: Route, named: dict[Any, Schema]) -> Schema:
    return {route.media: {"schema": named[route.answer]} if is_schema(route.answer) else {}}


def _query(schema: Schema, components: Schema) -> list[Schema]:
    body = components[schema["$ref"].rpartition("/")[2]]
    return [
        {"name": name, "in": "query", "required": name in body.get("required", []), "schema": _said(one)}
        for name, one in body["properties"].items()
    ]


def _said(schema: Schema) -> Schema:
    """The schema of a query's value, which is never null: what is not said is left out."""
    if "anyOf" not in schema:
        return schema
    kinds = [one for one in schema["anyOf"] if one.get("type") != "null"]
    rest = {name: value for name, value in schema.items() if name not in {"anyOf", "default"}}
    return rest | (kinds[0] if len(kinds) == 1 else {"anyOf": kinds})


def tag_of(route: Route) -> str:
    """The heading under which a route stands."""
    if route.path.startswith(("/agentmux/", "/api/")):
        return "original paths"
    parts = route.path.strip("/").split("/")
    return parts[1] if parts[0] == "v1" else "the server itself"


def openapi(call: Call) -> object:
    """The document of this server."""
    return document(tuple(route for route in call.service.routes if route.is_api))


ROUTES: tuple[Route, ...] = (Route("GET", "/openapi.json", openapi, "This document.", Scope.READ, Document),)
