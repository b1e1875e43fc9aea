"""Clients that are slow, idle, many or gone, and the end of the server with all of them connected."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import select
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq import work
from kranzq.model.work import ItemState
from tests.hurried_server import CONNECTIONS
from tests.laboratory import wait_for
from tests.postgres_proxy import Proxy
from tests.servers import Served, all_of, connected, raw, serving

END_S = 5.0
"""A server ends within two seconds; beside other load a test grants it this."""
SOON_S = 9.0
"""Far more than the limits of a server in a hurry, and less than any of another."""


@pytest.fixture(scope="module")
def hurried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with short limits."""
    with serving(tmp_path_factory.mktemp("hurried"), program=("-m", "tests.hurried_server")) as one:
        yield one


def request(path: str, body: object = None, token: str = "", method: str = "POST", *more: str) -> bytes:
    """The bytes of a request."""
    sent = json.dumps(body).encode() if body is not None else b""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", *more]
    lines += [f"Content-Length: {len(sent)}", *([f"Authorization: Bearer {token}"] if token else [])]
    return "\r\n".join([*lines, "", ""]).encode() + sent


def waits(token: str, kind: str, ms: int = 30_000) -> bytes:
    """The bytes of a claim that waits."""
    return request("/v1/work/claim", {"kind": kind, "wait_ms": ms}, token)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /v1/work HTTP/1.1\r\nHost: localhost\r\nX-Half: ", b"\r\n\r\n"])
def test_a_request_that_does_not_arrive_is_ended(hurried: Served, sent: bytes) -> None:
    """Nothing, half a line, or half a header: the connection does not stay."""
    answer = raw(hurried, sent, tcp=False, seconds=SOON_S)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


def test_a_header_that_drips_is_ended(hurried: Served) -> None:
    """Each byte comes in time, the whole does not."""
    with connected(hurried, tcp=False) as connection:
        _drip(connection, b"GET /v1/work HTTP/1.1\r\nX: " + b"a" * 10_000)
        answer = all_of(connection, SOON_S)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


def test_a_body_that_drips_is_ended(hurried: Served) -> None:
    """With 408, in the form of every other fault."""
    with connected(hurried, tcp=False) as connection:
        connection.sendall(request("/v1/work", {}).replace(b"Content-Length: 2", b"Content-Length: 9000")[:-1])
        _drip(connection, b" " * 8000)
        answer = all_of(connection, SOON_S)

    assert answer == b"" or answer.startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("line", [b"X: " + b"a" * 100_000, b"X: a\r\n" * 20_000, b""])
def test_a_head_is_bounded(hurried: Served, line: bytes) -> None:
    """One endless header, very many, or an endless address: 431, and the connection ends."""
    head = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n" % (b"" if line else b"a" * 100_000)
    with connected(hurried, tcp=False) as connection:
        _send_all(connection, head + line)
        answer = all_of(connection, SOON_S)

    assert answer == b"" or answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))


@pytest.mark.parametrize("path", [b"/v1/work", b"/nothing"])
@pytest.mark.parametrize("piece", [b"0\r\nX: " + b"a" * 65536, b"1;" + b"a" * 65536, b"0\r\n" + b"X: a\r\n" * 10_000])
def test_what_is_beside_a_body_is_bounded(hurried: Served, path: bytes, piece: bytes) -> None:
    """Headers behind the last chunk, and what stands beside its size, fill no memory."""
    head = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" % path
    with connected(hurried, tcp=False) as connection:
        sent = _send_all(connection, head + piece + b"a" * 50_000_000)
        all_of(connection, SOON_S)

    assert sent < 5_000_000


def test_a_second_request_has_its_own_time(hurried: Served) -> None:
    """Sent before the first one is answered, and never finished: it is ended as well."""
    token = hurried.agent("in a row")
    sent = waits(token, "in a row", 300) + b"GET /v1/agent HTTP/1.1\r\nX-Half: "

    answer = raw(hurried, sent, tcp=False, seconds=SOON_S)
    assert answer == b"" or b" 408 " in answer or answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("at_once", [True, False])
def test_who_asks_twice_and_goes_has_claimed_nothing(served: Served, *, at_once: bool) -> None:
    """A claim that waits is given up with its connection, whatever was asked behind it."""
    kind = f"in a row, at once: {at_once}"
    first, second = waits(served.agent(kind), kind), request("/healthz", method="GET")
    wait_for(lambda: not _waiting(served), "nobody of another test waits any longer")
    with connected(served, tcp=False) as connection:
        connection.sendall(first + second if at_once else first)
        wait_for(lambda: _waiting(served), "it waits")
        connection.sendall(b"" if at_once else second)
    with work.open(served.url) as store:
        item = store.enqueue(work.NewItem("a", "b", kind)).entry.id
        wait_for(lambda: _nobody_takes(served, store, item), "it waits no longer, and has not kept the item")
        left = store.show(item)

    assert left.attempts == left.declined


def test_an_answer_comes_though_the_body_does_not(hurried: Served) -> None:
    """Who is refused by his headers is told so at once, and then the connection ends."""
    sent = request("/nothing", {"a": 1}).replace(b"Content-Length: 8", b"Content-Length: 80")

    assert raw(hurried, sent, tcp=False, seconds=SOON_S).startswith(b"HTTP/1.1 404")


def test_idle_connections_make_room(hurried: Served) -> None:
    """However many do nothing, the next request is answered; and they are closed after a while."""
    with contextlib.ExitStack() as stack:
        idle = [stack.enter_context(connected(hurried, tcp=False)) for _ in range(3 * CONNECTIONS)]
        begun = time.monotonic()
        status = hurried.ask("GET", "/v1/agent").status
        took = time.monotonic() - begun
        ends = [all_of(one, SOON_S) for one in idle]

    assert (status, took < SOON_S) == (200, True)
    assert set(ends) == {b""}


def test_a_connection_too_many_is_told_so(hurried: Served) -> None:
    """When all are busy with requests, one more gets 503, and is served when one has ended."""
    token = hurried.agent("many")
    with contextlib.ExitStack() as stack:
        busy = [stack.enter_context(connected(hurried, tcp=False)) for _ in range(CONNECTIONS)]
        for one in busy:
            one.sendall(waits(token, "many"))

        def refused() -> bytes:
            told = raw(hurried, request("/v1/agent", method="GET"), tcp=False)
            return told if told.startswith(b"HTTP/1.1 503") else b""

        told = wait_for(refused, "all connections are busy")
        busy[0].close()
        wait_for(lambda: not refused(), "there is room again")

    assert b'"code":"full"' in told


def test_a_client_that_does_not_read_is_cut(hurried: Served) -> None:
    """A large answer does not stay in memory for ever."""
    for _ in range(6):
        hurried.ask("POST", "/v1/work", {"title": "large", "payload": "p" * 1_000_000, "kind": "large"})
    with connected(hurried, tcp=False) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request("/v1/work?limit=6", method="GET"))
        wait_for(lambda: _is_cut(connection), "the connection is cut", seconds=SOON_S)
        answer = all_of(connection, SOON_S)

    assert len(answer) < 6_000_000


@pytest.mark.race
def test_two_hundred_that_wait_block_nobody(served: Served) -> None:
    """A heartbeat is answered at once beside them; items go to different ones; who hangs up gets nothing any more."""
    token = served.agent("crowd")
    held = served.ask("POST", "/v1/work", {"title": "a", "payload": "b", "kind": "held"}).json["id"]
    served.ask("POST", "/v1/work/claim", {"kind": "held"}, token=token)
    with contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(connected(served, tcp=False)) for _ in range(200)]
        for one in crowd:
            one.sendall(waits(token, "crowd", 60_000))
        wait_for(lambda: _waiting(served) >= len(crowd), "all of them wait")
        took = []
        for _ in range(20):
            begun = time.monotonic()
            answer = served.ask("POST", f"/v1/work/{held}/heartbeat", {"attempt": 1}, token=token)
            took.append(time.monotonic() - begun)
            assert answer.status == 200
        for _ in range(10):
            served.ask("POST", "/v1/work", {"title": "a", "payload": "b", "kind": "crowd"})
        names = wait_for(lambda: _claimed(crowd, 10), "ten of them have an item")
    with work.open(served.url) as store:
        late = store.enqueue(work.NewItem("late", "b", "crowd")).entry.id
        wait_for(lambda: _nobody_takes(served, store, late), "nobody has it")
        ends = {one.ended for one in store.attempts(late)}
        left = store.show(late)

    assert sorted(took)[10] < 1.0
    assert len(set(names)) == 10
    assert ends <= {"declined"}
    assert left.attempts == left.declined


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_b86_it_ends_within_two_seconds_whoever_is_connected(tmp_path: Path, number: signal.Signals) -> None:
    """Waiting claims are answered, idle and stalled clients are let go, and the port is free for the next one."""
    with serving(tmp_path, "--listen", "127.0.0.1:0") as one, contextlib.ExitStack() as stack:
        token = one.agent("waiter")
        for _ in range(3):
            one.ask("POST", "/v1/work", {"title": "a", "payload": "p" * 1_000_000})
        waiting = [stack.enter_context(connected(one, tcp=tcp)) for tcp in (True, False)]
        waiting[0].sendall(waits(token, "end").replace(b"Host: localhost", f"Host: {one.address}".encode()))
        waiting[1].sendall(waits(token, "end"))
        stack.enter_context(connected(one))
        stalled = stack.enter_context(connected(one, tcp=False))
        stalled.sendall(request("/v1/work", method="GET"))
        half = stack.enter_context(connected(one, tcp=False))
        half.sendall(
            b"POST /v1/work HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
        )
        wait_for(lambda: _waiting(one) == len(waiting), "the claims wait")
        begun = time.monotonic()
        code = one.stop(number)
        took = time.monotonic() - begun
        told = [json.loads(all_of(each).rpartition(b"\r\n\r\n")[2]) for each in waiting]
        one.words = ("--listen", one.address)
        one.start()
        again = one.ask("GET", "/v1/agent", tcp=True, token=one.key).status

    assert (code, again) == (0, 200)
    assert took < END_S
    assert told == [{"claimed": False}] * 2


def test_a_store_that_is_locked_ends_nobody_elses_wait(tmp_path: Path) -> None:
    """While another program holds the database, whoever looks is answered, and the server still ends in time."""
    with serving(tmp_path) as one:
        one.ask("POST", "/v1/work", {"title": "a", "payload": "b"})
        with _write_locked(one.url):
            writer = threading.Thread(target=_ask_quietly, args=(one,), daemon=True)
            writer.start()
            looked = one.ask("GET", "/v1/work").status
            begun = time.monotonic()
            code = one.stop()
            took = time.monotonic() - begun
        writer.join()

    assert (looked, code) == (200, 0)
    assert took < END_S


def _drip(connection: socket.socket, data: bytes) -> None:
    """Send byte by byte until the other side has had enough."""
    for byte in data:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(bytes([byte]))
        if select.select([connection], [], [], 0.01)[0]:
            return


def _send_all(connection: socket.socket, data: bytes) -> int:
    """Send until all is sent or the other side has closed; how many bytes it took."""
    sent = 0
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        while sent < len(data):
            sent += connection.send(data[sent : sent + 65536])
    return sent


def _is_cut(connection: socket.socket) -> bool:
    poll = select.poll()
    poll.register(connection, 0)
    return bool(poll.poll(0))


def _claimed(crowd: list[socket.socket], number: int) -> list[str]:
    """The items of those that have been answered, when they are so many."""
    names = []
    for one in crowd:
        one.settimeout(0.0)
        with contextlib.suppress(BlockingIOError):
            names.append(json.loads(one.recv(65536, socket.MSG_PEEK).rpartition(b"\r\n\r\n")[2])["item"]["id"])
    return names if len(names) >= number else []


@pytest.mark.parametrize("calls", [True, False])
def test_the_end_waits_for_no_database(tmp_path: Path, postgres_url: str, *, calls: bool) -> None:
    """One that has fallen silent keeps neither a look at it nor a question about a token from being given up."""
    with Proxy(postgres_url) as line, _at(tmp_path, line.url) as one, connected(one, tcp=False) as connection:
        token = one.agent("ann")
        assert one.ask("GET", "/v1/agent", token=token).status == 200
        line.swallow()
        connection.sendall(request("/v1/agent", token=token, method="GET") if calls else b"")
        assert one.ask("GET", "/readyz").status == 503
        begun = time.monotonic()
        code = one.stop()
        took = time.monotonic() - begun

    assert code == 0
    assert took < END_S


@contextlib.contextmanager
def _at(folder: Path, url: str) -> Iterator[Served]:
    """A server on another database than its own."""
    one = Served(folder)
    one.url = url
    try:
        one.start()
        yield one
    finally:
        one.kill()


@contextlib.contextmanager
def _write_locked(url: str) -> Iterator[None]:
    with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite://"), isolation_level=None)) as connection:
        connection.execute("begin immediate")
        yield
        connection.execute("rollback")


def _ask_quietly(one: Served) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        one.ask("POST", "/v1/work", {"title": "a", "payload": "b"})


def _nobody_takes(served: Served, store: work.SharedStore, item: str) -> bool:
    """Whether nobody has an item or is about to take it. Asked in this order: who waits no longer has what it took."""
    return not _waiting(served) and store.show(item).state is ItemState.OPEN


def _waiting(served: Served) -> int:
    """How many claims wait."""
    found = re.search(rb"^kranzq_waiting_claims ([0-9]+)", served.ask("GET", "/metrics").raw, re.MULTILINE)
    assert found is not None
    return int(found[1])
