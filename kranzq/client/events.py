"""Live events of a server, for as long as somebody wants to know: a reader comes again after each cut, and goes on.

Both readers share one `Following`, which knows the place, the pauses and what is an event. A stream that ends, is cut
or says nothing is opened anew from the last id. What was missed for sure is told as `resync`, by the server or here.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2

from kranzq.client.asking import FIRST_S, Ask, Patience
from kranzq.client.event_lines import Lines, TooLong
from kranzq.client.faults import OK, check_server, fault_of, retry_after, value_of
from kranzq.client.receiving import IDENTITY, Answer, check_plain, receive, receive_on_loop
from kranzq.errors import KranzqError, ServerUnreachable
from kranzq.model.frozen import frozen

SILENT_S = 45.0
"""A stream that says nothing for so long is dead: a server says each 15 s that it lives."""
LIVED_S = 10.0
"""A stream that stood for so long was a good one, even if nothing happened."""
MOST_PAUSE_S = 60.0
"""However long a server asks to wait before coming again."""
AGAIN_S = 1.0
"""Until the next stream, where a server does not say it."""
RESYNC, BYE = "resync", "bye"
PATH = "/v1/events"
ASK: Ask[Any] = Ask("GET", PATH, dict)
_TYPE = "text/event-stream"


@frozen
class LiveEvent:
    """Something has become something else. `id`: from there one can read on; blank where the event has none."""

    kind: str
    id: str
    data: Mapping[str, Any]


@dataclass(slots=True)
class Following:
    """One reader's way through any number of streams. `patience_s`: so long none may come about, or all be useless."""

    where: str
    patience_s: float
    last: str = ""
    now: Callable[[], float] = time.monotonic
    _patience: Patience | None = None
    _lines: Lines = field(default_factory=Lines)
    _opened: float | None = None
    _is_good: bool = False
    _had_events: bool = False

    def headers(self) -> dict[str, str]:
        """Those of the next request."""
        return IDENTITY | {"accept": _TYPE} | ({"last-event-id": self.last} if self.last else {})

    def opened(self, answer: httpx2.Response) -> list[LiveEvent]:
        """A stream has begun; what is to be told of that. Raises ServerUnreachable for what is none."""
        check_server(self.where, answer.status_code, answer.headers)
        check_plain(self.where, answer)
        if answer.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
            raise ServerUnreachable(self.where, f"its answer to GET {PATH} is no stream of events")
        self._lines, self._opened = Lines(self.last), self.now()
        missed = self._had_events and not self.last
        return [LiveEvent(RESYNC, "", {"why": "the stream was cut at a place that has no id"})] if missed else []

    def feed(self, part: bytes) -> list[LiveEvent]:
        """The events that some bytes complete, without `bye`: the reader comes again. Raises ServerUnreachable."""
        try:
            frames = self._lines.feed(part)
            told = [LiveEvent(one.kind, one.id, _object(one.data)) for one in frames]
        except TooLong as fault:
            raise ServerUnreachable(self.where, f"among its live events is {fault}") from None
        except (TypeError, ValueError, RecursionError):
            raise ServerUnreachable(self.where, "its live events have another form than this kranzq knows") from None
        if frames:
            self.last, self._is_good, self._had_events = frames[-1].id, True, True
        return [one for one in told if one.kind != BYE]

    def ended(self) -> float:
        """How long to wait after a stream that came to its end. Raises when that happens again and again."""
        retry, was_good = self._lines.retry_ms, self._is_good
        said = min(retry / 1000, MOST_PAUSE_S) if retry is not None else AGAIN_S
        fault = ServerUnreachable(self.where, "it ends each stream of live events at once")
        return max(said, FIRST_S) if was_good and self.patience_s <= 0 else self._wait(fault, said)

    def broken(self, fault: httpx2.RequestError) -> float:
        """How long to wait after a connection that could not be had, or broke. Raises when patience is over."""
        return self._wait(ServerUnreachable(self.where, str(fault).rstrip(".") or type(fault).__name__), 0.0)

    def refused(self, answer: Answer) -> float:
        """How long to wait after an answer that is no stream. Raises what it tells where waiting does not help."""
        fault: KranzqError
        try:
            told = value_of(self.where, answer.status, answer.headers, answer.data)
            fault = fault_of(self.where, answer.status, told, ASK)
        except ServerUnreachable as none:
            fault = none
        if answer.status < httpx2.codes.INTERNAL_SERVER_ERROR:
            raise fault
        return self._wait(fault, retry_after(answer.status, answer.headers) or 0.0)  # or a proxy, its server away

    def _wait(self, fault: KranzqError, said_s: float) -> float:
        now = self.now()
        lived = self._opened is not None and now - self._opened > LIVED_S
        if self._patience is None or lived:
            self._patience = Patience(now + self.patience_s)
        elif self._is_good:
            self._patience.until = now + self.patience_s  # the pauses go on growing, if each is as short as this one
        self._opened, self._is_good = None, False
        if (pause := self._patience.next_pause(now, min(said_s, MOST_PAUSE_S))) is None:
            raise fault
        return pause


def read_events(client: httpx2.Client, following: Following) -> Generator[LiveEvent]:
    """Events for ever; to be closed. Sleeps between streams."""
    while True:
        try:
            request = client.build_request("GET", PATH, headers=following.headers(), timeout=SILENT_S)
            answer = client.send(request, stream=True)
            if answer.status_code not in OK:
                pause = following.refused(receive(following.where, ASK, answer))
            else:
                try:
                    yield from following.opened(answer)
                    for part in answer.iter_raw():
                        yield from following.feed(part)
                finally:
                    answer.close()
                pause = following.ended()
        except httpx2.RequestError as fault:
            pause = following.broken(fault)
        time.sleep(pause)


async def read_events_on_loop(client: httpx2.AsyncClient, following: Following) -> AsyncGenerator[LiveEvent]:
    """As `read_events`."""
    while True:
        try:
            request = client.build_request("GET", PATH, headers=following.headers(), timeout=SILENT_S)
            answer = await client.send(request, stream=True)
            if answer.status_code not in OK:
                pause = following.refused(await receive_on_loop(following.where, ASK, answer))
            else:
                try:
                    for one in following.opened(answer):
                        yield one
                    async for part in answer.aiter_raw():
                        for one in following.feed(part):
                            yield one
                finally:
                    await answer.aclose()
                pause = following.ended()
        except httpx2.RequestError as fault:
            pause = following.broken(fault)
        await asyncio.sleep(pause)


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(f"{type(value).__name__} is no object")
    return value
