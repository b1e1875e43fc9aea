"""The application without a connection: faults as answers, and what only a request at the right moment shows."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kranzq import errors, work
from kranzq.errors import KranzqError
from kranzq.model.agents import Scope
from kranzq.model.tokens import new_token
from kranzq.server import telling
from kranzq.server.access import Door
from kranzq.server.app import ON_SOCKET, App
from kranzq.server.errors import TABLE, Form, answer_to
from kranzq.server.routing import Call, Route, Table
from kranzq.server.service import Limits, Service
from kranzq.server.serving import fitting
from kranzq.server.table import ROUTES

SECRET = new_token()
FAULTS = {
    "store": errors.StoreUnreachable("the place", "it is away"),
    "locked": errors.StoreLocked("the place", 5),
    "lost": errors.ItemLost("w-1", 2, "claimed"),
    "unknown": errors.NoSuchItem("w-1"),
    "ours": ValueError(f"a text with {SECRET} in it"),
}


def fails(name: str) -> Any:
    """A handler that meets a fault."""

    def handler(call: Call) -> object:
        raise FAULTS[name]

    return handler


FAILING = tuple(
    Route("GET", f"/{form.value}/{name}", fails(name), "It fails.", Scope.READ, dict, form=form)
    for form in Form
    for name in FAULTS
)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """The application on a database of its own, with routes that fail."""
    service = Service(work.open(f"sqlite://{tmp_path}/work.db"), {}, str(tmp_path))
    yield App(service, Door(service.store.agents, lambda: None), Table((*ROUTES, *FAILING)))
    service.close()


def ask(app: App, method: str, path: str, body: object = None, **scope: Any) -> tuple[int, dict[str, str], Any]:
    """What a request over the socket is answered: status, headers, JSON."""
    raw = json.dumps(body).encode() if body is not None else b""
    headers = [(b"content-type", b"application/json")] if raw else []
    headers += [(name.encode(), text.encode()) for name, text in scope.pop("headers", {}).items()]
    asked = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        ON_SOCKET: True,
    }
    sent: list[dict[str, Any]] = []
    parts = [{"type": "http.request", "body": raw, "more_body": False}]

    async def receive() -> Any:
        return parts.pop() if parts else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app({**asked, "headers": headers, **scope}, receive, send))
    told = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
    return sent[0]["status"], told, json.loads(b"".join(one.get("body", b"") for one in sent[1:]) or b"null")


@pytest.mark.parametrize(
    ("name", "v1", "original", "holder"),
    [
        ("store", (503, "unavailable"), 500, 500),
        ("locked", (503, "later"), 500, 500),
        ("lost", (409, "lost"), 409, 409),
        ("unknown", (404, "not_found"), 404, 409),
        ("ours", (500, "fault"), 500, 500),
    ],
)
def test_a_fault_is_told_as_its_client_expects(
    app: App, name: str, v1: tuple[int, str], original: int, holder: int
) -> None:
    """On `/v1` by status and code; on the original paths by their statuses, with `ok` where they have it."""
    found = [ask(app, "GET", f"/{form.value}/{name}") for form in Form]

    assert (found[0][0], found[0][2]["code"]) == v1
    assert [one[0] for one in found[1:]] == [original, holder]
    assert ["ok" in one[2] for one in found] == [False, False, True]
    assert next(iter(found[2][2])) == "ok"
    assert ("retry-after" in found[0][1]) is (v1[0] == 503)


def test_a_fault_of_ours_is_an_id_that_stands_in_the_log(app: App, capfd: pytest.CaptureFixture[str]) -> None:
    """The client learns nothing but the id; the log has the traceback, without the token in its text."""
    _, _, told = ask(app, "GET", "/v1/ours")
    telling.flush(5)
    log = capfd.readouterr().err
    (name,) = [
        word.rstrip(".")
        for word in told["error"].split()
        if len(word.rstrip(".")) == 8 and word[0] in "0123456789abcdef"
    ]

    assert name in log
    assert "ValueError" in log
    assert "ValueError" not in json.dumps(told)
    assert SECRET not in log + json.dumps(told)


def test_every_error_has_its_answer() -> None:
    """Each class of errors meets a row of the table before the last one, or means that the operation failed."""
    known = {one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, KranzqError)}
    told = {}
    for kind in known:
        fault = kind.__new__(kind)
        KranzqError.__init__(fault, "a sentence", "what to do")
        vars(fault).update(item="w", attempt=1, state="open", cancelled=None)
        told[kind.__name__] = answer_to(fault, Form.V1)

    assert {kind for kind, _, _ in TABLE} <= known
    assert all(body["error"] == "a sentence" and body["hint"] == "what to do" for _, body, _ in told.values())
    assert {name for name, (status, _, _) in told.items() if status == 500} == {"KranzqError"}


def test_nothing_is_done_for_nobody_while_the_store_is_away(app: App) -> None:
    """Whoever shows a token beside the key is told to come again; on the original paths only a name is lost."""

    def away(_: list[str]) -> None:
        raise FAULTS["store"]

    app = App(app.service, Door(cast("Any", SimpleNamespace(by_tokens=away)), lambda: None), Table(ROUTES))
    said = {"headers": {"x-agent-token": new_token()}}
    new = {"title": "a", "payload": "b"}

    assert [ask(app, "POST", path, body, **said)[0] for path, body in (("/v1/work", new), ("/v1/work/claim", {}))] == [
        503,
        503,
    ]
    assert ask(app, "POST", "/agentmux/work", new, **said)[0] == 200
    assert app.service.counted()["m4.token_index_unavailable"] == 3


def test_what_was_claimed_for_a_client_that_hung_up_goes_back(app: App) -> None:
    """It uses up no attempt. With a request id it is kept, and the same id gets it again."""
    item = app.service.store.enqueue(work.NewItem("a", "b")).entry.id
    token = app.service.store.agents.add("worker").token
    gone = {"kranzq.connection": SimpleNamespace(disconnected=True), "headers": {"authorization": f"Bearer {token}"}}
    ask(app, "POST", "/v1/work/claim", {}, **gone)
    after = app.service.store.show(item)
    ask(app, "POST", "/v1/work/claim", {"request_id": "r"}, **gone)
    kept = app.service.store.show(item)
    again = ask(app, "POST", "/v1/work/claim", {"request_id": "r"}, headers=gone["headers"])

    assert (after.state, after.attempts, after.declined) == (work.ItemState.OPEN, 1, 1)
    assert (kept.state, again[2]["attempt"]) == (work.ItemState.CLAIMED, 2)


def test_many_that_were_claimed_for_a_client_that_hung_up_go_back(app: App) -> None:
    """Each of them, and none has used up an attempt."""
    many = [app.service.store.enqueue(work.NewItem("a", "b")).entry.id for _ in range(3)]
    token = app.service.store.agents.add("worker").token
    gone = {"kranzq.connection": SimpleNamespace(disconnected=True), "headers": {"authorization": f"Bearer {token}"}}
    ask(app, "POST", "/v1/work/claim/batch", {"limit": 2}, **gone)
    after = [app.service.store.show(item) for item in many]

    assert [(one.state, one.attempts, one.declined) for one in after] == [
        (work.ItemState.OPEN, 1, 1),
        (work.ItemState.OPEN, 1, 1),
        (work.ItemState.OPEN, 0, 0),
    ]


def test_what_was_claimed_of_one_kind_is_told_though_the_next_one_fails(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault would say that nothing was changed, and its holder would not know what it has."""
    store = app.service.store
    for kind in ("a", "b"):
        store.enqueue(work.NewItem("a title", "b", kind, id=f"item-{kind}"))
    token, claim_many = store.agents.add("worker").token, store.claim_many

    def fails_at_b(holder: Any, wanted: work.Wanted, **said: Any) -> Any:
        if wanted.kind == "b":
            raise FAULTS["locked"]
        return claim_many(holder, wanted, **said)

    monkeypatch.setattr(store, "claim_many", fails_at_b)
    said = {"headers": {"authorization": f"Bearer {token}"}}
    first = ask(app, "POST", "/v1/work/claim/batch", {"limit": 5, "kinds": ["a", "b"]}, **said)
    second = ask(app, "POST", "/v1/work/claim/batch", {"limit": 5, "kinds": ["a", "b"]}, **said)

    assert (first[0], [one["item"]["id"] for one in first[2]["claims"]]) == (200, ["item-a"])
    assert (second[0], second[2]["code"]) == (503, "later")


@pytest.mark.parametrize(("path", "also"), [("/v1/work/claim", {}), ("/v1/work/claim/batch", {"limit": 1})])
@pytest.mark.parametrize("impossible", ["k" * 201, "ü" * 101, "a\0b", "\ud800"])
def test_each_kind_is_judged_before_one_is_asked_for(
    app: App, path: str, also: dict[str, object], impossible: str
) -> None:
    """An item of the first kind is not given on a body whose last kind cannot be."""
    app.service.store.enqueue(work.NewItem("a title", "b", "a", id="item"))
    said = {"headers": {"authorization": f"Bearer {app.service.store.agents.add('worker').token}"}}
    status, _, told = ask(app, "POST", path, {"kinds": ["a", impossible], **also}, **said)

    assert (status, app.service.store.show("item").state) == (400, work.ItemState.OPEN), told


def test_what_is_shown_has_the_types_of_the_page(app: App) -> None:
    """Answers fit the types of their routes, to the last field."""
    token = app.service.store.agents.add("worker", groups=("g",)).token
    said = {"headers": {"x-agent-token": token}}
    item = ask(app, "POST", "/v1/work", {"title": "a", "payload": "b"})[2]["id"]
    calls = [
        ("POST", "/v1/work", {"title": "a", "payload": "b"}),
        ("POST", "/v1/work/batch", {"items": [{"title": "a", "payload": "b"}]}),
        ("POST", "/v1/work/claim", {}),
        ("POST", "/v1/work/claim/batch", {"limit": 2}),
        ("POST", "/v1/work/complete/batch", {"ends": [{"id": "x", "attempt": 1}]}),
        ("GET", "/v1/work", None),
        ("GET", "/v1/work/stats", None),
        ("GET", "/v1/work/unseen", None),
        ("GET", f"/v1/work/{item}", None),
        ("GET", f"/v1/work/{item}/attempts", None),
        ("POST", "/v1/work/sweep", None),
        ("POST", "/v1/work/prune", {"older_than_s": 5}),
        ("GET", "/v1/agent", None),
        ("GET", "/v1/identity/fallbacks", None),
        ("POST", "/v1/agents/resolve", {"name": "worker"}),
        ("POST", "/v1/work-claims", {"topic": "x"}),
        ("GET", "/v1/work-claims", None),
        ("GET", "/v1/work-facts", None),
        ("POST", "/v1/work-claims/release", {}),
    ]
    for method, path, body in calls:
        found = app.table.find(path)
        route = found.route(method) if found is not None else None
        assert route is not None
        status, _, value = ask(app, method, path, body, **said)

        assert (path, status) == (path, 200)
        assert msgspec.to_builtins(msgspec.convert(value, route.answer)) == value


def test_a_table_finds_a_path_before_one_with_parameters() -> None:
    """And refuses two routes for one method and path."""
    routes = [Route("GET", path, cast("Any", None), "", None, dict) for path in ("/a/{id}", "/a/b", "/a/{id}/c")]
    table = Table(routes)

    found = {path: table.find(path) for path in ("/a/b", "/a/x%2Fy", "/a/", "/a/b/c", "/b")}
    assert {path: one and (one.by_method["GET"].path, one.values) for path, one in found.items()} == {
        "/a/b": ("/a/b", ()),
        "/a/x%2Fy": ("/a/{id}", ("x/y",)),
        "/a/": None,
        "/a/b/c": ("/a/{id}/c", ("b",)),
        "/b": None,
    }
    with pytest.raises(ValueError, match="two routes"):
        Table([*routes, routes[0]])


def test_bodies_that_are_read_at_once_share_a_room(tmp_path: Path) -> None:
    """One more than there is room for is told to come later, and what is over makes room again."""
    limits = Limits(bodies=250)
    service = Service(work.open(f"sqlite://{tmp_path}/work.db"), {}, str(tmp_path), limits)
    app = App(service, Door(service.store.agents, lambda: None), Table(ROUTES))
    body = {"title": "a", "payload": "b" * 100}

    found = [ask(app, "POST", "/v1/work", body)[0] for _ in range(4)]
    longer = ask(app, "POST", "/v1/work", body | {"payload": "b" * 300})
    service.close()

    assert found == [200] * 4
    assert (longer[0], longer[2]["code"], app.room.taken) == (503, "later", 0)


def test_connections_are_as_many_as_files_may_be_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """More files are asked for; where there are none, fewer connections are taken."""
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: asked.append(both))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    assert fitting(Limits()).connections == 1000
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 512))

    assert fitting(Limits()).connections == 312
    assert asked == [(1200, 4096), (512, 512)]
