"""Readers of live events against servers that cut, lie, stall and never end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import math
from collections.abc import Callable

import httpx2
import pytest

from kranzq.client import AsyncClient, Client, LiveEvent, events
from kranzq.client.event_lines import MOST_LINE
from kranzq.client.events import AGAIN_S, LIVED_S, MOST_PAUSE_S, Following
from kranzq.errors import KranzqError, Refused, ServerUnreachable
from tests.scripted import Script, answer, scripted, stream

Read = Callable[..., list[LiveEvent]]


def told(kind: str, name: str = "", **data: object) -> bytes:
    """An event as a server sends it."""
    head = f"id: {name}\n" if name else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def fault(status: int, code: str) -> bytes:
    """An answer that is no stream."""
    return answer(json.dumps({"error": "No.", "hint": "", "code": code}).encode(), status)


@pytest.fixture(params=["sync", "async"])
def read(request: pytest.FixtureRequest) -> Read:
    """Reads so many events with either client, and hangs up."""

    def call(url: str, many: int, last: str = "", patience_s: float = 20.0) -> list[LiveEvent]:
        if request.param == "sync":
            with Client(url) as client, contextlib.closing(client.events(last, patience_s=patience_s)) as found:
                return list(itertools.islice(found, many))

        async def story() -> list[LiveEvent]:
            taken = list[LiveEvent]()
            async with AsyncClient(url) as client:
                async with contextlib.aclosing(client.events(last, patience_s=patience_s)) as found:
                    async for one in found:
                        taken.append(one)
                        if len(taken) == many:
                            break
            return taken

        return asyncio.run(story())

    return call


def test_a_cut_stream_goes_on_where_it_was_cut(read: Read) -> None:
    """In the middle of an event, before anything, and by a server that ends: each event comes once."""
    scripts: list[Script] = [
        stream(told("snapshot", "b-0") + told("item", "b-1", id="w-1") + told("item", "b-2", id="w-2")[:-1]),
        b"",
        stream(b"retry: 1\n\n" + told("item", "b-2", id="w-2") + told("bye", why="the server ends")),
        fault(503, "unavailable"),
        answer(b"<html>bad gateway</html>", 502),
        stream(b": alive\n\n" + told("mission", "b-3", mission="m")),
    ]
    with scripted(*scripts) as server:
        found = read(server.url, 4)
    assert [(one.kind, one.id) for one in found] == [
        ("snapshot", "b-0"),
        ("item", "b-1"),
        ("item", "b-2"),
        ("mission", "b-3"),
    ]
    assert found[3].data == {"mission": "m"}
    lasts = [[line for line in one.splitlines() if line.startswith("last-event-id")] for one in server.asked]
    assert lasts == [
        [],
        ["last-event-id: b-1"],
        ["last-event-id: b-1"],
        ["last-event-id: b-2"],
        ["last-event-id: b-2"],
        ["last-event-id: b-2"],
    ]


def test_what_was_missed_is_told(read: Read) -> None:
    """The server's own word, and where an event had no id from which to go on."""
    with scripted(stream(told("resync", why="too late") + told("snapshot", "b-9"))) as server:
        assert [one.kind for one in read(server.url, 2, last="a-1")] == ["resync", "snapshot"]
    assert "last-event-id: a-1" in server.asked[0]
    with scripted(stream("id: ü\ndata: {}\n\n".encode()), stream(told("snapshot", "b-9"))) as server:
        assert [one.kind for one in read(server.url, 3)] == ["message", "resync", "snapshot"]
    assert "last-event-id" not in server.asked[1]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (stream(b"data: " + b"x" * 2 * MOST_LINE), "a line of more than"),
        (stream(b"data: no json\n\n"), "another form"),
        (stream(b"data: 5\n\n"), "another form"),
        (stream(b"data: " + b"[" * 100_000 + b"\n\n"), "another form"),
        (stream(b"", "text/html"), "is no stream of events"),
        (stream(b"").replace(b"x-agentmux-srv-version", b"server"), "is no kranzq server"),
        (answer(b"<html>hello</html>", 404), "is no kranzq server"),
        (stream(b"").replace(b"connection", b"content-encoding: gzip\r\nconnection"), "is packed"),
    ],
    ids=["endless line", "no JSON", "no object", "deep", "a page", "another server", "not found", "packed"],
)
def test_what_is_no_stream_of_events_is_named(read: Read, script: bytes, said: str) -> None:
    """At once, and it is not asked again: it would say the same."""
    with scripted(script) as server, pytest.raises(ServerUnreachable, match=said):
        read(server.url, 1)


def test_a_token_that_opens_nothing_any_more_ends_it(read: Read) -> None:
    """When the stream is to be opened again, the refusal is raised, not waited for."""
    with scripted(
        stream(b"retry: 1\n\n" + told("snapshot", "b-0") + told("bye")), fault(401, "unauthorized")
    ) as server:
        with pytest.raises(Refused):
            read(server.url, 2)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # httpx2 leaves the socket open
def test_a_server_that_never_comes_back_is_named(read: Read) -> None:
    """After the patience that was asked for."""
    with scripted(stream(told("snapshot", "b-0"))) as server:
        assert len(read(server.url, 1)) == 1
    with pytest.raises(ServerUnreachable, match=server.url):
        read(server.url, 1, patience_s=0.2)


def test_streams_that_give_nothing_are_not_opened_for_ever(read: Read) -> None:
    """Each is answered and ends at once: a fault, when patience is over."""
    with scripted(stream(b"retry: 1\n\n: alive\n\n")) as server:
        with pytest.raises(ServerUnreachable, match="ends each stream"):
            read(server.url, 1, patience_s=0)


def test_a_silent_stream_is_cut(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not even say that it lives is opened anew."""
    monkeypatch.setattr(events, "SILENT_S", 0.05)
    ended: list[bool] = []

    def silent(connection: object) -> None:
        connection.sendall(stream(told("snapshot", "b-0")))  # type: ignore[attr-defined]
        ended.append(connection.recv(1) == b"")  # type: ignore[attr-defined]

    with scripted(silent, stream(told("item", "b-1"))) as server:
        assert [one.id for one in read(server.url, 2)] == ["b-0", "b-1"]
    assert ended == [True]


class Clock:
    """A time that is told."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        """Now."""
        return self.at


def opened(following: Following, *parts: bytes) -> None:
    """A stream that says this."""
    answered = httpx2.Response(200, headers={"x-agentmux-srv-version": "1", "content-type": "text/event-stream"})
    following.opened(answered)
    for part in parts:
        following.feed(part)


def test_pauses_grow_while_streams_are_short_and_begin_anew_after_a_long_one() -> None:
    """A server that restarts again and again is not overrun; one that was there for a while is asked soon."""
    clock = Clock()
    following = Following("there", 20.0, now=clock)
    pauses = list[float]()
    for number in range(30):
        opened(following, told("item", f"b-{number}"))
        pauses.append(following.broken(httpx2.ReadError("cut")))
        clock.at += pauses[-1]
    assert (pauses[0] <= 0.1, max(pauses) <= 2.0, min(pauses[10:]) >= 1.0) == (True, True, True)
    opened(following, told("item", "b-x"))
    clock.at += LIVED_S + 1
    assert following.broken(httpx2.ReadError("cut")) <= 0.1


def test_a_server_says_when_to_come_again() -> None:
    """Within reason; without a word it is a second, and never at once."""
    for said, least, most in (
        ("retry: 3000\n", 3.0, 3.0),
        ("", AGAIN_S, AGAIN_S),
        ("retry: 999999\n", MOST_PAUSE_S, 60),
    ):
        following = Following("there", math.inf)
        opened(following, said.encode() + told("bye"))
        assert least <= following.ended() <= most
    at_once = Following("there", 0)
    opened(at_once, b"retry: 0\n" + told("bye"))
    assert at_once.ended() > 0
    with pytest.raises(KranzqError):
        at_once.broken(httpx2.ReadError("cut"))
