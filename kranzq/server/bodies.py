"""What a client sends: bodies by the bytes that arrive and within a time, JSON without any second meaning, queries.

Syntax, duplicate keys and numbers that are none are 400, a wrong shape is 422. What a value may be is judged by the
model, as for every other surface: 400.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Receive

from kranzq.server.errors import HttpFault
from kranzq.server.routing import Sent
from kranzq.server.service import Limits

S = TypeVar("S", bound=msgspec.Struct)
MOST_QUERY = 8192
"""Bytes of a query string."""
_CLOSE, _RETRY = {"connection": "close"}, {"retry-after": "1"}
_MOST_ECHOED = 300


_JSON = "application/json"
_MOST_DIGITS = 18
"""Of a length that is announced, what is looked at: more digits are more than is taken anyway."""


class Given(msgspec.Struct, forbid_unknown_fields=True):
    """What a body or a query holds on `/v1`: a field that nobody knows is a mistake that is said."""


class Tolerated(msgspec.Struct):
    """What a body or a query holds on the original paths: unknown fields are ignored there."""


class Room:
    """What all bodies together may take while they are read and answered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    def take(self, size: int) -> None:
        """So many bytes more. Raises HttpFault when there is no room for them now."""
        if self.taken + size > self._most:
            hint = "Try again later, or send less at once."
            raise HttpFault(503, "later", "The server reads as much as it can already.", hint, _RETRY)
        self.taken += size

    def give_back(self, size: int) -> None:
        """They are no longer needed."""
        self.taken -= size


class Taken:
    """What one request has of the room."""

    def __init__(self, room: Room) -> None:
        self._room, self._size = room, 0

    def take(self, size: int) -> None:
        """As `Room.take`."""
        self._room.take(size)
        self._size += size

    def give_back(self) -> None:
        """All of it."""
        self._room.give_back(self._size)
        self._size = 0


async def read_body(receive: Receive, sent: Sent, limits: Limits, taken: Taken, *, is_there: bool) -> bytes:
    """All of the body. Raises HttpFault: 413 when it is too long, 408 when it comes too slowly or not at all.

    `is_there`: all of it has come already, so there is nothing to wait for.
    """
    (declared,) = sent.get("content-length", ("",))[:1]
    if declared.isascii() and declared.isdigit() and int(declared[:_MOST_DIGITS]) > limits.body:
        raise _too_long(limits)
    if is_there:
        message = await receive()
        body: bytes = message.get("body", b"")
        if len(body) > limits.body:
            raise _too_long(limits)
        if not message.get("more_body", False):
            return body
        raise HttpFault(400, "gone", "The client hung up before its body was there.")
    loop = asyncio.get_running_loop()
    begun, parts, size, more = loop.time(), list[bytes](), 0, True
    while more:
        try:
            async with asyncio.timeout_at(begun + limits.body_s + size / limits.body_rate):
                message = await receive()
        except TimeoutError:
            raise HttpFault(408, "slow", "The body did not arrive in time.", "Send it at once.", _CLOSE) from None
        if message["type"] == "http.disconnect":
            raise HttpFault(400, "gone", "The client hung up before its body was there.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > limits.body:
            raise _too_long(limits)
        taken.take(len(parts[-1]))
        more = message.get("more_body", False)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def check_type(sent: Sent) -> None:
    """Refuse a body that does not say that it is JSON: what a web page may send without asking never says so."""
    said = sent.get("content-type", ())
    if len(said) == 1 and said[0] == _JSON:
        return
    name, *rest = (part.strip().lower() for part in (said[0] if len(said) == 1 else "").split(";"))
    if name != "application/json" or any(one not in {"", "charset=utf-8", 'charset="utf-8"'} for one in rest):
        raise HttpFault(
            415, "type", "The body must be JSON and say so.", "Send the header Content-Type: application/json"
        )


def decode(raw: bytes, kind: type[S]) -> S:
    """The body as its type. Raises HttpFault."""
    try:
        found = msgspec.json.decode(raw, type=kind)
        _ONE_MEANING.decode(raw.decode())  # the fast decoder lets the last one of two win
    except msgspec.ValidationError as fault:
        raise _shape(fault, "The body") from None
    except HttpFault:
        raise
    except (ValueError, RecursionError, msgspec.MsgspecError) as fault:
        why = "it is nested too deeply" if isinstance(fault, RecursionError) else str(fault)[:_MOST_ECHOED]
        raise HttpFault(400, "json", f"The body is no JSON: {why}.") from None
    return found


def parse_query(raw: bytes) -> list[tuple[str, str]]:
    """The parts of a query string. Raises HttpFault for one that is too long or no UTF-8."""
    if not raw:
        return []
    if len(raw) > MOST_QUERY:
        raise HttpFault(414, "query", f"The query has {len(raw)} bytes; at most {MOST_QUERY} are taken.")
    try:
        return parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=64)
    except ValueError:
        raise HttpFault(400, "query", "The query is no list of names and values in UTF-8.") from None


def decode_query(parts: list[tuple[str, str]], kind: type[S]) -> S:
    """The query as its type, whose fields are texts and numbers. Raises HttpFault."""
    named = dict(parts)
    if len(named) != len(parts):
        raise HttpFault(400, "query", "The query names something twice.", "Say each thing once.")
    try:
        found = msgspec.convert(named, kind, strict=False)
    except msgspec.ValidationError as fault:
        raise _shape(fault, "The query") from None
    if (null := [name for name in named if getattr(found, name, "") is None]) != []:  # the word "null" became it
        raise HttpFault(422, "shape", f"The query has a wrong shape: {null[0]} is no value.", "Leave it out.")
    return found


def _shape(fault: Exception, what: str) -> HttpFault:
    if "out of range" in str(fault):  # of a number that is longer than any that is meant
        return HttpFault(400, "usage", f"{what} holds a number that is out of range.", "See /openapi.json")
    return HttpFault(422, "shape", f"{what} has a wrong shape: {str(fault)[:_MOST_ECHOED]}.", "See /openapi.json")


def _too_long(limits: Limits) -> HttpFault:
    """Without a word on the connection: it takes in the rest for a moment, or many clients would never read this."""
    return HttpFault(413, "long", f"The body is too long: at most {limits.body} bytes are taken.")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise HttpFault(400, "json", "The body is no JSON that has one meaning: it names something twice.")


_ONE_MEANING = json.JSONDecoder(object_pairs_hook=_without_duplicates)
