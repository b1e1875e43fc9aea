"""What a server tells of missions, read and waited for: also what a mission does between two looks."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from kranzq.cli import elsewhere, elsewhere_changing, elsewhere_waiting
from kranzq.cli import elsewhere_told as told
from kranzq.cli.elsewhere_waiting import refuse_inside_mission_of, wait_for_end
from kranzq.cli.main import run as cli
from kranzq.client import LogPiece, RemoteMissions
from kranzq.dispatch.daemon_seen import HiddenDaemon
from kranzq.dispatch.status import Notice, nothing_there
from kranzq.errors import Conflict, InsideMission, NoSuchMission, NotFound, ServerUnreachable
from kranzq.model.ids import MissionId
from kranzq.model.state import State

M = MissionId("m")


def run(number: int, outcome: str | None = "succeeded") -> dict[str, object]:
    """A run as a server tells of it; without an outcome it goes on."""
    ended = dict.fromkeys(("fate", "exitCode", "signal", "startedAt", "endedAt", "tree", "kranzStatus"))
    return {"mission": "m", "run": number, "outcome": outcome, "reason": "so it ended"} | ended


def look(state: str, *runs: dict[str, object], note: str = "") -> dict[str, Any]:
    """A mission as a server shows it."""
    entry = {"mission": "m", "priority": 2, "seq": 1, "state": state, "due": None, "waitingFor": [], "signed": True}
    return {"mission": "m", "state": state, "entries": [entry | {"note": note}], "runs": list(runs)}


class Scene:
    """A server that shows one thing after the other, and then the last one for ever."""

    where = "unix:/s"

    def __init__(self, *looks: dict[str, Any], logs: dict[int, list[LogPiece]] | None = None) -> None:
        self._looks = itertools.chain(looks, itertools.repeat(looks[-1] if looks else {}))
        self._logs = logs or {}

    def one(self, mission: str) -> dict[str, Any]:
        """The next thing."""
        del mission
        return next(self._looks)

    def why(self, mission: str) -> dict[str, Any]:
        """One reason."""
        return {"mission": mission, "state": "gone", "reasons": [{"reason": "r", "text": "it is bad", "clear": ""}]}

    def status(self) -> dict[str, Any]:
        """Where the server's checkout is, and that nobody dispatches there."""
        advice = "Type: kranzq daemon (or once: kranzq drain)"
        counts = dict.fromkeys(("queued", "waiting", "parked", "quarantined", "inbox", "unsigned"), 0)
        told_of = {"daemon": None, "busy": None, "paused": None, **counts}
        return told_of | {"repo": "/srv/c", "warnings": [{"text": "nobody settles it", "advice": advice}]}

    def follow(self, mission: str, *, run: int) -> Iterator[LogPiece]:
        """What a run says; once it says nothing yet."""
        del mission
        if not (parts := self._logs.get(run)):
            self._logs[run] = [LogPiece(run, 0, b"late", 4, is_over=True)]
            raise NotFound("nothing yet")
        return iter(parts)


def missions(*looks: dict[str, Any], logs: dict[int, list[LogPiece]] | None = None) -> RemoteMissions:
    """Such a server's missions."""
    return cast("RemoteMissions", Scene(*looks, logs=logs))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(elsewhere_waiting, "_FIRST_S", 0.0)


GONE = look("gone", run(1, "failed"))


def test_what_a_notice_is_about_comes_through_a_server() -> None:
    """So it is told once there, too; an older server leaves it out."""
    notices = (
        Notice("two are parked", "See why", listed=True),
        Notice("its holder is gone", "", claim="00.json.claimed.7"),
    )
    sent = replace(nothing_there("/srv/c"), warnings=notices).to_json()
    assert told.status(sent).warnings == notices
    assert told.status(sent | {"warnings": [{"text": "t", "advice": "a"}]}).warnings == (Notice("t", "a"),)


@pytest.mark.parametrize(
    ("looks", "after", "state", "number"),
    [
        ([look("gone", run(1), run(2))], None, "ended", 2),
        ([look("claimed", run(1), run(2, None)), look("gone", run(1), run(2))], None, "ended", 2),
        ([look("claimed", run(1)), look("gone", run(1))], None, "ended", 1),
        ([look("queued", run(1)), look("gone", run(1))], None, "removed", None),
        ([look("queued"), GONE, look("waiting", run(1, "failed")), look("gone", run(1), run(2))], None, "ended", 2),
        ([look("gone", run(1))], 1, "removed", None),
        ([look("gone", run(1), run(2))], 1, "ended", 2),
    ],
    ids=["over", "running", "being settled", "taken out", "moving between two looks", "nothing new", "fast"],
)
def test_an_end_is_the_one_that_was_waited_for(
    looks: list[dict[str, Any]], after: int | None, state: str, number: int | None
) -> None:
    """Not one from before, and not a look at an entry that moves."""
    end = wait_for_end(missions(*looks), M, after_run=after)
    assert (end.state, end.run.run if end.run is not None else None) == (state, number)


def test_what_needs_a_person_ends_a_wait() -> None:
    """With the reason; and so does a name that means nothing."""
    parked = wait_for_end(missions(look("queued"), look("parked", note="too often interrupted")), M)
    assert (parked.state, parked.reason) == ("parked", "too often interrupted")
    bad = wait_for_end(missions(look("quarantined")), M)
    assert (bad.state, bad.reason) == ("quarantined", "it is bad")
    with pytest.raises(NoSuchMission):
        wait_for_end(missions(look("gone")), M)
    assert wait_for_end(missions(look("queued")), M, timeout_s=0).state == "timeout"


def test_what_each_run_says_is_shown_once() -> None:
    """Those of before are not, and one that says nothing yet is asked again."""
    shown: list[bytes] = []

    def show(pieces: Iterator[LogPiece], begin: int) -> None:
        assert begin == 0
        shown.extend(piece.data for piece in pieces)

    logs = {1: [LogPiece(1, 0, b"old", 3, is_over=True)], 2: [LogPiece(2, 0, b"two", 3, is_over=True)]}
    looks = (
        look("claimed", run(1), run(2, None)),
        look("queued", run(1), run(2, "failed")),
        look("gone", run(1), run(2, "failed"), run(3)),
    )
    end = wait_for_end(missions(*looks, logs=logs), M, show=show)
    assert (end.run.run if end.run is not None else None, shown) == (3, [b"two", b"late"])


@pytest.mark.parametrize(
    "found",
    [{"state": "sideways"}, {}, {"state": 5}, {"state": "gone", "runs": [{"run": 1}]}, {"state": "gone", "runs": None}],
)
def test_what_a_newer_server_tells_is_no_traceback(found: dict[str, Any]) -> None:
    """A sentence with the server, and how to see what it tells."""
    with pytest.raises(ServerUnreachable, match="another form"):
        wait_for_end(missions(found), M)


def test_a_mission_does_not_wait_for_its_own_checkout() -> None:
    """Through a server of this machine neither; one somewhere else may have the same path."""
    inside = {"KRANZ_CLAIM": "c", "KRANZ_REPO": "/srv/c", "KRANZ_MISSION_ID": "m"}
    with pytest.raises(InsideMission):
        refuse_inside_mission_of(missions(), "wait", inside)
    refuse_inside_mission_of(missions(), "wait", inside | {"KRANZ_REPO": "/srv/d"})
    refuse_inside_mission_of(missions(), "wait", {})
    elsewhere = Scene()
    elsewhere.where = "http://localhost"
    refuse_inside_mission_of(cast("RemoteMissions", elsewhere), "wait", inside)


def test_a_user_of_another_machine_is_not_looked_up_here() -> None:
    """Whose process it is was asked where it runs; a pid means another one here."""
    busy: dict[str, object] = dict.fromkeys(("mission", "since", "run", "lastOutput", "kranzStatus"))
    busy |= {"pid": 1, "user": "eve", "leftovers": [], "text": "somebody"}
    counts = dict.fromkeys(("queued", "waiting", "parked", "quarantined", "inbox", "unsigned"), 0)
    found = told.status({"repo": "/c", "daemon": None, "busy": busy, "paused": None, **counts})
    assert found.busy is not None
    assert (found.busy.user, found.busy.text) == ("eve", "somebody")
    hidden = told.status(
        {"repo": "/c", "daemon": None, "daemonHidden": "a wall", "busy": None, "paused": None, **counts}
    )
    assert hidden.daemon == HiddenDaemon("a wall")
    assert told.names({"entries": [look("claimed")["entries"][0]]}) == {M: State.CLAIMED}


def test_whoever_waits_for_an_end_that_nobody_settles_is_told_once(capfd: pytest.CaptureFixture[str]) -> None:
    """Its dispatcher may be gone: here nobody can settle it, so it is said what to type there."""
    looks = (look("claimed", run(1, None)), look("claimed", run(1, None)), look("gone", run(1)))
    assert wait_for_end(missions(*looks), M).succeeded
    said = capfd.readouterr().err
    assert said.count("may be waited for in vain: nobody settles it.") == 1
    assert "On the machine of the server: Type: kranzq daemon" in said
    wait_for_end(missions(look("queued"), look("gone", run(1))), M)
    assert capfd.readouterr().err == ""


ENTRY: dict[str, Any] = look("queued")["entries"][0] | {"note": "", "advice": ""}
REASON = {"reason": "r", "text": "t", "clear": ""}


@pytest.mark.parametrize(
    ("words", "verb", "found"),
    [
        (["list"], "listing", {"entries": [ENTRY | {"mission": 5}], "bad": [], "quarantined": []}),
        (["list"], "listing", {"entries": [ENTRY | {"waitingFor": [1]}], "bad": [], "quarantined": []}),
        (["list"], "listing", {"entries": [ENTRY | {"note": 1}], "bad": [], "quarantined": []}),
        (["list"], "listing", {"entries": [], "bad": [{"file": 1, "why": ""}], "quarantined": []}),
        (["status"], "status", Scene().status() | {"repo": None}),
        (["status"], "status", Scene().status() | {"next": [1]}),
        (["status"], "status", Scene().status() | {"warnings": [{"text": 1, "advice": ""}]}),
        (["why", "m"], "why", {"mission": None, "state": "queued", "reasons": [REASON]}),
        (["why", "m"], "why", {"mission": "m", "state": "queued", "reasons": [REASON | {"reason": []}]}),
        (["history"], "history", {"runs": [run(1) | {"outcome": 5}]}),
        (["history"], "history", {"runs": [run(1) | {"mission": None}]}),
        (["history", "--json"], "history", {}),
        (["wait", "m"], "one", {}),
        (["wait", "m"], "one", {"state": []}),
        (["enqueue", "m", "--", "true"], "enqueue", {}),
        (["enqueue", "m", "--", "true"], "enqueue", {"outcome": "succeeded"}),
        (
            ["cancel", "m"],
            "cancel",
            {"mission": "../m", "result": "removed", "removed": True, "run": 1, "outcome": None},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_server_tells_in_another_form_is_no_fault_of_ours(
    words: list[str],
    verb: str,
    found: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Of a newer server, or of what is none: a sentence and 6, whatever is shown."""
    serve(monkeypatch, **{verb: lambda *_, **__: found})
    assert cli([words[0], "--server", "unix:/s", *words[1:]]) == 6
    assert "another form than this kranzq knows" in capfd.readouterr().err


def test_json_of_a_newer_server_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As the advice says where it cannot be shown."""
    found = {"runs": [{"mission": "m", "how": "by magic"}]}
    serve(monkeypatch, history=lambda *_, **__: found)
    assert cli(["history", "--json", "--server", "unix:/s"]) == 0
    assert json.loads(capfd.readouterr().out) == found


class Asked:
    """A server with three missions that run; it is away from the call whose number is given."""

    where = "unix:/s"

    def __init__(self, away_at: int = 99) -> None:
        self.calls, self._away_at = list[str](), away_at

    def listing(self, **_: object) -> dict[str, Any]:
        """All three."""
        return {"entries": [look("claimed")["entries"][0] | {"mission": one} for one in ("a", "b", "c")]}

    def cancel(self, mission: str, why: str) -> dict[str, Any]:
        """It is asked to end; `b` cannot be."""
        del why
        self._call(f"cancel {mission}")
        if mission == "b":
            raise Conflict("b is claimed by a stranger")
        return {"mission": mission, "result": "wished", "removed": False, "run": 1, "outcome": None}

    def one(self, mission: str) -> dict[str, Any]:
        """It has ended."""
        self._call(f"look {mission}")
        return look("gone", run(1, "cancelled")) | {"mission": mission}

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if len(self.calls) >= self._away_at:
            raise ServerUnreachable("unix:/s", "it is away")


def test_all_are_asked_before_one_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As in a checkout; one that cannot be cancelled stops no other."""
    asked = Asked()
    serve(monkeypatch, asked)
    assert cli(["cancel", "?", "--yes", "--wait", "--json", "--server", "unix:/s"]) == 1
    said = json.loads(capfd.readouterr().out)
    assert asked.calls == ["cancel a", "cancel b", "cancel c", "look a", "look c"]
    assert [(one["mission"], one["result"]) for one in said["cancelled"]] == [("a", "cancelled"), ("c", "cancelled")]
    assert [one["mission"] for one in said["failed"]] == ["b"]


@pytest.mark.parametrize(
    ("away_at", "results"),
    [(2, [("a", "wished")]), (5, [("a", "cancelled"), ("c", "wished")])],
    ids=["asking", "waiting"],
)
def test_what_had_happened_before_a_server_went_away_is_told(
    away_at: int, results: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Else a program would not know what it has cancelled."""
    serve(monkeypatch, Asked(away_at))
    assert cli(["cancel", "?", "--yes", "--wait", "--json", "--server", "unix:/s"]) == 6
    said = capfd.readouterr()
    assert [(one["mission"], one["result"]) for one in json.loads(said.out)["cancelled"]] == results
    assert "it is away" in said.err


def serve(monkeypatch: pytest.MonkeyPatch, server: object = None, **verbs: object) -> None:
    """Let the command line meet such a server."""
    found = server if server is not None else Scene()
    for name, act in verbs.items():
        setattr(found, name, act)
    for module in (elsewhere, elsewhere_changing):
        monkeypatch.setattr(module, "missions_at", lambda _: contextlib.nullcontext(found))
    monkeypatch.setattr(elsewhere_changing, "_POLL_S", 0.0)
