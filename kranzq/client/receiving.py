"""Taking in an answer: at most so many bytes, at a pace that ends, and not packed.

Nobody knows what answers at an address before it was read: so nothing that does may fill the memory, or keep a call for
ever. A packed answer could grow without a bound when it is unpacked: none is asked for, and none is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from kranzq.client.asking import Ask
from kranzq.errors import AnswerTooLong, ServerUnreachable
from kranzq.model.frozen import frozen

FIRST_S, RATE = 60.0, 16 * 1024
"""An answer that has begun may take so long, and a second more for each `RATE` bytes of it: as slowly as a server reads
a body."""
IDENTITY = {"accept-encoding": "identity"}


@frozen
class Answer:
    """All of an answer. Names of headers are small."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class _Parts:
    """What has come so far. Raises AnswerTooLong, ServerUnreachable."""

    def __init__(
        self, where: str, ask: Ask[Any], answer: httpx2.Response, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._where, self._what, self._most, self._answer = where, f"{ask.method} {ask.path}", ask.most, answer
        self._now, self._begun = now, now()
        self._parts, self._size = list[bytes](), 0
        check_plain(where, answer)
        declared = answer.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:18]) > self._most:
            raise AnswerTooLong(self._where, self._what, self._most)

    def take(self, part: bytes) -> None:
        """Keep a part."""
        self._size += len(part)
        if self._size > self._most:
            raise AnswerTooLong(self._where, self._what, self._most)
        if self._now() > self._begun + FIRST_S + self._size / RATE:
            raise ServerUnreachable(self._where, f"its answer to {self._what} comes too slowly")
        self._parts.append(part)

    def whole(self) -> Answer:
        """All of it."""
        return Answer(self._answer.status_code, self._answer.headers, b"".join(self._parts))


def check_plain(where: str, answer: httpx2.Response) -> None:
    """Refuse an answer that is packed. Raises ServerUnreachable."""
    if answer.headers.get("content-encoding", "identity").lower() not in {"", "identity"}:
        raise ServerUnreachable(
            where, "its answer is packed, which nobody asked for", "Let the proxy between pass answers on as they are."
        )


def receive(where: str, ask: Ask[Any], answer: httpx2.Response) -> Answer:
    """The answer to a request, which is closed then."""
    try:
        parts = _Parts(where, ask, answer)
        for part in answer.iter_raw():
            parts.take(part)
        return parts.whole()
    finally:
        answer.close()


async def receive_on_loop(where: str, ask: Ask[Any], answer: httpx2.Response) -> Answer:
    """As `receive`."""
    try:
        parts = _Parts(where, ask, answer)
        async for part in answer.aiter_raw():
            parts.take(part)
        return parts.whole()
    finally:
        await answer.aclose()
