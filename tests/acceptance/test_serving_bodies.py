"""What is sent to `kranzq serve`: odd bodies, types, paths and methods get one form of answer, and never 500."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest

from kranzq.server.table import ROUTES
from tests.servers import Answer, Served, all_of, connected, raw, read_answer

ITEM = {"title": "a", "payload": "b", "kind": "bodies"}
WORK = "/v1/work"


def is_fault(answer: Answer) -> bool:
    """Whether it is the one form of a fault, and has the headers that every answer has."""
    told = answer.json
    return (
        {"error", "hint", "code"} <= told.keys()
        and answer.headers["content-type"] == "application/json"
        and answer.headers["cache-control"] == "no-store"
        and answer.headers["x-content-type-options"] == "nosniff"
        and "x-agentmux-srv-version" in answer.headers
    )


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"title": "a", "payload": "b"} x', 400),
        (b'{"title": "a", "payload": "b", "priority": NaN}', 400),
        (b'{"title": "a", "payload": "b", "priority": Infinity}', 400),
        (b'{"title": "a", "title": "c", "payload": "b"}', 400),
        (b'{"title": "a", "payload": "b", "ti\\u0074le": "c"}', 400),
        (b'{"title": "\xff", "payload": "b"}', 400),
        (b'{"title": "\\ud800", "payload": "b"}', 400),
        (b'{"title": "a\\u0000", "payload": "b"}', 400),
        (b"\xef\xbb\xbf{}", 400),
        (b"[" * 100_000, 422),
        (b'{"title": "a", "payload": "b", "x": ' + b"[" * 100_000, 422),
        (b'{"title": "a", "payload": "b", "priority": ' + b"9" * 5000 + b"}", 400),
        (b'{"title": "a", "payload": "b", "priority": 9223372036854775808}', 400),
        (b'{"title": "a", "payload": "b", "priority": 1.5}', 422),
        (b'{"title": "a", "payload": "b", "priority": 1e400}', 400),
        (b'{"title": "a", "payload": "b", "priority": true}', 422),
        (b'{"title": "a", "payload": "b", "max_attempts": 0}', 400),
        (b'{"title": "a", "payload": "b", "not_before": 17000000}', 400),
        (b'{"title": "a", "payload": "b", "not_before": -1}', 400),
        (b'{"title": "a", "payload": "b", "unknown": 1}', 422),
        (b'{"title": "a", "payload": "b", "target_agent": "x", "target_group": "y"}', 400),
        (b'{"title": " ", "payload": "b"}', 400),
        (b'{"title": "a", "payload": ""}', 400),
        (b'{"title": "a"}', 422),
        (b'{"title": null, "payload": "b"}', 422),
        (b"[]", 422),
        (b"null", 422),
        (b'"text"', 422),
        (b"{}", 422),
        (json.dumps(ITEM | {"title": "t" * 1025}).encode(), 400),
        (json.dumps(ITEM | {"payload": "p" * (1024 * 1024 + 1)}).encode(), 400),
        (json.dumps(ITEM | {"id": "i" * 201}).encode(), 400),
    ],
)
def test_b82_an_odd_body_is_refused_in_one_form(served: Served, sent: bytes, code: int) -> None:
    """400 for what is no JSON or out of range, 422 for a wrong shape; nothing is enqueued."""
    answer = served.ask("POST", WORK, sent, headers={"Content-Type": "application/json"})

    assert (answer.status, is_fault(answer)) == (code, True)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON;charset=UTF-8", 200),
        ("application/json; charset=latin-1", 415),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/json, text/plain", 415),
        ("text/json", 415),
        ("", 415),
    ],
)
def test_b82_a_body_must_say_that_it_is_json(served: Served, kind: str, code: int) -> None:
    """What a page of another site may send without asking is not looked at."""
    assert served.ask("POST", WORK, ITEM, headers={"Content-Type": kind}).status == code


def test_b82_an_optional_body_is_optional(served: Served) -> None:
    """None, an empty one with a type, `{}` and a reason all cancel; what is no object is refused."""
    name = ""
    for sent, said in ((None, {}), (b"", {"Content-Type": "application/json"}), ({}, {}), ({"reason": "why"}, {})):
        name = served.ask("POST", WORK, ITEM).json["id"]
        assert served.ask("DELETE", f"{WORK}/{name}", sent, headers=said).json == {"ok": True, "cancelled": True}
        assert served.ask("DELETE", f"/agentmux/work/{name}", sent, headers=said).status == 409

    assert served.ask("DELETE", f"{WORK}/{name}", []).status == 422
    assert served.ask("DELETE", f"{WORK}/{name}", b"null").status == 422
    assert served.ask("DELETE", f"{WORK}/{name}", b"x", headers={"Content-Type": "text/plain"}).status == 415


def test_b82_ids_may_be_anything_that_is_a_text(served: Served) -> None:
    """Quoted slashes, dots, signs and letters of all kinds are part of an id; an odd one is 404 or 400."""
    for name, quoted in (
        ("a/b", "a%2Fb"),
        ("..", "%2E%2E"),
        ("ü?#", "%C3%BC%3F%23"),
        ("a b", "a%20b"),
        ("%41", "%2541"),
    ):
        assert served.ask("POST", WORK, ITEM | {"id": name}).status == 200
        assert served.ask("GET", f"{WORK}/{quoted}").json["id"] == name
        assert served.ask("DELETE", f"{WORK}/{quoted}").status == 200
    for quoted, code in (("nothing", 404), ("%00", 400), ("x" * 300, 400), ("%FF", 404), ("", 404), ("a/b/c/d", 404)):
        answer = served.ask("GET", f"{WORK}/{quoted}")
        assert (quoted, answer.status, is_fault(answer)) == (quoted, code, True)


def test_b82_a_wrong_method_is_told_the_right_ones(served: Served) -> None:
    """405 with every method that the path takes, on every path of the table; `HEAD` is a `GET` without its body."""
    by_path: dict[str, set[str]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path.replace("{", "").replace("}", ""), set()).add(route.method)
    with contextlib.closing(served.connection()) as connection:
        for path, methods in by_path.items():
            for method in ("PUT", "PATCH", "TRACE", *({"GET", "POST", "DELETE"} - methods)):
                connection.request(method, path)
                answer = read_answer(connection)
                allowed = set(answer.headers["allow"].split(", "))
                assert (path, method, answer.status, allowed - {"HEAD", "OPTIONS"}) == (path, method, 405, methods)
    head = served.ask("HEAD", "/v1/work/stats")
    assert (head.status, head.raw) == (200, b"")


def test_b82_queries_are_as_strict_as_bodies(served: Served) -> None:
    """Unknown names, things said twice, and what is no number, are told; the original paths ignore unknown names."""
    wrong = ("limit=x", "limit=1.5", "state=opn", "what=1", "limit=1&limit=2", "cursor=x", "limit=", "%ff=1")

    found = {query: served.ask("GET", f"{WORK}?{query}") for query in wrong}
    found["run=null"] = served.ask("GET", "/v1/missions/some/log?run=null")
    assert {answer.status for answer in found.values()} <= {400, 422}
    assert all(is_fault(answer) for answer in found.values())
    assert served.ask("GET", f"{WORK}?limit=0").status == served.ask("GET", f"{WORK}?limit=-5&state=").status == 200
    assert served.ask("GET", f"{WORK}?{'x' * 9000}").status == 414
    assert served.ask("GET", "/agentmux/work?what=1&state=nothing").json == {"items": []}
    assert served.ask("GET", "/agentmux/work?limit=x").status == 422


def test_a_body_is_limited_by_the_bytes_that_arrive(served: Served) -> None:
    """A length that is announced is refused at once, one that is not when it has come; nothing is kept of either."""
    most = 8 * 1024 * 1024
    head = b"POST /v1/work HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

    announced = raw(served, head + b"Content-Length: %d\r\n\r\n{" % (most + 1), tcp=False)
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    with connected(served, tcp=False) as connection:
        connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for _ in range(most // 0x10000 + 1):
                connection.sendall(chunk)
        unannounced = all_of(connection)

    assert announced.startswith(b"HTTP/1.1 413")
    assert unannounced.startswith(b"HTTP/1.1 413")
    assert b'"code":"long"' in unannounced


def test_who_sends_far_too_much_reads_that_it_is(served: Served) -> None:
    """A client that looks for its answer when it has sent everything finds it."""
    sent = b" " * (4 * 8 * 1024 * 1024)

    assert served.ask("POST", WORK, sent).status == 413


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /v1/work HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/work HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/work HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"GET /v1/work HTTP/1.1\r\nHost: x\r\nX-A\xff\x00: y\r\n\r\n",
        b"GET /v1/work HTTP/1.1\r\nHost: x\r\n folded: y\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_no_http_is_told_so(served: Served, sent: bytes) -> None:
    """With the same form as every other fault, and the connection ends."""
    answer = raw(served, sent, tcp=False)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body).keys() >= {"error", "code"}


def test_a_websocket_is_not_opened(served: Served) -> None:
    """There is none: the request is answered like any other, and the connection ends, for what follows is no HTTP."""
    lines = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
    answer = raw(served, b"GET /v1/agent HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n\x81\x05", tcp=False)

    assert answer.startswith(b"HTTP/1.1 200")


def test_requests_in_a_row_are_answered_in_order(served: Served) -> None:
    """A client that sends three at once gets three answers."""
    sent = b"".join(
        b"GET /v1/work/%s HTTP/1.1\r\nHost: x\r\n\r\n" % name for name in (b"stats", b"nothing1", b"unseen")
    )
    last = b"GET /v1/agent HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    found = re.findall(rb"HTTP/1.1 (\d+)", raw(served, sent + last, tcp=False))
    assert found == [b"200", b"404", b"200", b"200"]


@pytest.mark.parametrize("text", ["<img src=x onerror=1>", "</script>", "a\r\nX-Evil: 1", "\u202eevil\u2066", "'\"><"])
def test_b84_texts_come_back_as_texts(served: Served, text: str) -> None:
    """Whatever a title, name or reason holds stays inside its JSON, and no header is made of it."""
    made = served.ask("POST", WORK, ITEM | {"title": text, "payload": text, "target_agent": text})
    named = {"title": made.json["item"]["title"], "target_agent": made.json["item"]["target_agent"]}
    answers: list[Answer] = [
        made,
        served.ask("GET", f"{WORK}?limit=500"),
        served.ask("POST", "/v1/agents/resolve", {"name": text}),
        served.ask("POST", "/v1/work", ITEM | {"unknown": text}),
        served.ask("DELETE", f"{WORK}/{made.json['id']}", {"reason": text}),
    ]

    assert named == {"title": text, "target_agent": text}
    assert not [one for one in answers if "x-evil" in one.headers or one.headers["content-type"] != "application/json"]


def test_b82_a_holder_is_told_apart_from_a_stranger(served: Served) -> None:
    """A stale fence is 409 with what became of the item, an unknown id 404, and a cancelled one says so."""
    token = served.agent("holder")
    name = served.ask("POST", WORK, ITEM | {"kind": "holder"}).json["id"]
    assert served.ask("POST", f"{WORK}/claim", {"kind": "holder"}, token=token).json["attempt"] == 1

    def calls(item: str, attempt: int) -> list[tuple[int, Any]]:
        verbs = ("heartbeat", "release", "complete")
        told = [served.ask("POST", f"{WORK}/{item}/{verb}", {"attempt": attempt}, token=token) for verb in verbs]
        return [(one.status, one.json["code"]) for one in told]

    assert calls(name, 2) == [(409, "lost")] * 3
    assert calls(name, -1) == calls(name, 2**70) == [(400, "usage")] * 3
    assert calls("nothing", 1) == [(404, "not_found")] * 3
    served.ask("DELETE", f"{WORK}/{name}", {"reason": "no longer needed"})
    gone = served.ask("POST", f"{WORK}/{name}/heartbeat", {"attempt": 1}, token=token).json
    assert (gone["code"], gone["cancelled"], gone["state"]) == ("cancelled", "no longer needed", "cancelled")
