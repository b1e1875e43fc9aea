"""One client's stream of events: a snapshot, then what happens; or, after a cut, what it has missed.

Nothing is kept for a client but its place in the event log, so one that reads slowly costs no memory. When too much
waits for it, it is told to look anew (`resync`) and goes on from a snapshot. The connection itself cuts a client that
reads nothing at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from kranzq.errors import KranzqError
from kranzq.server.event_log import RESYNC, frame
from kranzq.server.observer import Observer
from kranzq.server.service import Service
from kranzq.server.snapshots import Snapshot, Snapshots

MOST_WAITING = 256
"""So many events may wait for a client that keeps up; more, and it looks anew."""
ALIVE_S = 15.0
"""Every so often the stream says that it lives, and looks whether the client still may listen."""
TRUSTED_S = 1.0
"""For so long it is told of events without being looked at again."""
LONGEST_S = 600.0
"""Then a stream ends and the client comes again, without a gap: so a credential is looked at anew."""
RETRY_MS = 1000
_AT_ONCE = 64
_LAST_WORD_S = 0.5
_ALIVE = b": alive\n\n"
_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}


class Ended(Exception):
    """The stream is over; `why` is told to the client."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class EventStream(Response):
    """The answer that goes on. `place`: from where the client reads on, if it can; `begin`: else what it gets first."""

    def __init__(  # noqa: PLR0913 - what one stream is made of, once each
        self,
        service: Service,
        observer: Observer,
        snapshots: Snapshots,
        listening: Listening,
        *,
        place: int | None,
        begin: Snapshot | None,
        lost: bool,
        may_go_on: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._service, self._observer, self._snapshots, self._listening = service, observer, snapshots, listening
        self._place, self._begin, self._lost, self._may_go_on = place, begin, lost, may_go_on
        self._bound = MOST_WAITING

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client, the server or the time ends it."""
        gone = asyncio.ensure_future(_hung_up(receive))
        closing = asyncio.ensure_future(self._service.closing.wait())
        writer = _Writer(send, closing)
        try:
            await writer.begin(self.status_code, self.raw_headers)
            if scope["method"] == "HEAD":
                await writer.end(b"")
                return
            try:
                await self._run(writer, gone)
            except Ended as end:
                await writer.end(_bye(end.why))
            except KranzqError:
                await writer.end(_bye("the store does not answer"))
        except (TimeoutError, OSError):
            pass  # it reads nothing, or has gone
        finally:
            self._listening.end()
            for task in (gone, closing):
                task.cancel()
            await asyncio.gather(gone, closing, return_exceptions=True)

    async def _run(self, writer: _Writer, gone: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LONGEST_S * random.uniform(0.9, 1.1)  # noqa: S311 - not all at once
        looked = said = loop.time()
        place = await self._first(writer)
        while not gone.done():
            if writer.closing.done():
                raise Ended("the server ends")
            if loop.time() > until:
                raise Ended("a stream lasts ten minutes at most")
            if loop.time() - looked > (TRUSTED_S if self._observer.log.head > place else ALIVE_S):
                looked = loop.time()
                if not await self._may_go_on():
                    raise Ended("the token is not valid any more")
            if loop.time() - said > ALIVE_S:
                said = loop.time()
                await writer.send(_ALIVE)
            self._listening.rest()
            came_to = await self._pass_on(writer, place)
            if came_to == place:
                await self._listening.wait(ALIVE_S, gone, writer.closing)
            place = came_to

    async def _first(self, writer: _Writer) -> int:
        log = self._observer.log
        head = f"retry: {RETRY_MS}\n\n".encode()
        if self._begin is None and self._place is not None:
            self._bound = max(MOST_WAITING, log.head - self._place)
            await writer.send(head)
            return self._place
        assert self._begin is not None
        told = frame(RESYNC, {"why": "what was missed is not known any more"}) if self._lost else b""
        await writer.send(head + told + self._begin.frame)
        return self._begin.place

    async def _pass_on(self, writer: _Writer, place: int) -> int:
        """Send what is new behind a place; where it ends."""
        log = self._observer.log
        waiting = log.head - place
        if waiting <= MOST_WAITING:
            self._bound = MOST_WAITING
        if waiting > self._bound or place < log.tail:
            told = frame(RESYNC, {"why": f"{waiting} events were waiting"})
            return await self._resync(writer, told, max(place + 1, log.head - MOST_WAITING // 2))
        events = log.after(place, _AT_ONCE)
        stop = next((at for at, one in enumerate(events) if one.kind == RESYNC), len(events))
        if stop:
            await writer.send(b"".join(one.frame for one in events[:stop]))
        if stop < len(events):
            return await self._resync(writer, events[stop].frame, events[stop].number)
        return events[-1].number if events else place

    async def _resync(self, writer: _Writer, told: bytes, at_least: int) -> int:
        snapshot = await self._snapshots.take(at_least)
        await writer.send(told + snapshot.frame)
        return snapshot.place


class Listening:
    """What the observer wakes, in the loop of the stream."""

    def __init__(self, observer: Observer) -> None:
        self._observer, self._loop, self._woken = observer, asyncio.get_running_loop(), asyncio.Event()

    async def begin(self, service: Service) -> None:
        """Listen; returns when nothing can be missed any more. Raises as stores do."""
        await service.pool.run(self._observer.listen, self._wake)

    def end(self) -> None:
        """Listen no more."""
        self._observer.leave(self._wake)

    def rest(self) -> None:
        """Forget what woke it: the log is read now."""
        self._woken.clear()

    async def wait(self, seconds: float, *also: asyncio.Future[Any]) -> None:
        """Wait until there is something new, one of the others is done, or the time is over."""
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({woken, *also}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._woken.set)


class _Writer:
    """Sends, unless the server closes while the client does not read. Raises TimeoutError then."""

    def __init__(self, send: Send, closing: asyncio.Future[Any]) -> None:
        self._send, self.closing = send, closing

    async def begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The head of the answer."""
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, data: bytes) -> None:
        """Some of it."""
        await self._put({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes) -> None:
        """The last of it."""
        await self._put({"type": "http.response.body", "body": data, "more_body": False})

    async def _put(self, message: Message) -> None:
        sending = asyncio.ensure_future(self._send(message))
        try:
            await asyncio.wait({sending, self.closing}, return_when=asyncio.FIRST_COMPLETED)
            async with asyncio.timeout(None if sending.done() else _LAST_WORD_S):
                await sending
        finally:
            sending.cancel()


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _bye(why: str) -> bytes:
    return frame("bye", {"why": why}, retry_ms=RETRY_MS)
