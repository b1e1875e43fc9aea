"""Park, unpark, edit, retry and the times of runs over HTTP: the verbs of the command line, decided there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.model.agents import Scope
from kranzq.model.clock import seconds_of
from tests.acceptance.test_serving_missions import cli, enqueue
from tests.servers import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server in a checkout of its own."""
    folder = tmp_path_factory.mktemp("amending")
    (folder / "checkout" / ".kranz" / "queue").mkdir(parents=True)
    one = Served(folder, cwd=folder / "checkout")
    try:
        one.start()
        yield one
    finally:
        one.kill()


def listed(served: Served, mission: str) -> Any:
    """What `list --all --json` says of it."""
    entries = json.loads(cli(served, "list", "--all", "--json"))["entries"]
    return next((one for one in entries if one["mission"] == mission), None)


def test_a_mission_is_parked_and_let_back(served: Served) -> None:
    """With a reason, or with whoever did it; the same again changes nothing and says so."""
    enqueue(served, "held", "true")
    parked = served.ask("POST", "/v1/missions/held/park", {"why": "wait for Ann"})
    again = served.ask("POST", "/v1/missions/held/park")

    assert (parked.json["state"], parked.json["changed"]) == ("parked", True)
    assert (again.json["changed"], again.json["note"]) == (False, "it was parked before")
    assert (listed(served, "held")["state"], listed(served, "held")["note"]) == ("parked", "wait for Ann")
    back = served.ask("POST", "/v1/missions/held/unpark")
    assert (back.json["state"], back.json["changed"], back.json["seq"]) == ("queued", True, parked.json["seq"])
    assert listed(served, "held")["state"] == "queued"
    assert served.ask("POST", "/v1/missions/held/park").json["changed"]
    assert listed(served, "held")["note"].startswith("by ")
    served.ask("POST", "/v1/missions/held/cancel")


def test_a_mission_is_edited(served: Served) -> None:
    """Each thing that the verb changes; what is wrong with it is said as there."""
    enqueue(served, "edited", "true")

    def edit(**said: object) -> Any:
        return served.ask("POST", "/v1/missions/edited/edit", said)

    assert edit(priority=9).json["priority"] == 9
    assert (edit(not_before="+2h").json["state"], listed(served, "edited")["state"]) == ("waiting", "waiting")
    assert (edit(not_before="now", timeout="5m").json["state"], listed(served, "edited")["priority"]) == ("queued", 9)
    assert edit(timeout="none").status == 200
    for wrong in ({}, {"priority": 256}, {"not_before": "soon"}, {"timeout": "soon"}):
        assert edit(**wrong).status == 400
    assert edit(priority="1").status == 422
    served.ask("POST", "/v1/missions/edited/cancel")


def test_a_mission_is_run_once_more(served: Served) -> None:
    """One that has ended; not one that has yet to run, nor one that nobody knows."""
    enqueue(served, "again", "true")
    cli(served, "drain")
    retried = served.ask("POST", "/v1/missions/again/retry")

    assert (retried.json["state"], retried.json["changed"]) == ("queued", True)
    assert not served.ask("POST", "/v1/missions/again/retry").json["changed"]
    assert served.ask("POST", "/v1/missions/unknown/retry").status == 404
    for verb in ("park", "unpark"):
        assert served.ask("POST", f"/v1/missions/unknown/{verb}").status == 404
        assert served.ask("POST", f"/v1/missions/.claimed./{verb}").status == 400
    served.ask("POST", "/v1/missions/again/cancel")
    ended = served.ask("POST", "/v1/missions/again/park")
    assert (ended.status, ended.json["hint"]) == (404, "To run it once more: POST /v1/missions/again/retry")


def test_changing_a_mission_needs_the_scope_that_approves_one(served: Served) -> None:
    """To look at its times does not."""
    enqueue(served, "guarded", "true")
    token = served.agent("worker", scopes=(Scope.WORK,))

    for verb, body in (("park", None), ("unpark", None), ("retry", None), ("edit", {"priority": 1})):
        answer = served.ask("POST", f"/v1/missions/guarded/{verb}", body, token=token)
        assert (answer.status, answer.json["code"]) == (403, "scope")
    assert listed(served, "guarded")["priority"] == 2
    assert served.ask("GET", "/v1/timeline", token=token).status == 200
    served.ask("POST", "/v1/missions/guarded/cancel")


def test_the_times_of_runs(served: Served) -> None:
    """Enqueued, claimed, started, ended, in this order; runs of one entry share the first; newest last."""
    enqueue(served, "timed", "sh", "-c", "exit 1")
    cli(served, "drain", code=1)
    served.ask("POST", "/v1/missions/timed/retry")
    cli(served, "drain", code=1)
    enqueue(served, "timed", "true", not_before="+2h")

    told = served.ask("GET", "/v1/timeline?mission=timed").json
    assert [(one["run"], one["outcome"], one["exitCode"]) for one in told["runs"]] == [
        (1, "failed", 1),
        (2, "failed", 1),
    ]
    for one in told["runs"]:
        times = [seconds_of(one[name]) for name in ("enqueuedAt", "claimedAt", "startedAt", "endedAt")]
        assert None not in times
        assert times == sorted(times, key=lambda at: at or 0)
        assert one["keeper"] > 0
        assert one["survivors"] == []
    (waiting,) = told["waiting"]
    assert waiting["state"] == "waiting"
    assert waiting["due"] is not None
    everything = served.ask("GET", "/v1/timeline?last=1").json
    assert ([one["mission"] for one in everything["runs"]], everything["waiting"]) == (["timed"], [])
    assert served.ask("GET", "/v1/timeline?mission=never-seen").json == {"runs": [], "waiting": []}
    for wrong in ("last=0", "last=1001", "mission=..%2Fx"):
        assert served.ask("GET", f"/v1/timeline?{wrong}").status == 400
    served.ask("POST", "/v1/missions/timed/cancel")


def test_what_an_entry_says_of_its_time_is_no_more_than_shown(served: Served) -> None:
    """A time that is none, or a file that is no entry, is no time; the run is told all the same."""
    enqueue(served, "forged", "true")
    cli(served, "drain")
    kept = Path(served.cwd) / ".kranz/missions/forged/dispatch/001/entry.json"
    whole = json.loads(kept.read_text())
    whole["kranzq"]["enqueuedAt"] = "<b>yesterday</b>"
    for content in (json.dumps(whole), "{"):
        kept.write_text(content)
        (run,) = served.ask("GET", "/v1/timeline?mission=forged").json["runs"]
        assert (run["enqueuedAt"], run["outcome"]) == (None, "succeeded")
