"""Sessions of the dashboard over HTTP: what a cookie opens, from where, until when; and the pages themselves."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq import work
from kranzq.model.agents import Scope
from kranzq.server import pages
from kranzq.server.sessions import LIFE_S, MOST, Sessions, cookie_name
from tests.laboratory import wait_for
from tests.servers import Answer, Served, read_answer, serving

NAMES_SVG = "http://www.w3.org/2000/svg"
"""A name, which nobody looks up."""
SAME = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def behind_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that a proxy stands before, which others call queue.example."""
    words = ("--listen", "127.0.0.1:0", "--host-name", "queue.example")
    with serving(tmp_path_factory.mktemp("tls"), *words) as one:
        yield one


def sign_in(served: Served, token: str, **headers: str) -> str:
    """The cookie as a browser sends it."""
    answer = served.ask("POST", "/v1/session", token=token, headers=headers, tcp=True)
    assert answer.status == 200, answer.raw
    return answer.headers["set-cookie"].partition(";")[0]


def ask(served: Served, method: str, path: str, cookie: str, body: object = None, **headers: str) -> Answer:
    """A request with that cookie; underscores of header names are hyphens."""
    said = {name.replace("_", "-"): text for name, text in headers.items()}
    return served.ask(method, path, body, headers={"Cookie": cookie} | said, tcp=True)


def test_a_cookie_is_for_this_host_and_no_script(served: Served) -> None:
    """HttpOnly, SameSite=Strict, without an end of its own; by its port, for cookies know none."""
    answer = served.ask("POST", "/v1/session", token=served.key, tcp=True)
    name, _, rest = answer.headers["set-cookie"].partition("=")

    assert name == f"kranzq-{served.address.rpartition(':')[2]}"
    assert rest.partition("; ")[2] == "Path=/; HttpOnly; SameSite=Strict"
    assert served.key not in answer.headers["set-cookie"] + answer.raw.decode()
    assert answer.json == {"ok": True, "seconds": LIFE_S}


def test_a_cookie_that_came_by_tls_travels_by_tls_alone(behind_tls: Served) -> None:
    """The page says by its origin that it came so; the name binds it to the host. It opens from that origin."""
    headers = {"Host": "queue.example", "Origin": "https://queue.example"}
    answer = behind_tls.ask("POST", "/v1/session", token=behind_tls.key, headers=headers, tcp=True)
    cookie = answer.headers["set-cookie"]

    assert cookie.startswith("__Host-kranzq-web=")
    assert cookie.endswith("; Path=/; HttpOnly; SameSite=Strict; Secure")
    said = headers | SAME | {"Cookie": cookie.partition(";")[0]}
    assert behind_tls.ask("DELETE", "/v1/session", headers=said, tcp=True).status == 200
    assert behind_tls.ask("GET", "/v1/agent", headers=said, tcp=True).status == 401


@pytest.mark.parametrize(
    ("headers", "reads", "writes"),
    [
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://{own}"}, 200, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200, 200),
        ({"Origin": "http://{own}"}, 200, 200),
        ({"Sec-Fetch-Site": "none"}, 200, 403),
        ({}, 200, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403, 403),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"}, 403, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://{own}"}, 403, 403),
        ({"Origin": "http://localhost:{port}"}, 403, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403, 403),
        ({"Origin": "null"}, 403, 403),
        ({"Sec-Fetch-Site": "odd"}, 403, 403),
    ],
)
def test_b79_a_cookie_opens_pages_of_this_origin_alone(
    served: Served, headers: dict[str, str], reads: int, writes: int
) -> None:
    """Another site, another port, another name of the same host: refused, and nothing is changed."""
    cookie = sign_in(served, served.key)
    port = served.address.rpartition(":")[2]
    said = {name: text.format(own=served.address, port=port) for name, text in headers.items()}
    before = served.ask("GET", "/v1/work/stats").json

    assert ask(served, "GET", "/v1/work", cookie, **said).status == reads
    body = {"title": "t", "payload": "p", "kind": "by-cookie"}
    assert ask(served, "POST", "/v1/work", cookie, body, **said).status == writes
    if writes != 200:
        assert served.ask("GET", "/v1/work/stats").json["states"] == before["states"]


def test_a_page_of_an_allowed_origin_has_no_session(tmp_path: Path) -> None:
    """It may call with a token; the cookie of this server's own pages does not open anything for it."""
    with serving(tmp_path, "--listen", "127.0.0.1:0", "--allow-origin", "http://127.0.0.1:1") as one:
        cookie, origin = sign_in(one, one.key), {"Origin": "http://127.0.0.1:1"}

        assert ask(one, "GET", "/v1/work", cookie, **origin).status == 403
        assert one.ask("GET", "/v1/work", token=one.key, headers=origin, tcp=True).status == 200


@pytest.mark.parametrize(
    "cookie", ["", "{name}=", "{name}=x", "{name}={key}", "other={secret}", "{name}={secret}; {name}=x"]
)
def test_b81_an_odd_cookie_opens_nothing(served: Served, cookie: str) -> None:
    """Neither a token in it, nor one of two."""
    name, _, secret = sign_in(served, served.key).partition("=")
    said = cookie.format(name=name, secret=secret, key=served.key)

    assert ask(served, "GET", "/v1/work", said, **SAME).status == 401


def test_a_session_opens_what_its_token_opens_and_no_longer(served: Served) -> None:
    """Its scope; and after `rotate` and `revoke` nothing, at once."""
    token = served.agent("sitter", scopes=(Scope.READ,))
    cookie = sign_in(served, token)
    assert ask(served, "GET", "/v1/agent", cookie, **SAME).json["name"] == "sitter"
    assert ask(served, "POST", "/v1/work", cookie, {"title": "t", "payload": "p"}, **SAME).status == 403

    with work.open(served.url) as store:
        fresh = store.agents.rotate("sitter").token
        assert ask(served, "GET", "/v1/agent", cookie, **SAME).status == 401
        cookie = sign_in(served, fresh)
        store.agents.revoke("sitter")
    assert ask(served, "GET", "/v1/agent", cookie, **SAME).status == 401


def test_a_token_beside_a_cookie_is_what_counts(served: Served) -> None:
    """As without a cookie, from wherever it comes; and a wrong one is not made right by a cookie."""
    cookie, token = sign_in(served, served.key), served.agent("beside", scopes=(Scope.READ,))

    assert ask(served, "GET", "/v1/agent", cookie, Authorization=f"Bearer {token}").json["name"] == "beside"
    assert ask(served, "GET", "/v1/agent", cookie, Authorization=f"Bearer {token}x", **SAME).status == 401


def test_a_session_begins_with_a_token_only(served: Served) -> None:
    """A cookie does not make another one, nor does the socket; a token that opens nothing makes none."""
    cookie = sign_in(served, served.key)

    assert ask(served, "POST", "/v1/session", cookie, **SAME).status == 400
    assert served.ask("POST", "/v1/session").status == 400
    assert "set-cookie" not in served.ask("POST", "/v1/session", token="kqo_" + "A" * 43, tcp=True).headers
    assert ask(served, "GET", "/v1/session", cookie).json == {"signed_in": True}
    assert served.ask("GET", "/v1/session", tcp=True).json == {"signed_in": False}


def test_a_stream_ends_with_its_session(served: Served) -> None:
    """Whoever signs out in another window hears nothing more in this one."""
    cookie = sign_in(served, served.key)
    with contextlib.closing(served.connection(tcp=True)) as connection:
        connection.request("GET", "/v1/events", headers={"Cookie": cookie} | SAME)
        stream = connection.getresponse()
        assert stream.status == 200
        assert ask(served, "DELETE", "/v1/session", cookie, **SAME).status == 200

        def told_and_over() -> bool:
            served.ask("POST", "/v1/work", {"title": "t", "payload": "p", "kind": "after-the-session"})
            return b"the token is not valid any more" in stream.read1()

        wait_for(told_and_over, "the stream says that it is over")


def test_sessions_end_by_time_and_by_number() -> None:
    """After half a day, whatever happens in them; and the oldest when there are too many."""
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    first = sessions.begin("a")
    assert (found := sessions.find(first)) is not None
    assert "token=***" in repr(found)
    now[0] = LIFE_S
    assert sessions.find(first) is None

    second = sessions.begin("b")
    many = [sessions.begin(f"c{number}") for number in range(MOST)]
    assert sessions.find(second) is None
    assert all(sessions.find(one) is not None for one in many)
    now[0] = 2 * LIFE_S
    fresh = sessions.begin("d")
    assert sessions.find(fresh) is not None
    assert repr(vars(sessions)).count("Session(") == 1, "those that are over make room together"


def test_nobody_signs_others_out_by_signing_in(served: Served) -> None:
    """However often one token begins a session: the one that gives way is its own."""
    cookie = sign_in(served, served.key)
    token = served.agent("eager", scopes=(Scope.READ,))
    first = sign_in(served, token)
    with contextlib.closing(served.connection(tcp=True)) as connection:
        for _ in range(MOST):
            connection.request("POST", "/v1/session", headers={"Authorization": f"Bearer {token}"})
            assert read_answer(connection).status == 200

    assert ask(served, "GET", "/v1/agent", cookie, **SAME).status == 200
    assert ask(served, "GET", "/v1/agent", first, **SAME).status == 401


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "[::1]:8787", "localhost:8787"])
def test_cookies_of_two_servers_on_one_host_have_two_names(host: str) -> None:
    """Browsers give all ports of a host the same ones."""
    assert cookie_name(host, secure=False) == "kranzq-8787"


def test_the_pages_need_no_token_and_hold_nothing(served: Served) -> None:
    """Each file, with the policy by which a browser runs scripts from here alone, never in a frame, never sniffed."""
    for path in ("/", *(f"/ui/{name}" for name in pages.files())):
        answer = served.ask("GET", path, tcp=True)
        assert answer.status == 200
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        policy = answer.headers["content-security-policy"]
        assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy.split("; "))
        assert "unsafe" not in policy
    assert served.ask("GET", "/ui/nothing.js", tcp=True).status == 404
    assert served.ask("GET", "/ui/..%2Fapp.py", tcp=True).status == 404
    assert served.ask("HEAD", "/", tcp=True).headers["content-type"] == "text/html; charset=utf-8"
    assert not [path for path in served.ask("GET", "/openapi.json").json["paths"] if path == "/" or path[:4] == "/ui/"]


def test_no_page_asks_elsewhere_or_makes_markup_of_text() -> None:
    """Nothing of another server, no script or style inside the page, no way from a text to an element."""
    for name, content in pages.files().items():
        text = content.decode()
        assert set(re.findall(r"https?://[^\s\"]+", text)) <= {NAMES_SVG}, name
        for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert forbidden not in text, (name, forbidden)
    index = pages.files()["index.html"].decode()
    assert "<style" not in index
    assert " style=" not in index
    assert index.count("<script") == index.count('<script type="module" src="/ui/')
