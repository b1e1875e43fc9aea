"""When a call is sent again and when it is not; what is no server, or is away; and that no token is shown."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from kranzq import work
from kranzq.client import AsyncClient, Client, RemoteMissions, RemoteStore, work_asks
from kranzq.client.address import Address
from kranzq.client.asking import Patience
from kranzq.errors import KranzqError, ServerUnreachable, StoreUnavailable, TryLater, UsageFault

TOKEN = "kqa_" + "s" * 43
HELD = work.Held("w-1", 1, work.Holder("ann"))
DROPPED = None
"""The server hangs up when it has read the request: perhaps it did what was asked, perhaps not."""
AWAY = (503, {"error": "The database is away.", "hint": "Wait.", "code": "unavailable"})
LOCKED = (503, {"error": "The database is locked; nothing was changed.", "hint": "Wait.", "code": "later"})
Answer = tuple[int, object] | None


@dataclass
class Moody:
    """A server that gives the answers it was told, one a connection, and keeps what it was asked."""

    answers: list[Answer]
    version: str = "1"
    asked: list[tuple[str, str, dict[str, object]]] = field(default_factory=list)
    url: str = ""

    def serve(self, listening: socket.socket) -> None:
        """Answer until there is no answer left."""
        for answer in self.answers:
            connection, _ = listening.accept()
            with connection, connection.makefile("rwb") as stream:
                method, path, _ = stream.readline().decode().split(" ")
                headers = dict(line.decode().lower().rstrip().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
                body = stream.read(int(headers.get("content-length", 0)))
                self.asked.append((method, path, json.loads(body) if body else {}))
                if answer is None:
                    continue
                raw = answer[1] if isinstance(answer[1], bytes) else json.dumps(answer[1]).encode()
                told = f"x-agentmux-srv-version: {self.version}\r\n" if self.version else ""
                head = f"HTTP/1.1 {answer[0]} X\r\n{told}content-length: {len(raw)}\r\nconnection: close\r\n"
                stream.write(head.encode() + b"retry-after: 0\r\n\r\n" + raw)


@contextlib.contextmanager
def moody(*answers: Answer, version: str = "1") -> Iterator[Moody]:
    """Such a server while the block lasts; all of its answers must be asked for."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        one = Moody(list(answers), version=version, url=f"http://127.0.0.1:{listening.getsockname()[1]}")
        thread = threading.Thread(target=one.serve, args=(listening,))
        thread.start()
        yield one
        thread.join(20)
        assert not thread.is_alive(), "it was asked too seldom"


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest) -> Callable[..., object]:
    """Sends a request with either client."""

    def call(url: str, ask: object, patience_s: float = 5.0) -> object:
        if request.param == "sync":
            with Client(url, TOKEN, patience_s=patience_s) as client:
                return client.send(ask)  # type: ignore[arg-type]

        async def story() -> object:
            async with AsyncClient(url, TOKEN, patience_s=patience_s) as client:
                return await client.send(ask)  # type: ignore[arg-type]

        return asyncio.run(story())

    return call


@pytest.mark.parametrize(
    "answers",
    [(DROPPED, DROPPED), (AWAY, LOCKED), (DROPPED, AWAY)],
    ids=["dropped", "away", "both"],
)
def test_what_may_be_repeated_is_repeated(send: Callable[..., object], answers: Sequence[Answer]) -> None:
    """A call under an attempt is sent again until it is answered, each time the same."""
    with moody(*answers, (200, {"ok": True, "state": "open"})) as server:
        ask = work_asks.release(HELD, "why", declined=False, delay_ms=0)
        assert send(server.url, ask) is work.ItemState.OPEN
    assert server.asked == [server.asked[0]] * 3


def test_an_enqueue_and_a_claim_get_an_id_of_their_own(send: Callable[..., object]) -> None:
    """So that the server knows the second one by it; with a key or id of the caller's, that one is sent."""
    for ask, key in (
        (work_asks.enqueue(work.NewItem("t", "p")), "id"),
        (work_asks.enqueue_many([work.NewItem("t", "p")]), "items"),
        (work_asks.claim(None, None, ""), "request_id"),
    ):
        with moody(DROPPED, (400, {"error": "no", "hint": "", "code": "usage"})) as server:
            with pytest.raises(UsageFault):
                send(server.url, ask)
        (_, _, first), (_, _, second) = server.asked
        assert first == second
        assert first[key]
    assert (
        work_asks.enqueue(work.NewItem("t", "p", key="k")).body
        == work_asks.enqueue(work.NewItem("t", "p", key="k")).body
    )


def test_what_may_not_be_repeated_is_sent_once(send: Callable[..., object]) -> None:
    """A claim of many whose answer was lost: nobody knows what it did, and that is said."""
    with moody(DROPPED) as server:
        with pytest.raises(ServerUnreachable, match="whether the call was carried out is not known"):
            send(server.url, work_asks.claim_many(None, 5, None))
    with moody(AWAY) as server:
        with pytest.raises(StoreUnavailable, match="The database is away"):
            send(server.url, work_asks.claim_many(None, 5, None))
    with moody(LOCKED, (200, {"claims": []})) as server:  # nothing was changed, so this one may
        assert send(server.url, work_asks.claim_many(None, 5, None)) == []


def test_a_mission_without_an_id_is_enqueued_once() -> None:
    """Each time it would get another id, and with `again` one more run."""
    for asked in ({"priority": 1}, {"mission": "m", "again": True}):
        with moody(DROPPED) as server, Client(server.url, TOKEN) as client:
            with pytest.raises(ServerUnreachable):
                RemoteMissions(client).enqueue(asked)
    with moody(DROPPED, (200, {"mission": "m"})) as server, Client(server.url, TOKEN) as client:
        assert RemoteMissions(client).enqueue({"mission": "m"}) == {"mission": "m"}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # httpx2 leaves the socket open
def test_a_server_that_is_away_is_waited_for_and_then_named(send: Callable[..., object]) -> None:
    """Nobody listens: after the patience of the client, a sentence with the address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(ServerUnreachable, match=url):
        send(url, work_asks.stats(), patience_s=0.3)
    with pytest.raises(ServerUnreachable, match="unix:/no/such/socket"):
        send("unix:/no/such/socket", work_asks.stats(), patience_s=0.1)


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ((200, b"<html>hello</html>"), "1"),
        ((502, b"bad gateway"), "1"),
        ((200, {"items": []}), ""),
        ((200, []), "1"),
    ],
    ids=["a page", "a proxy", "another server", "a list"],
)
def test_what_is_no_kranzq_server_is_named(send: Callable[..., object], answer: Answer, version: str) -> None:
    """It is not taken for one that has nothing; and its text is not repeated."""
    with moody(answer, version=version) as server:
        with pytest.raises(ServerUnreachable, match="is no kranzq server"):
            send(server.url, work_asks.page("", 5, None))


def test_an_answer_of_another_form_is_a_fault(send: Callable[..., object]) -> None:
    """A newer server may answer what we cannot read; that is said with the route."""
    with moody((200, {"items": [{"id": "w-1"}], "cursor": None})) as server:
        with pytest.raises(ServerUnreachable, match="GET /v1/work has another form"):
            send(server.url, work_asks.page("", 5, None))


def test_odd_ids_stay_whole_in_addresses(send: Callable[..., object]) -> None:
    """What a path would be taken apart by is quoted; nobody reaches another route by an id."""
    for name, path in (("a/b?c#d é", "a%2Fb%3Fc%23d%20%C3%A9"), ("..", "%2E%2E"), (".", "%2E"), ("%2F", "%252F")):
        with moody((404, {"error": "none", "hint": "", "code": "not_found"})) as server:
            with pytest.raises(work.NoSuchItem):
                send(server.url, work_asks.attempts(name))
        assert server.asked[0][1] == f"/v1/work/{path}/attempts"


def test_no_token_is_shown() -> None:
    """Not in a repr, not in a fault, not in an address."""
    client = Client("http://127.0.0.1:1", TOKEN, patience_s=0)
    faults: list[KranzqError] = []
    for act in (
        lambda: client.send(work_asks.stats()),
        lambda: Client("http://127.0.0.1:1", TOKEN + "\n"),
        lambda: Address.parse(f"http://ann:{TOKEN}@localhost:1"),
        lambda: Address.parse(f"http://localhost:1/?token={TOKEN}"),
    ):
        with pytest.raises(KranzqError) as fault:
            act()
        faults.append(fault.value)
    assert all(TOKEN not in f"{one}{one!r}" for one in faults)
    assert TOKEN not in repr(client) + repr(RemoteStore(client).__dict__)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:8787", "http://127.0.0.1:8787"),
        ("http://127.0.0.1:8787/", "http://127.0.0.1:8787"),
        ("https://queue.example.org/kranzq/", "https://queue.example.org/kranzq"),
        ("http://[::1]:8787", "http://[::1]:8787"),
        ("unix:/run/s", "unix:/run/s"),
        ("unix:///run/s", "unix:/run/s"),
    ],
)
def test_addresses_are_read(text: str, shown: str) -> None:
    """As people write them."""
    assert str(Address.parse(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "127.0.0.1:8787",
        "ftp://host",
        "http://",
        "unix:",
        "unix:rel",
        "http://localhost:99999999",
        "http://example mple",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """With the forms that are understood."""
    with pytest.raises(UsageFault, match="Write http://localhost:8787"):
        Address.parse(text)


def test_what_no_address_may_hold_is_refused_by_the_client() -> None:
    """Where only the library finds out, too."""
    with pytest.raises(UsageFault, match="no address of a server"):
        Client("http://example..é")


def test_what_cannot_be_sent_is_said(send: Callable[..., object]) -> None:
    """Half a character, or a number that is none; nothing is sent."""
    for ask in (work_asks.cancel("w-1", "\ud800"), work_asks.prune(float("nan"))):
        with pytest.raises(UsageFault, match="cannot be sent as JSON"):
            send("http://127.0.0.1:1", ask)


def test_patience_grows_and_ends() -> None:
    """Pauses double with chance in them, the server's own word counts, and the end is kept."""
    patience = Patience(until=10.0)
    pauses = [patience.next_pause(0.0) or 0.0 for _ in range(8)]
    assert all(0.0 < one <= 2.0 for one in pauses)
    assert pauses[-1] >= 1.0
    assert patience.next_pause(0.0, 3.0) == 3.0
    assert (patience.next_pause(0.0, 0.0) or 0.0) >= 1.0  # a server that says 0 is not asked without a pause
    assert patience.next_pause(9.5, 1.0) is None


def test_whoever_waits_is_told_for_what() -> None:
    """Once a call, with the fault and how long it will be tried."""
    told = list[str]()
    with moody(AWAY, LOCKED, (200, {"ok": True})) as server, Client(server.url, TOKEN, tell=told.append) as client:
        client.send(work_asks.finish(HELD, work.Outcome.SUCCEEDED, ""))
    assert told == ["The database is away. Trying again for 20 s."]


def test_a_lock_that_lasts_is_told_as_it_was() -> None:
    """When the patience is over the fault of the server is raised, as a local store would raise it."""
    with moody(LOCKED) as server, Client(server.url, TOKEN, patience_s=0) as client:
        with pytest.raises(TryLater, match="locked; nothing was changed"):
            RemoteStore(client).stats()
