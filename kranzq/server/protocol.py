"""HTTP on one connection, as uvicorn speaks it, with an end for everything that could last for ever.

uvicorn bounds neither how long a request may take to arrive nor how many connections there are. Here a timer runs in
each state in which it is the client's turn; when it rings, the connection is closed. A connection too many takes the
place of the one that has been idle longest; when none is idle it is refused with 503.
"""

from __future__ import annotations

import asyncio
import enum
import socket
from collections import deque
from typing import Any

import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from kranzq.server.app import CONNECTION, ON_SOCKET
from kranzq.server.errors import body_of
from kranzq.server.service import Limits

_DISCARDED_S = 2.0
"""So long an unread body is still taken in after the answer, or the client would lose that with the connection."""
_MOST_HEAD, _MOST_BESIDE = 64 * 1024, 256 * 1024
"""Bytes of a head; and of what is neither head nor body: sizes of chunks, and headers behind the last one."""
_BESIDE_EACH = 7
"""Of these, so many for each byte of the body: a client may send each in a chunk of its own."""


_MOST_IN_A_ROW = 16
"""Requests that are read while the first of them is answered; with more, nobody sees whether the client is there."""


class Phase(enum.Enum):
    """What the client sends at the moment."""

    IDLE = enum.auto()
    """Nothing."""
    HEAD = enum.auto()
    BODY = enum.auto()


class Bounded(HttpToolsProtocol):
    """One connection. `limits` is set by a subclass, for uvicorn makes the instances."""

    limits = Limits()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._phase = Phase.IDLE
        self._idle_since = 0.0
        self._on_socket = False
        self._beside = 0
        self._asked: deque[RequestResponseCycle] = deque()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked and nothing is being answered."""
        return self._phase is Phase.IDLE and self._is_answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Take it, or refuse it."""
        super().connection_made(transport)
        peer = transport.get_extra_info("socket")
        self._on_socket = peer is not None and peer.family == socket.AF_UNIX
        if len(self.connections) > self.limits.connections and not self._make_room():
            self._answer(503, "full", "The server has as many connections as it takes.", "Try again later.")
            return
        self._idle_since = self.loop.time()
        self._ring_in(self.limits.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the timers, and tell every request that waits for its answer: uvicorn tells the last one."""
        for one in self._asked:
            one.disconnected = True
            one.message_event.set()
        self._stop_timer()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes, of which the parser makes the calls below."""
        if self.parser is None or self.transport.is_closing():
            return
        self._beside += len(data)
        super().data_received(data)
        if self._phase is Phase.HEAD and self._beside > _MOST_HEAD:
            self._answer(431, "long", f"The head of the request is too long: at most {_MOST_HEAD} bytes are taken.")
        elif self._phase is Phase.BODY and self._beside > _MOST_BESIDE:
            self._cut()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope[ON_SOCKET] = self._on_socket  # type: ignore[literal-required]
        self._enter(Phase.HEAD)

    def on_headers_complete(self) -> None:
        """Its head is there."""
        self._beside = 0
        super().on_headers_complete()
        self.scope[CONNECTION] = self.cycle  # type: ignore[literal-required]
        self._asked.append(self.cycle)
        if len(self._asked) <= _MOST_IN_A_ROW:
            self.flow.resume_reading()  # uvicorn reads on after the answer, and would not see that the client has gone
        self._enter(Phase.BODY)

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        self._beside -= (1 + _BESIDE_EACH) * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._beside = 0
        super().on_message_complete()
        self._enter(Phase.IDLE)

    def on_response_complete(self) -> None:
        """It has been answered."""
        self._asked.popleft()
        super().on_response_complete()
        self._enter(self._phase)

    def pause_writing(self) -> None:
        """The client does not read."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.stalled_s, self._cut)

    def resume_writing(self) -> None:
        """It reads again."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP, in the form of every other fault."""
        self._answer(400, "http", msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Answer a request for another protocol as if it were none, and end: what follows it is no HTTP."""
        self.cycle.keep_alive = False

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _enter(self, phase: Phase) -> None:
        """Set the timer for what the client has to do now; while the application has to, there is none."""
        begins = phase is not self._phase
        self._phase = phase
        if phase is Phase.HEAD:
            if begins:
                self._ring_in(self.limits.header_s)
        elif not self._is_answered:
            self._stop_timer()  # over the body the application watches
        elif phase is Phase.BODY:
            self._ring_in(_DISCARDED_S)
        else:
            self._idle_since = self.loop.time()
            self._ring_in(self.limits.idle_s)

    def _make_room(self) -> bool:
        """Close the connection that has been idle longest, if there are too many; whether this one may stay."""
        there = [one for one in self.connections if isinstance(one, Bounded) and not one.transport.is_closing()]
        if len(there) <= self.limits.connections:
            return True
        idle = [one for one in there if one is not self and one.is_idle]
        oldest = min(idle, key=lambda one: one._idle_since, default=None)  # noqa: SLF001 - of its own kind
        if oldest is None:
            return False
        oldest._cut()  # noqa: SLF001
        return True

    def _answer(self, status: int, code: str, sentence: str, hint: str = "") -> None:
        body = msgspec.json.encode(body_of(sentence, hint, code))
        head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _ring_in(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._rang)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rang(self) -> None:
        if self._phase is Phase.HEAD and not self.transport.is_closing():
            self._answer(408, "slow", "The request did not arrive in time.")
        else:
            self.transport.close()

    def _cut(self) -> None:
        self.transport.abort()
