"""The judge of the storm can fail: each kind of broken history is told, and sound ones are not."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tests.proof.storm_history import (
    DOUBLED,
    ENDED_BY_KILL,
    LIMIT,
    LOST,
    OVERLAPPING,
    STUCK,
    UNEXPLAINED,
    Call,
    Facts,
    Left,
    check,
)

HERE, THERE = "pid:[1]", "pid:[2]"


def call(verb: str, began: int, returned: int, code: int | None = 0, mission: str = "m", **answer: Any) -> Call:
    """A call of a verb."""
    return Call(verb, mission, began, returned, code, answer)


def enqueue(code: int | None = 0, *, mission: str = "m", began: int = 0) -> Call:
    """An enqueue that made an entry, if it answered at all."""
    return call("enqueue", began, began + 1, code, mission, created=code == 0)


def line(what: str, at: int, run: int = 1, mission: str = "m", **facts: Any) -> dict[str, Any]:
    """A line of a mission."""
    me = {"pid": 100 + run, "ticks": 7, "pidNs": HERE, "nonce": f"{mission}{run}", "plan": "plain"}
    return {"what": what, "at": at, "mission": mission, "run": run, **me, **facts}


def ran(began: int, ended: int, run: int = 1, mission: str = "m", code: int = 0) -> list[dict[str, Any]]:
    """The lines of a mission that came to its end."""
    return [line("start", began, run, mission), line("end", ended, run, mission, code=code)]


def record(outcome: str | None, fate: str | None, run: int = 1, mission: str = "m", **facts: Any) -> dict[str, Any]:
    """What `run.json` says of a run."""
    own = {
        "kind": "mission",
        "state": "ended" if outcome else "running",
        "nonce": f"{mission}{run}",
        "entry": {"id": f"{mission}'s"},
        "keeper": {"pid": 200 + run, "startTicks": 9, "pidNs": HERE},
        "process": {"pid": 100 + run, "startTicks": 7},
        "reason": "",
        "signal": None,
        "counted": True,
    }
    return {"mission": mission, "run": run, "outcome": outcome, "fate": fate and {"fate": fate}} | own | facts


def kill(kind: str = "keeper", pid: int = 201, ticks: int = 9, namespace: str = HERE) -> dict[str, Any]:
    """A kill that was written down."""
    return {"what": "kill", "kind": kind, "pid": pid, "ticks": ticks, "pidNs": namespace}


ONCE = Facts([enqueue()], ran(10, 20), runs=[record("succeeded", "retire")])
AGAIN = Facts(
    [enqueue()],
    [line("start", 10), *ran(30, 40, 2)],
    [kill()],
    [record("interrupted", "return"), record("succeeded", "retire", 2)],
)
PARKED = Facts([enqueue(), call("park", 5, 6, state="parked")], left=[Left("m", "m's", "parked", "by hand")])
SOUND = {
    "one run": ONCE,
    "killed, and again": AGAIN,
    "parked by hand": PARKED,
    "still waiting": Facts([enqueue()], left=[Left("m", "m's", "waiting")]),
    "a killed enqueue that made none": Facts([enqueue(None)]),
    "a killed enqueue that made one": dataclasses.replace(ONCE, calls=[enqueue(None)]),
    "its namespace was ended": dataclasses.replace(AGAIN, kills=[kill("namespace", 1, 1)]),
    "deferred, then done": Facts(
        [enqueue()],
        [*ran(10, 20, code=75), *ran(30, 40, 2)],
        [],
        [record("deferred", "rotate"), record("succeeded", "retire", 2)],
    ),
    "cancelled before it began": Facts(
        [enqueue(), call("cancel", 5, 6, result="removed")],
        runs=[record("cancelled", "retire", kind="cancel")],
    ),
    "enqueued anew": Facts(
        [enqueue(), enqueue(began=50)],
        [*ran(10, 20), *ran(60, 70, 2)],
        [],
        [record("succeeded", "retire"), record("succeeded", "retire", 2, entry={"id": "another"})],
    ),
    "its mission was killed": Facts(
        [enqueue()], [line("start", 10)], [kill("mission", 101, 7)], [record("failed", "retire", signal=9)]
    ),
    "its mission was asked to end": Facts(
        [enqueue()],
        [line("start", 10)],
        runs=[record("failed", "retire", signal=15)],
        terms=[kill("mission", 101, 7)],
    ),
    "its keeper was asked to end": dataclasses.replace(
        AGAIN, kills=[], terms=[kill()], runs=[record("interrupted", "return", counted=False), AGAIN.runs[1]]
    ),
    "a daemon was asked to end": dataclasses.replace(
        ONCE, terms=[kill("daemon", 5, 5)], exits=[{"program": "daemon", "code": 0}]
    ),
    "a daemon killed, one refused by the disk": dataclasses.replace(
        ONCE, exits=[{"program": "daemon", "code": ENDED_BY_KILL}, {"program": "daemon", "code": 6}]
    ),
}
WHOM = json.dumps(line("start", 1, 9, "other", plan="unlocked", pidNs=THERE))
BROKEN = {
    "an entry is gone": (LOST, Facts([enqueue()])),
    "one of two lives is gone": (LOST, dataclasses.replace(ONCE, calls=[enqueue(), enqueue(began=2)])),
    "interrupted, and never put back": (
        LOST,
        Facts([enqueue()], [line("start", 10)], [kill()], [record("interrupted", "return")]),
    ),
    "two lives of one enqueue": (
        DOUBLED,
        Facts([enqueue()], ran(10, 20), [], [record("succeeded", "retire")], [Left("m", "another", "parked")]),
    ),
    "a refused enqueue that made one": (DOUBLED, dataclasses.replace(ONCE, calls=[enqueue(75)])),
    "two ends of one life": (
        DOUBLED,
        dataclasses.replace(
            ONCE,
            lines=[*ran(10, 20), *ran(30, 40, 2)],
            runs=[record("succeeded", "retire"), record("succeeded", "retire", 2)],
        ),
    ),
    "a run that began twice": (DOUBLED, dataclasses.replace(ONCE, lines=[line("start", 5), *ran(10, 20)])),
    "a recorded end that was forgotten": (
        DOUBLED,
        dataclasses.replace(
            AGAIN,
            runs=[
                record("interrupted", "return", exit={"endedAt": "then"}),
                record("succeeded", "retire", 2),
            ],
        ),
    ),
    "two that met": (OVERLAPPING, dataclasses.replace(ONCE, lines=[*ONCE.lines, line("overlap", 11, whom="{}")])),
    "a leftover that was seen": (
        OVERLAPPING,
        dataclasses.replace(
            ONCE, lines=[*ONCE.lines, line("overlap", 11, whom=json.dumps(line("start", 1, plan="unlocked")))]
        ),
    ),
    "two at the same time": (
        OVERLAPPING,
        Facts(
            [enqueue(), enqueue(mission="n")],
            [*ran(10, 40), *ran(20, 30, 1, "n")],
            [],
            [record("succeeded", "retire"), record("succeeded", "retire", 1, "n")],
        ),
    ),
    "two in a long one": (
        OVERLAPPING,
        Facts(
            [enqueue(), enqueue(mission="n"), enqueue(mission="o")],
            [*ran(10, 100), *ran(110, 120, 1, "n"), *ran(115, 118, 1, "o")],
            [],
            [record("succeeded", "retire", 1, name) for name in "mno"],
        ),
    ),
    "left in the queue": (STUCK, Facts([enqueue()], left=[Left("m", "m's", "queue")])),
    "a run that never ends": (STUCK, dataclasses.replace(ONCE, runs=[record(None, None), *ONCE.runs])),
    "an interruption that nobody made": (UNEXPLAINED, dataclasses.replace(AGAIN, kills=[kill(pid=999)])),
    "a keeper was asked to end, and it counts": (UNEXPLAINED, dataclasses.replace(AGAIN, kills=[], terms=[kill()])),
    "a success that nobody had": (UNEXPLAINED, dataclasses.replace(ONCE, lines=[line("start", 10)])),
    "a failure that nobody made": (
        UNEXPLAINED,
        dataclasses.replace(ONCE, lines=[line("start", 10)], runs=[record("failed", "retire", signal=9)]),
    ),
    "a run without a record": (UNEXPLAINED, dataclasses.replace(ONCE, lines=[*ONCE.lines, *ran(30, 40, 2)])),
    "a run that never began and ran": (
        UNEXPLAINED,
        dataclasses.replace(AGAIN, runs=[record("never began", "return"), record("succeeded", "retire", 2)]),
    ),
    "interrupted too often": (
        UNEXPLAINED,
        Facts(
            [enqueue()],
            [*(line("start", 10 * run, run) for run in (1, 2, 3, 4)), *ran(90, 99, 5)],
            [kill(pid=200 + run) for run in (1, 2, 3, 4)],
            [
                *(record("interrupted", "return", run) for run in (1, 2, 3, 4)),
                record("succeeded", "retire", 5),
            ],
        ),
    ),
    "parked, and nobody knows why": (UNEXPLAINED, dataclasses.replace(PARKED, calls=[enqueue()])),
    "a fault of the program": (UNEXPLAINED, dataclasses.replace(ONCE, calls=[enqueue(), call("edit", 1, 2, 70)])),
    "a daemon that gave up": (UNEXPLAINED, dataclasses.replace(ONCE, exits=[{"program": "daemon", "code": 0}])),
    "began after its cancel": (
        UNEXPLAINED,
        dataclasses.replace(ONCE, calls=[enqueue(), call("cancel", 5, 6, result="removed")]),
    ),
    "began while it was parked": (
        UNEXPLAINED,
        dataclasses.replace(ONCE, calls=[enqueue(), call("park", 5, 6, state="parked")]),
    ),
}


@pytest.mark.parametrize("facts", [pytest.param(facts, id=name) for name, facts in SOUND.items()])
def test_a_sound_history_is_not_blamed(facts: Facts) -> None:
    """What kills explain is no fault."""
    assert check(facts) == []


@pytest.mark.parametrize(
    ("kind", "facts"), [pytest.param(kind, facts, id=name) for name, (kind, facts) in BROKEN.items()]
)
def test_a_broken_history_is_told(kind: str, facts: Facts) -> None:
    """And as what it is."""
    assert kind in {finding.kind for finding in check(facts)}


def test_what_is_documented_as_not_promised_is_no_fault_and_is_counted() -> None:
    """A leftover that dropped the lock, met by a mission of another pid namespace."""
    facts = dataclasses.replace(ONCE, lines=[*ONCE.lines, line("overlap", 11, whom=WHOM)])

    assert [finding.kind for finding in check(facts)] == [LIMIT]
