"""Which connection makes room for a new one, on connections that are none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from kranzq.server.protocol import Bounded
from kranzq.server.service import Limits

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Wire:
    """A transport that remembers what was done with it."""

    def __init__(self) -> None:
        self.written = b""
        self.is_open, self.was_cut = True, False
        self.protocol: Bounded | None = None

    def get_extra_info(self, name: str) -> None:
        """Nothing is known of it."""
        del name

    def write(self, data: bytes) -> None:
        """Keep what is sent."""
        self.written += data

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return not self.is_open

    def close(self) -> None:
        """End it as asked for."""
        self.is_open = False

    def abort(self) -> None:
        """End it at once; the loop would tell its protocol."""
        self.is_open, self.was_cut = False, True
        assert self.protocol is not None
        self.protocol.connection_lost(None)

    def pause_reading(self) -> None:
        """Not needed here."""

    def resume_reading(self) -> None:
        """Not needed here."""


class Three(Bounded):
    """As many connections as three."""

    limits = Limits(connections=3)


@pytest.fixture
def state() -> Iterator[ServerState]:
    """What all connections of a server share; what is still open is let go."""
    one = ServerState()
    yield one
    for left in list(one.connections):
        left.connection_lost(None)


def connect(state: ServerState, answering: asyncio.Event) -> Wire:
    """A new connection; its requests are answered when the event is set."""

    async def app(scope: Any, receive: Any, send: Callable[[Any], Any]) -> None:
        await answering.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, http=Three, ws="none", lifespan="off", log_config=None)
    wire = Wire()
    wire.protocol = Three(config, state, {})
    wire.protocol.connection_made(cast("asyncio.Transport", wire))
    return wire


async def _busy_and_idle(state: ServerState) -> list[Wire]:
    answering = asyncio.Event()
    wires = [connect(state, answering) for _ in range(3)]
    assert wires[0].protocol is not None
    wires[0].protocol.data_received(GET)  # the oldest is busy
    await asyncio.sleep(0)
    wires.append(connect(state, answering))
    for wire in (wires[2], wires[3]):
        assert wire.protocol is not None
        wire.protocol.data_received(GET)
    await asyncio.sleep(0)
    wires.append(connect(state, answering))
    answering.set()
    for _ in range(5):
        await asyncio.sleep(0)
    wires.append(connect(state, answering))
    return wires


def test_the_one_that_is_idle_longest_makes_room(state: ServerState) -> None:
    """Never one that is being answered; when all are, the new one is refused; an answer makes it idle again."""
    wires = asyncio.run(_busy_and_idle(state))

    assert wires[1].was_cut
    assert wires[4].written.startswith(b"HTTP/1.1 503")
    assert all(wire.written.startswith(b"HTTP/1.1 200") for wire in (wires[0], wires[2], wires[3]))
    assert sum(wire.was_cut for wire in (wires[0], wires[2], wires[3])) == 1
    assert sum(wire.is_open for wire in wires) == 3
