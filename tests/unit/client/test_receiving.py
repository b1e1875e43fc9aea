"""What answers at an address is believed in nothing: not in its length, its pace, or that it ever ends."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Callable

import pytest

from kranzq import work
from kranzq.client import AsyncClient, Client, RemoteStore, asking, receiving, work_asks
from kranzq.client.asking import Ask
from kranzq.errors import AnswerTooLong, ServerUnreachable
from tests.scripted import VERSION, Script, answer, scripted

ASK: Ask[dict[str, object]] = Ask("GET", "/v1/work/stats", dict, most=1000)


def endless(connection: socket.socket) -> None:
    """Say that it is JSON, and say it for ever."""
    connection.sendall(f"HTTP/1.1 200 X\r\n{VERSION}connection: close\r\n\r\n".encode())
    while True:
        connection.sendall(b" " * 512)


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Callable[[str], object]:
    """Sends the request with either client, once."""

    def call(url: str) -> object:
        if request.param == "sync":
            with Client(url, patience_s=0) as client:
                return client.send(ASK)

        async def story() -> object:
            async with AsyncClient(url, patience_s=0) as client:
                return await client.send(ASK)

        return asyncio.run(story())

    return call


@pytest.mark.parametrize(
    "script",
    [answer(b"{}" + b" " * 999), answer(b"{}", length=1001), answer(b"x" * 1001, 503), endless],
    ids=["long", "said to be long", "a long fault", "endless"],
)
def test_an_answer_that_is_too_long_is_not_taken_in(send: Callable[[str], object], script: Script) -> None:
    """With what was asked for, how much is too much, and what to do."""
    with scripted(script) as server, pytest.raises(AnswerTooLong, match="GET /v1/work/stats has more than 1000 bytes"):
        send(server.url)


def test_as_much_as_may_be_is_taken(send: Callable[[str], object]) -> None:
    """To the byte."""
    with scripted(answer(b"{}" + b" " * 998)) as server:
        assert send(server.url) == {}


def test_an_answer_that_comes_too_slowly_is_given_up(
    send: Callable[[str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then keeps nobody waiting for ever."""
    monkeypatch.setattr(receiving, "FIRST_S", -1.0)
    with scripted(answer(b"{}")) as server, pytest.raises(ServerUnreachable, match="comes too slowly"):
        send(server.url)


def test_a_packed_answer_is_not_unpacked(send: Callable[[str], object]) -> None:
    """A few bytes of it could be gigabytes; nobody asked for it."""
    packed = answer(gzip.compress(b"{}"), 200, "content-encoding: gzip")
    with scripted(packed) as server, pytest.raises(ServerUnreachable, match="is packed"):
        send(server.url)
    assert "accept-encoding: identity" in server.asked[0]


def test_a_store_asks_for_fewer_items_where_they_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """All items are found all the same, however long each of them is."""
    asked = list[int]()

    def page(self: RemoteStore, state: str = "", *, limit: int = 50, cursor: str | None = None) -> work.Page:
        del self, state, cursor
        asked.append(limit)
        if limit > 10:
            raise AnswerTooLong("there", "GET /v1/work", 1)
        return work.Page((), None)

    monkeypatch.setattr(RemoteStore, "page", page)
    with RemoteStore(Client("http://127.0.0.1:1")) as store:
        assert store.entries() == []
    assert asked == [500, 62, 7]
    assert work_asks.page("", 500, None).most == asking.MOST_ANSWER
