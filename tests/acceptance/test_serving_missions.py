"""Missions over HTTP, health and metrics of a real server: the JSON of the command line, and what watches over it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq import work
from kranzq.model.agents import Scope
from kranzq.testing.items import item
from kranzq.testing.store import HOLDER
from tests.laboratory import REPO, wait_for
from tests.servers import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server in a checkout of its own."""
    folder = tmp_path_factory.mktemp("missions")
    (folder / "checkout" / ".kranz" / "queue").mkdir(parents=True)
    one = Served(folder, cwd=folder / "checkout")
    try:
        one.start()
        yield one
    finally:
        one.kill()


def cli(served: Served, *words: str, code: int = 0) -> str:
    """What a verb of the command line says, of the same user in the same checkout."""
    argv = [sys.executable, "-m", "kranzq", "-C", str(served.cwd), *words]
    done = subprocess.run(
        argv, cwd=REPO, env=served.environ, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def enqueue(served: Served, mission: str, *command: str, **more: Any) -> Any:
    """Approve a mission over HTTP; the answer."""
    answer = served.ask("POST", "/v1/missions", {"mission": mission, "command": list(command)} | more)
    assert answer.status == 200, answer.raw
    return answer.json


def metrics(served: Served) -> dict[str, float]:
    """All samples by their names with labels."""
    answer = served.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = [line for line in answer.raw.decode().splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_mission_lives_over_http(served: Served) -> None:
    """Enqueued, seen, run by a dispatcher, its runs and its output read; each answer is that of the command line."""
    assert enqueue(served, "lives", "sh", "-c", "printf 'one\ntwo\n'; exit 3")["created"]
    listed = served.ask("GET", "/v1/missions").json
    assert listed == json.loads(cli(served, "list", "--json"))
    assert [(one["mission"], one["signed"]) for one in listed["entries"]] == [("lives", True)]
    status = served.ask("GET", "/v1/status").json
    assert status == json.loads(cli(served, "status", "--json"))
    assert served.ask("GET", "/v1/missions/lives/why").json == json.loads(cli(served, "why", "lives", "--json"))
    assert served.ask("GET", "/v1/missions/lives/log").status == 404

    cli(served, "drain", code=1)

    shown = served.ask("GET", "/v1/missions/lives").json
    assert (shown["state"], shown["entries"]) == ("gone", [])
    assert shown["runs"] == json.loads(cli(served, "history", "lives", "--json"))["runs"]
    assert served.ask("GET", "/v1/history?mission=lives").json == {"runs": shown["runs"]}
    assert served.ask("GET", "/v1/history?mission=never-seen&last=1&all=true").json == {"runs": []}
    assert [(run["run"], run["outcome"], run["exitCode"]) for run in shown["runs"]] == [(1, "failed", 3)]
    log = served.ask("GET", "/v1/missions/lives/log")
    assert (log.raw, log.headers["content-type"]) == (b"one\ntwo\n", "application/octet-stream")
    assert (log.headers["x-log-run"], log.headers["x-log-ended"]) == ("1", "true")


def test_a_log_is_read_by_range(served: Served) -> None:
    """From a byte on, a part, the end; behind the end there is nothing yet, and the place to go on is told."""
    enqueue(served, "says", "printf", "0123456789")
    cli(served, "drain")

    def read(range_: str = "", query: str = "") -> tuple[int, bytes, str]:
        headers = {"Range": range_} if range_ else {}
        found = served.ask("GET", f"/v1/missions/says/log{query}", headers=headers)
        return found.status, found.raw if found.status < 300 else b"", found.headers.get("content-range", "")

    assert read("bytes=2-4") == (206, b"234", "bytes 2-4/10")
    assert read("bytes=8-") == (206, b"89", "bytes 8-9/10")
    assert read("bytes=8-99999") == (206, b"89", "bytes 8-9/10")
    assert read("bytes=-3") == (206, b"789", "bytes 7-9/10")
    assert read("bytes=10-") == (416, b"", "bytes */10")
    assert read("bytes=-0")[0] == 416
    assert read(query="?offset=7") == (200, b"789", "")
    assert read(query="?offset=-2&limit=1") == (200, b"8", "")
    assert read(query="?offset=99") == (200, b"", "")
    assert served.ask("GET", "/v1/missions/says/log?offset=4&limit=3").headers["x-log-next"] == "7"
    assert read(query="?limit=1048576") == (200, b"0123456789", "")
    assert {read(query=f"?limit={none}")[0] for none in (0, 1048577)} == {400}


@pytest.mark.parametrize("range_", ["bytes=5-2", "bytes=", "bytes=-", "lines=1-2", "bytes=0-1,3-4", "bytes=a-b", "-1"])
def test_b82_a_range_that_is_none_is_refused(served: Served, range_: str) -> None:
    """B82: with a sentence and 400."""
    enqueue(served, "ranged", "true", again=False)
    cli(served, "drain")

    answer = served.ask("GET", "/v1/missions/ranged/log", headers={"Range": range_})

    assert (answer.status, answer.json["code"]) == (400, "range")


def test_a_mission_is_cancelled(served: Served) -> None:
    """With a reason, and without a body; one that has ended stays as it is."""
    enqueue(served, "unwanted", "true")

    done = served.ask("POST", "/v1/missions/unwanted/cancel", {"why": "no more"})
    again = served.ask("POST", "/v1/missions/unwanted/cancel")

    assert (done.status, done.json["result"]) == (200, "removed")
    assert (again.status, again.json["result"]) == (200, "ended")
    assert served.ask("POST", "/v1/missions/unknown/cancel").status == 404


def test_everything_that_may_be_said_of_a_mission_is_kept(served: Served) -> None:
    """Files, environment, due time, source, order; and the same again changes nothing."""
    said: dict[str, Any] = {
        "priority": 7,
        "timeout": "5m",
        "retries": 2,
        "env": {"WHO": "me"},
        "files": {"prompt.md": "Do it.\n"},
        "not_before": "+2h",
        "source": "tracker:42",
    }
    first = enqueue(served, "full", "true", **said)
    second = enqueue(served, "full", "true", **said)

    assert (first["created"], second["created"]) == (True, False)
    assert (first["priority"], first["state"]) == (7, "waiting")
    folder = Path(served.cwd) / ".kranz" / "missions" / "full" / "input"
    assert (folder / "prompt.md").read_text() == "Do it.\n"
    other = served.ask("POST", "/v1/missions", {"mission": "full", "command": ["false"]})
    assert (other.status, other.json["code"]) == (409, "conflict")
    served.ask("POST", "/v1/missions/full/cancel")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"mission": "../x"}, 400),
        ({"mission": ""}, 400),
        ({"mission": "a" * 200}, 400),
        ({"mission": "x", "priority": 256}, 400),
        ({"mission": "x", "retries": -1}, 400),
        ({"mission": "x", "timeout": "soon"}, 400),
        ({"mission": "x", "not_before": "tomorrow"}, 400),
        ({"mission": "x", "cwd": "../.."}, 400),
        ({"mission": "x", "command": ["a\0b"]}, 400),
        ({"mission": "x", "files": {"../y": "z"}}, 400),
        ({"mission": "x", "source": "no mark"}, 400),
        ({"mission": "x", "after": ["never-seen"]}, 404),
        ({"mission": 7}, 422),
        ({"mission": "x", "unknown": 1}, 422),
        ({"mission": "x", "command": "true"}, 422),
    ],
)
def test_b82_what_cannot_be_approved_is_refused(served: Served, body: object, status: int) -> None:
    """B82: by the rules of the command line, with a sentence, and nothing is queued."""
    answer = served.ask("POST", "/v1/missions", body)

    assert answer.status == status, answer.raw
    assert answer.json["error"]
    assert "x" not in [one["mission"] for one in served.ask("GET", "/v1/missions?all=true").json["entries"]]


@pytest.mark.parametrize("path", ["nope", "..%2F..%2Fetc", "a%00b", "%F0%9F%98%80", "x" * 200, "..", ".claimed."])
def test_a_mission_that_nobody_knows_is_told(served: Served, path: str) -> None:
    """Whatever the name: 404, or 400 for what is no name."""
    for tail in ("", "/why", "/log"):
        assert served.ask("GET", f"/v1/missions/{path}{tail}").status in {400, 404}


@pytest.mark.parametrize("path", ["/v1/missions", "/v1/status", "/v1/missions/m", "/v1/missions/m/log"])
def test_a_checkout_that_is_away_is_told(served: Served, path: str) -> None:
    """It is no empty queue; when it is back the server goes on."""
    away = served.folder / "away"
    served.cwd.rename(away)
    try:
        answer = served.ask("GET", path)
    finally:
        away.rename(served.cwd)

    assert (answer.status, "is gone" in answer.json["error"]) == (404, True)
    assert served.ask("GET", "/v1/missions").status == 200


def test_file_names_that_are_no_text_do_not_break_a_list(served: Served) -> None:
    """Their odd bytes are shown; every strict reader of JSON takes the answer."""
    bad = os.fsencode(served.cwd) + b"/.kranz/queue/002-00000000000000000077-b\xff.json"
    Path(os.fsdecode(bad)).write_bytes(b"{")
    try:
        answer = served.ask("GET", "/v1/missions?all=true")
    finally:
        Path(os.fsdecode(bad)).unlink()

    assert answer.status == 200
    assert any("\\udcff" in one["file"] for one in answer.json["bad"])
    answer.raw.decode("utf-8")


def test_scopes_of_missions(served: Served) -> None:
    """To look needs read; to approve, which may bring any command, and to cancel need operate."""
    reader, worker = served.agent("reader", scopes=(Scope.READ,)), served.agent("worker", scopes=(Scope.WORK,))
    operator = served.agent("operator", scopes=(Scope.OPERATE,))

    assert served.ask("GET", "/v1/missions", token=reader).status == 200
    for token in (reader, worker):
        assert served.ask("POST", "/v1/missions", {"mission": "scoped"}, token=token).status == 403
        assert served.ask("POST", "/v1/missions/scoped/cancel", token=token).status == 403
    assert served.ask("POST", "/v1/missions", {"mission": "scoped", "command": ["true"]}, token=operator).status == 200
    served.ask("POST", "/v1/missions/scoped/cancel")


def test_a_server_outside_of_a_checkout_has_no_missions(tmp_path: Path) -> None:
    """It says so, and what to do; it is ready all the same, and tells events of items."""
    one = Served(tmp_path, cwd=tmp_path)
    try:
        one.start()
        missions, ready = one.ask("GET", "/v1/missions"), one.ask("GET", "/readyz")
        scraped = metrics(one)
    finally:
        one.kill()

    assert missions.status == 404
    assert "serve" in missions.json["hint"]
    assert ready.json["queue"] is None
    assert scraped['kranzq_up{what="store"}'] == 1


def test_health_and_readiness(served: Served) -> None:
    """Alive is one thing; ready tells when store and queue were seen."""
    assert served.ask("GET", "/healthz").json == {"ok": True}
    ready = wait_for(lambda: found if (found := served.ask("GET", "/readyz")).status == 200 else None, "it is ready")
    assert ready is not None

    assert ready.json["ok"] is True
    assert 0 <= ready.json["store"] < 10
    assert 0 <= ready.json["queue"] < 10


def test_what_is_not_seen_is_not_ready(tmp_path: Path) -> None:
    """A server that never saw its store says so, and lives; its words do not tell strangers where that is."""
    (tmp_path / "checkout" / ".kranz" / "queue").mkdir(parents=True)
    one = Served(tmp_path, cwd=tmp_path / "checkout")
    try:
        one.start()
        (tmp_path / "work.db").rename(tmp_path / "moved.db")
        ready, alive, scraped = one.ask("GET", "/readyz"), one.ask("GET", "/healthz"), metrics(one)
        events = one.ask("GET", "/v1/events")
        (tmp_path / "moved.db").rename(tmp_path / "work.db")
        wait_for(lambda: one.ask("GET", "/readyz").status == 200, "it is seen again")
    finally:
        one.kill()

    assert (ready.status, ready.json["code"]) == (503, "not_ready")
    assert str(tmp_path) not in ready.raw.decode()
    assert alive.status == 200
    assert scraped['kranzq_up{what="store"}'] == 0
    assert scraped['kranzq_up{what="queue"}'] == 1
    assert (events.status, events.headers["retry-after"]) == (503, "1")


def test_metrics_tell_what_there_is_and_what_was_done(served: Served) -> None:
    """Depth by state and kind, age, claims and how long they waited, ends, recovery, fallbacks, waits, lag, streams."""
    agent = served.agent("metered")
    before = metrics(served)
    for kind in ("a", "a", "b"):
        assert served.ask("POST", "/v1/work", {"title": "t", "payload": "p", "kind": kind}).status == 200
    claimed = served.ask("POST", "/v1/work/claim", {"kind": "a"}, token=agent).json
    body = {"attempt": claimed["attempt"]}
    assert served.ask("POST", f"/v1/work/{claimed['item']['id']}/complete", body, token=agent).status == 200
    wait_for(lambda: metrics(served).get('kranzq_work_depth{kind="b",state="open"}') == 1, "the depth is told")
    now = metrics(served)

    def grew(name: str) -> float:
        return now[name] - before.get(name, 0)

    assert now['kranzq_work_depth{kind="a",state="open"}'] == 1
    assert now['kranzq_work_items{state="done"}'] >= 1
    assert 0 < now["kranzq_work_oldest_open_seconds"] < 600
    assert grew("kranzq_work_enqueued_total") == 3
    assert grew("kranzq_work_claims_total") == 1
    assert grew("kranzq_work_claim_wait_seconds_count") == 1
    assert grew('kranzq_work_ended_total{state="done"}') == 1
    for name in (
        'kranzq_work_swept_total{what="lapsed"}',
        'kranzq_identity_fallbacks_total{name="m4.token_unknown"}',
        "kranzq_store_waits_total",
        "kranzq_store_wait_seconds_total",
        "kranzq_event_streams",
        "kranzq_loop_lag_seconds_count",
        'kranzq_missions{state="queued"}',
        "process_resident_memory_bytes",
    ):
        assert name in now


def test_metrics_name_routes_and_never_paths(served: Served) -> None:
    """A path holds ids, and may be anything: its template is the label, and none where there is no route."""
    for path in ("/v1/work/secret-id", "/v1/missions/secret-mission", "/secret", "/v1/work/a/b/secret"):
        served.ask("GET", path)
    served.ask("PURGE", "/healthz")
    text = served.ask("GET", "/metrics").raw.decode()

    assert "secret" not in text
    assert "PURGE" not in text
    assert 'kranzq_http_requests_total{method="GET",route="/v1/work/{id}",status="404"}' in text
    assert 'kranzq_http_requests_total{method="(none)",route="(none)",status="404"}' in text


def test_many_kinds_are_counted_together(served: Served) -> None:
    """Kinds are texts that anybody makes up; a metric has a bounded number of them."""
    with work.open(served.url) as store:
        store.enqueue_many([item(kind=f"made-up-{number}") for number in range(200)])
        wait_for(lambda: 'kind="(others)"' in served.ask("GET", "/metrics").raw.decode(), "they are counted")
        shown = re.findall(r"kranzq_work_depth{kind=\"([^\"]*)\"", served.ask("GET", "/metrics").raw.decode())
        for claim in store.claim_many(HOLDER, limit=1000):
            store.finish(work.Held(claim.id, claim.attempt, HOLDER))

    assert len(set(shown)) <= 51


def test_the_page_of_metrics_is_complete(served: Served) -> None:
    """Every metric stands there, and nothing else does."""
    typed = re.findall(r"^# TYPE (kranzq\w*) (\w+)$", served.ask("GET", "/metrics").raw.decode(), re.MULTILINE)
    page = (REPO / "docs/reference/metrics.md").read_text()

    assert sorted(name for name, _ in typed) == sorted(re.findall(r"^\| `(kranzq\w+)` \|", page, re.MULTILINE))
