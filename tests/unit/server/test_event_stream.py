"""One stream by itself: when it ends without the server ending, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.types import Message

from kranzq import work
from kranzq.backend.presence import SharedStore
from kranzq.server import event_stream, live
from kranzq.server.event_stream import EventStream, Listening
from kranzq.server.observer import Observer
from kranzq.server.service import Service


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SharedStore]:
    """An empty store."""
    with work.open(f"sqlite://{tmp_path}/work.db") as found:
        yield found


class Client:
    """Takes what is sent; hangs up after so many messages."""

    def __init__(self, most: int = 1000) -> None:
        self.taken: list[Message] = []
        self._most, self._has_enough = most, asyncio.Event()

    async def send(self, message: Message) -> None:
        """Take one message."""
        self.taken.append(message)
        if len(self.taken) >= self._most:
            self._has_enough.set()

    async def receive(self) -> Message:
        """Hang up when it has enough."""
        await self._has_enough.wait()
        return {"type": "http.disconnect"}

    @property
    def text(self) -> str:
        """All that came."""
        return b"".join(one.get("body", b"") for one in self.taken).decode()


def streamed(store: SharedStore, folder: Path, *, may_go_on: bool = True, most: int = 1000) -> tuple[Client, Observer]:
    """One whole stream: what its client got, and who looked for it."""

    async def run() -> tuple[Client, Observer]:
        service, client = Service(store, {}, str(folder)), Client(most)
        observer, snapshots = service.shared(live.observer), service.shared(live.snapshots)
        listening = Listening(observer)
        await listening.begin(service)

        async def asked() -> bool:
            return may_go_on

        begin = await snapshots.take()
        stream = EventStream(
            service, observer, snapshots, listening, place=None, begin=begin, lost=False, may_go_on=asked
        )
        async with asyncio.timeout(20):
            await stream({"type": "http", "method": "GET"}, client.receive, client.send)
        observer.close()
        service.pool.close()
        return client, observer

    return asyncio.run(run())


def test_a_token_that_was_revoked_listens_no_longer(
    store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at now and then, and the stream says why it ends."""
    monkeypatch.setattr(event_stream, "ALIVE_S", 0.02)

    client, observer = streamed(store, tmp_path, may_go_on=False)

    assert 'event: bye\ndata: {"why":"the token is not valid any more"}' in client.text
    assert client.taken[-1]["more_body"] is False
    assert observer.listeners == 0


def test_a_stream_that_is_idle_says_that_it_lives(
    store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the head of the answer and the snapshot nothing comes but that."""
    monkeypatch.setattr(event_stream, "ALIVE_S", 0.02)

    client, _ = streamed(store, tmp_path, most=3)

    assert ": alive\n\n" in client.text


def test_a_stream_ends_in_time(store: SharedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the client comes again, and its credential is looked at anew."""
    monkeypatch.setattr(event_stream, "ALIVE_S", 0.02)
    monkeypatch.setattr(event_stream, "LONGEST_S", 0.3)

    client, _ = streamed(store, tmp_path)

    assert "a stream lasts ten minutes at most" in client.text


def test_a_client_that_hangs_up_leaves_nothing_behind(store: SharedStore, tmp_path: Path) -> None:
    """Nobody listens any more, and nothing is sent to it."""
    client, observer = streamed(store, tmp_path, most=2)

    assert "event: snapshot" in client.text
    assert "event: bye" not in client.text
    assert observer.listeners == 0
