"""Who is let in by `kranzq serve`: hosts, origins, credentials, scopes, and that no token is ever shown."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest

from kranzq import work
from kranzq.errors import KranzqError, Refused, UsageFault
from kranzq.model.agents import Scope
from kranzq.server import event_stream
from kranzq.server.routing import Route
from kranzq.server.serving import Options, serve
from kranzq.server.table import ROUTES
from kranzq.wiring import trusting
from tests.laboratory import wait_for
from tests.servers import Served, connected, raw, read_answer, serving

OPEN = {"/healthz", "/readyz", "/v1/session", "/"}
"""Health, the dashboard's own files, and whether there is a session: nothing of anybody's."""
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE")
SECRET = "kqa_" + "s3cr3tS3CR3T" * 3 + "1234567"
assert len(SECRET) == 47


def status(answer: bytes) -> int:
    """The status of what came back."""
    return int(answer.split(b" ", 2)[1])


def get(served: Served, path: str, *lines: str, host: str | None = "", method: str = "GET") -> bytes:
    """A request over TCP with these header lines; by default with the right `Host`."""
    named = served.address if host == "" else host
    head = [
        f"{method} {path} HTTP/1.1",
        *([f"Host: {named}"] if named is not None else []),
        *lines,
        "Connection: close",
    ]
    return raw(served, ("\r\n".join(head) + "\r\n\r\n").encode("latin-1"))


def concrete(route: Route) -> str:
    """A path that the route has."""
    path = route.path
    for name in route.parameters:
        path = path.replace(f"{{{name}}}", "some")
    return path


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "me@127.0.0.1:{port}",
        "",
        None,
    ],
)
@pytest.mark.parametrize("path", ["/v1/work", "/agentmux/work", "/v1/events", "/healthz", "/openapi.json", "/nothing"])
def test_b79_a_foreign_host_is_refused_on_every_path(served: Served, host: str | None, path: str) -> None:
    """A page whose name leads here by a trick of the name server reads nothing, even with the right key."""
    port = served.address.rpartition(":")[2]
    named = "" if host == "" else host
    lines = [f"Authorization: Bearer {served.key}"]
    answer = (
        get(served, path, "Host:", *lines, host=None)
        if named == ""
        else get(served, path, *lines, host=named.format(port=port) if named is not None else None)
    )

    assert status(answer) in {400, 403}
    assert b"items" not in answer


def test_b79_two_hosts_are_refused(served: Served) -> None:
    """Which of them was meant is not guessed."""
    answer = get(served, "/v1/work", "Host: evil.example", f"X-AuthKey: {served.key}")

    assert status(answer) in {400, 403}


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_b79_its_own_names_are_taken(served: Served, name: str) -> None:
    """By address and by name, in any case."""
    port = served.address.rpartition(":")[2]

    assert status(get(served, "/v1/work", f"X-AuthKey: {served.key}", host=f"{name}:{port}")) == 200


def test_b79_the_address_at_which_one_arrives_is_taken(tmp_path: Path) -> None:
    """A server that listens on all addresses goes by the one that was called, and by no other number."""
    with serving(tmp_path, "--listen", "0.0.0.0:0", "--allow-remote") as one:
        port = one.address.rpartition(":")[2]
        one.address = f"127.0.0.2:{port}"
        key, here, beside = f"X-AuthKey: {one.key}", f"127.0.0.2:{port}", f"127.0.0.3:{port}"
        of_pages = [get(one, "/v1/work", f"Origin: http://{page}", key, host=here) for page in (here, beside)]
        assert [status(answer) for answer in of_pages] == [200, 403]
        found = {
            host: status(get(one, "/v1/work", f"X-AuthKey: {one.key}", host=f"{host}:{port}"))
            for host in ("127.0.0.2", "127.0.0.1", "127.0.0.3", "0.0.0.0", "127.0.0.2.evil.example")
        }

    assert found == {
        "127.0.0.2": 200,
        "127.0.0.1": 200,
        "127.0.0.3": 403,
        "0.0.0.0": 403,
        "127.0.0.2.evil.example": 403,
    }


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "https://{own}", "http://{own}.evil.example", ""])
def test_b79_pages_of_other_origins_are_refused(served: Served, origin: str) -> None:
    """A page of another site may send a request; it is not looked at, whatever key it has."""
    said = f"Origin: {origin.format(own=served.address)}"
    lines = (said, f"X-AuthKey: {served.key}")

    assert status(get(served, "/v1/work", *lines)) == 403
    assert status(get(served, "/v1/work", said, "Access-Control-Request-Method: POST", method="OPTIONS")) == 403


def test_b79_its_own_pages_are_taken(served: Served) -> None:
    """The same origin may ask and call."""
    origin = f"Origin: http://{served.address}"

    assert status(get(served, "/v1/work", origin, f"X-AuthKey: {served.key}")) == 200
    assert status(get(served, "/v1/work", origin, "Access-Control-Request-Method: POST", method="OPTIONS")) == 204


def test_b79_no_route_but_health_answers_without_a_credential(served: Served) -> None:
    """Every path of the table, by every method, with nothing and with an empty credential."""
    opened = set()
    with contextlib.closing(served.connection(tcp=True)) as connection:
        for path in sorted({concrete(route) for route in ROUTES} | {"/", "/nothing", "/v1/work/some/"}):
            for method in METHODS:
                for said in ({}, {"Authorization": "Bearer "}, {"X-AuthKey": ""}):
                    connection.request(method, path, headers=dict(said))
                    answer = connection.getresponse()
                    answer.read()
                    if answer.status != 401:
                        opened.add((path, answer.status))

    assert {path for path, _ in opened} <= OPEN
    assert served.ask("DELETE", "/v1/session", tcp=True).status == 401
    assert {code for _, code in opened} <= {200, 204, 405, 503}


@pytest.mark.parametrize(
    "lines",
    [
        "Authorization: Bearer {key}x",
        "Authorization: Bearer {part}",
        "X-AuthKey: k",
        "Authorization: bearer {key}",
        "Authorization: BEARER {key}",
        "Authorization: Basic {key}",
        "Authorization: {key}",
        "Authorization: Bearer  {key}",
        "Authorization: Bearer {key} {key}",
        "Authorization: Bearer {key},{key}",
        "Authorization: Bearer {key}\r\nAuthorization: Bearer {key}",
        "X-AuthKey: {key}\r\nX-AuthKey: {key}",
        "X-AuthKey: {key}\r\nAuthorization: Bearer {other}",
        "X-AuthKey: Bearer {key}",
        "X-AuthKey: \xe9\xff",
        "Authorization: Bearer \xe9\xff",
        "X-AuthKey: {other}",
        "X-Agent-Token: {agent}",
        "Cookie: token={key}",
        "X-AuthKey: null",
    ],
)
def test_b81_an_odd_credential_opens_nothing(served: Served, lines: str) -> None:
    """Each is 401, and none is a fault of the server."""
    token = _agent_once(served)
    said = lines.format(key=served.key, part=served.key[:-1], other=SECRET, agent=token)
    answer = get(served, "/v1/work", *said.split("\r\n"))

    assert status(answer) == 401
    assert b"fault" not in answer


def test_b81_one_credential_in_either_header_opens(served: Served) -> None:
    """The key or an agent's token, as a bearer, as the key, or as both of them when they are the same."""
    for token in (served.key, _agent_once(served)):
        for said in ({"Authorization": f"Bearer {token}"}, {"X-AuthKey": token}):
            assert served.ask("GET", "/v1/work", headers=said, tcp=True).status == 200
        both = {"Authorization": f"Bearer {token}", "X-AuthKey": token}
        assert served.ask("GET", "/v1/work", headers=both, tcp=True).status == 200


def test_the_socket_is_the_operators_and_a_wrong_token_is_refused_there_too(served: Served) -> None:
    """No credential is the operator; a wrong one is a mistake that is said."""
    assert served.ask("GET", "/v1/agent").json["operator"]
    assert served.ask("GET", "/v1/work", token=SECRET).status == 401
    assert served.ask("GET", "/v1/work", headers={"X-AuthKey": ""}).status == 401


@pytest.mark.parametrize("name", ["authkey", "token", "access_token", "key", "api_key", "Token"])
def test_b80_a_token_in_an_address_is_refused(served: Served, name: str) -> None:
    """400 for who is let in, so that the mistake is seen; 401 for who is not."""
    path = f"/v1/work?{name}={SECRET}"

    told = served.ask("GET", path, token=served.key, tcp=True)
    assert (told.status, told.json["code"]) == (400, "token_in_query")
    assert served.ask("GET", path, tcp=True).status == 401
    assert served.ask("GET", f"/v1/work?state={SECRET}", token=served.key, tcp=True).json["code"] == "token_in_query"


def test_a_scope_opens_what_it_says(served: Served) -> None:
    """Who may look may not work, and who may work may not tend."""
    reads = served.agent("scope-read", scopes=(Scope.READ,))
    works = served.agent("scope-work", scopes=(Scope.WORK,))
    operates = served.agent("scope-operate", scopes=(Scope.OPERATE,))

    calls = [("GET", "/v1/work/stats", None), ("POST", "/v1/work", {"title": "a", "payload": "b", "kind": "scope"})]
    calls.append(("POST", "/v1/work/sweep", None))
    found = [[served.ask(*call, token=token).status for call in calls] for token in (reads, works, operates)]
    assert found == [[200, 403, 403], [200, 200, 403], [200, 200, 200]]
    assert served.ask(*calls[1], token=reads).json["code"] == "scope"


def test_an_agents_token_is_that_agent_whatever_else_is_said(served: Served) -> None:
    """Beside its own token another one's changes nothing; beside the operator's key it tells for whom the call is."""
    mine, other = served.agent("own"), served.agent("other")
    attributed = {"X-Agent-Token": other}

    assert served.ask("GET", "/v1/agent", token=mine, headers=attributed, tcp=True).json["name"] == "own"
    told = served.ask("GET", "/v1/agent", token=served.key, headers=attributed, tcp=True).json
    assert (told["name"], told["operator"]) == ("other", True)
    assert served.ask("GET", "/v1/agent", headers=attributed).json["name"] == "other"


def test_an_unknown_attribution_opens_nothing_and_is_counted(served: Served) -> None:
    """It is nobody's, never 401; a claim on `/v1` says then that it needs an agent."""
    before = served.ask("GET", "/v1/identity/fallbacks").json["counters"]["m4.token_unknown"]
    said = {"X-Agent-Token": SECRET}

    assert served.ask("GET", "/v1/agent", token=served.key, headers=said, tcp=True).json["name"] == ""
    told = served.ask("POST", "/v1/work/claim", {}, token=served.key, headers=said, tcp=True)
    assert (told.status, told.json["code"]) == (401, "agent")
    assert served.ask("GET", "/v1/identity/fallbacks").json["counters"]["m4.token_unknown"] == before + 2


def test_b81_a_revoked_token_opens_nothing_more(served: Served) -> None:
    """At once, on every route; and a rotated one opens with its new text."""
    token = served.agent("revoked")
    assert served.ask("GET", "/v1/agent", token=token).status == 200
    with work.open(served.url) as store:
        newer = store.agents.rotate("revoked").token
    assert served.ask("GET", "/v1/agent", token=token).status == 401
    assert served.ask("GET", "/v1/agent", token=newer).status == 200
    with work.open(served.url) as store:
        store.agents.revoke("revoked")

    assert served.ask("GET", "/v1/events", token=newer).status == 401
    assert served.ask("POST", "/v1/work/claim", {"wait_ms": 1}, token=newer).status == 401
    assert served.ask("GET", "/v1/agent", token=newer).status == 401


def lose(served: Served, who: str) -> None:
    """Take a credential away in the way of its kind."""
    if who == "operator":
        trusting.operator_key(served.environ).rotate()
    else:
        with work.open(served.url) as store:
            store.agents.rotate(who) if who == "rotated" else store.agents.revoke(who)


@pytest.mark.parametrize("who", ["revoked", "rotated", "operator"])
def test_b81_who_waits_for_an_item_and_loses_the_token_gets_none(tmp_path: Path, who: str) -> None:
    """The item comes after the token is gone: 401, and the item stays for others."""
    with serving(tmp_path, "--listen", "127.0.0.1:0") as one, contextlib.ExitStack() as stack:
        token = one.agent(who)
        said = {"X-Agent-Token": token} if who == "operator" else {}
        connection = stack.enter_context(contextlib.closing(one.connection(tcp=True)))
        headers = {"Authorization": f"Bearer {one.key if said else token}", "Content-Type": "application/json"} | said
        connection.request("POST", "/v1/work/claim", b'{"wait_ms": 60000}', headers)
        wait_for(lambda: b"kranzq_waiting_claims 1.0" in one.ask("GET", "/metrics").raw, "it waits")
        lose(one, who)
        with work.open(one.url) as store:
            item = store.enqueue(work.NewItem("a", "b")).entry.id
            answer = read_answer(connection)
            left = store.show(item)

    assert (answer.status, left.state.value, left.attempts) == (401, "open", 0)


@pytest.mark.parametrize("who", ["revoked", "rotated", "operator"])
def test_b81_who_listens_and_loses_the_token_is_told_nothing_more(tmp_path: Path, who: str) -> None:
    """The stream ends before the next event of a second later, although it lasts ten minutes otherwise."""
    with serving(tmp_path, "--listen", "127.0.0.1:0") as one:
        token = one.key if who == "operator" else one.agent(who, scopes=(Scope.READ,))
        with connected(one) as connection:
            head = f"GET /v1/events HTTP/1.1\r\nHost: {one.address}\r\nAuthorization: Bearer {token}\r\n\r\n"
            connection.sendall(head.encode())
            got = bytearray()
            while b"event: snapshot" not in got:
                got += connection.recv(65536)
            lose(one, who)
            time.sleep(event_stream.TRUSTED_S)  # so long it may be told of events still
            with work.open(one.url) as store:
                store.enqueue(work.NewItem("a secret", "b"))
            while b"event: bye" not in got:
                part = connection.recv(65536)
                assert part, bytes(got)
                got += part

    assert b"the token is not valid any more" in got
    assert b"a secret" not in got


def test_b81_a_rotated_key_takes_effect_at_once(tmp_path: Path) -> None:
    """The server reads the file again; the old key opens nothing from then on, and a removed one opens nothing."""
    with serving(tmp_path, "--listen", "127.0.0.1:0") as one:
        old = one.key
        first = one.ask("GET", "/v1/agent", token=old, tcp=True).status
        new = trusting.operator_key(one.environ).rotate()
        second = [one.ask("GET", "/v1/agent", token=token, tcp=True).status for token in (old, new)]
        (tmp_path / "state" / "kranzq" / "server.key").write_text("\n")
        third = [one.ask("GET", "/v1/agent", token=token, tcp=True).status for token in (old, new, "")]

    assert (first, second, third) == (200, [401, 200], [401, 401, 401])


@pytest.mark.parametrize("content", [None, "", " ", "\n", "short\n", "kqo_" + "a" * 43 + "\n\n", "\xe9" * 43])
def test_b81_a_key_that_is_none_lets_nothing_start(tmp_path: Path, content: str | None) -> None:
    """An empty key would be equal to a missing header."""
    file = tmp_path / "key"
    if content is not None:
        file.write_text(content)
        file.chmod(0o600)
    options = Options(str(tmp_path), f"sqlite://{tmp_path}/work.db", listen="127.0.0.1:0", key_file=str(file))

    with pytest.raises(Refused):
        serve(options, {"HOME": str(tmp_path)}, lambda _: pytest.fail("it serves"))


def test_b81_a_key_that_others_may_read_lets_nothing_start(tmp_path: Path) -> None:
    """With the cure in the sentence."""
    file = tmp_path / "key"
    file.write_text("kqo_" + "a" * 43)
    file.chmod(0o640)
    options = Options(str(tmp_path), f"sqlite://{tmp_path}/work.db", listen="127.0.0.1:0", key_file=str(file))

    with pytest.raises(Refused, match="chmod"):
        serve(options, {"HOME": str(tmp_path)}, lambda _: pytest.fail("it serves"))


@pytest.mark.parametrize(
    ("listen", "fault"),
    [
        ("0.0.0.0:0", Refused),
        ("[::]:0", Refused),
        ("192.0.2.1:0", Refused),
        ("evil.example:80", UsageFault),
        ("127.0.0.1", UsageFault),
        ("127.0.0.1:x", UsageFault),
        ("127.0.0.1:70000", UsageFault),
        (":80", UsageFault),
    ],
)
def test_b81_an_address_that_others_reach_must_be_meant(tmp_path: Path, listen: str, fault: type[KranzqError]) -> None:
    """Refused without `--allow-remote`, and nothing that a name server decides is taken."""
    options = Options(str(tmp_path), f"sqlite://{tmp_path}/work.db", str(tmp_path / "s"), listen)

    with pytest.raises(fault):
        serve(options, {"HOME": str(tmp_path)}, lambda _: pytest.fail("it serves"))


def test_b80_no_token_is_shown_anywhere(served: Served) -> None:
    """Sent rightly, wrongly, in a query, a path, a body, a cookie, a name: no answer and no log has it again."""
    token = _agent_once(served)
    said = [json.dumps({"title": 1, SECRET: token}), json.dumps({"title": "", "payload": ""}), "{" + SECRET, token]
    answers = [served.ask("POST", "/v1/work", text.encode(), token=token, tcp=True).raw for text in said]
    for text in (token, SECRET, served.key):
        for path in (f"/v1/work?token={text}", f"/v1/work/{text}", f"/{text}", f"/v1/work?cursor={text}"):
            answers.append(served.ask("GET", path, token=served.key, tcp=True).raw)
            answers.append(served.ask("GET", path, token=SECRET, headers={"Cookie": f"key={text}"}, tcp=True).raw)
        answers.append(raw(served, f"GET /{text} HTTP/9.9\r\n\r\n".encode()))
        answers.append(served.ask("POST", f"/v1/work/{text}/complete", {"attempt": 1}, token=token, tcp=True).raw)
    assert served.process is not None
    proc = Path(f"/proc/{served.process.pid}")
    shown = [*answers, served.log.read_bytes(), (proc / "cmdline").read_bytes(), (proc / "environ").read_bytes()]

    for text in (token, SECRET, served.key):
        assert not [one for one in shown if text.encode() in one]


_tokens: dict[str, str] = {}


def _agent_once(served: Served) -> str:
    """One agent's token for all tests that need just any."""
    if served.url not in _tokens:
        _tokens[served.url] = served.agent("anybody")
    return _tokens[served.url]
