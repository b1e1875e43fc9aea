"""What a server tells of its missions, as the values that a look at a checkout gives: shown in the same words.

A newer server may tell what this program does not know: keys are passed over, words are a fault that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kranzq.dispatch.approve import Approved
from kranzq.dispatch.busy_seen import BusySeen
from kranzq.dispatch.cancel import Answer
from kranzq.dispatch.daemon_seen import DaemonSeen, HiddenDaemon
from kranzq.dispatch.listed import Listed, Listing
from kranzq.dispatch.past import Run
from kranzq.dispatch.request import Request
from kranzq.dispatch.status import COUNTED, Notice, Status
from kranzq.dispatch.why import Reason, Why
from kranzq.errors import ServerUnreachable
from kranzq.model.clock import rfc3339, seconds_of
from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.model.state import State

Told = Mapping[str, Any]
T = TypeVar("T")


def read(where: str, make: Callable[[Told], T], told: Told) -> T:
    """The value of an answer. Raises ServerUnreachable for one that this program does not understand."""
    try:
        return make(told)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise ServerUnreachable(
            where, "what it tells of missions has another form than this kranzq knows", "Add --json to see it."
        ) from fault


@dataclass(frozen=True, slots=True)
class BusyElsewhere(BusySeen):
    """Who has a checkout of another machine: whose process it is was asked there."""

    owner: str | None = None

    @property
    def user(self) -> str | None:
        """As it was told."""
        return self.owner


def listing(told: Told) -> Listing:
    """What waits."""
    bad, quarantined = (tuple((one["file"], one["why"]) for one in told[key]) for key in ("bad", "quarantined"))
    return Listing(tuple(map(_listed, told["entries"])), bad, quarantined)


def status(told: Told) -> Status:
    """The state of a checkout."""
    busy = told["busy"]
    return Status(
        told["repo"],
        HiddenDaemon(told["daemonHidden"]) if told.get("daemonHidden") else _daemon(told["daemon"]),
        _busy(busy),
        {name: told[name] for name in COUNTED},
        told["paused"],
        (),
        tuple(told.get("next", ())),
        seconds_of(told.get("due")),
        tuple(told.get("waits", ())),
        tuple(Notice(one["text"], one["advice"]) for one in told.get("warnings", ())),
        busy["kranzStatus"] if busy is not None else None,
    )


def why(told: Told) -> Why:
    """Why a mission does not run."""
    reasons = tuple(Reason(one["reason"], one["text"], one["clear"]) for one in told["reasons"])
    return Why(told["mission"], State(told["state"]), reasons)


def runs(told: Told) -> list[Run]:
    """Runs, newest last."""
    return [_run(one) for one in told["runs"]]


def answer(told: Told) -> Answer:
    """What came of a cancel."""
    outcome = Outcome(told["outcome"]) if told["outcome"] is not None else None
    return Answer(MissionId(told["mission"]), told["result"], bool(told["removed"]), told["run"], outcome)


def approved(told: Told, request: Request) -> tuple[Approved, Request]:
    """What is queued now, and what was asked for as far as it can be compared with that."""
    waits = request.not_before, request.after
    own = Own("", not_before=rfc3339(waits[0]) if waits[0] is not None else None, after=waits[1])
    entry = Entry(MissionId(told["mission"]), told["priority"], told["seq"], own=own)
    return Approved(entry, bool(told["created"]), State(told["state"])), replace(request, not_before=None, after=())


def notes(told: Told) -> list[str]:
    """What holds the entries of a mission up."""
    return [_listed(one).note for one in told["entries"]]


def names(told: Told) -> dict[MissionId, State]:
    """The missions of a listing with the state of each; what runs comes last."""
    found: dict[MissionId, State] = {}
    entries: Sequence[Told] = told["entries"]
    for one in sorted(entries, key=lambda one: one["state"] == State.CLAIMED.value):
        found[MissionId(one["mission"])] = State(one["state"])
    return dict(sorted(found.items(), key=lambda pair: (pair[1] is State.CLAIMED, pair[0])))


def _listed(told: Told) -> Listed:
    due = seconds_of(told["due"])
    return Listed(
        told["mission"],
        told["priority"],
        told["seq"],
        State(told["state"]),
        round(due * 1000) if due is not None else None,
        tuple(told["waitingFor"]),
        told["signed"],
        told.get("note", ""),
        told.get("advice", ""),
    )


def _daemon(told: Told | None) -> DaemonSeen | None:
    if told is None:
        return None
    since, watching, last, version = (told[key] or "" for key in ("since", "watching", "lastScan", "version"))
    return DaemonSeen(told["pid"], since, watching, last, version)


def _busy(told: Told | None) -> BusyElsewhere | None:
    if told is None:
        return None
    return BusyElsewhere(
        "keeper",
        told.get("text", "by somebody"),
        told["mission"],
        told["pid"],
        seconds_of(told["since"]),
        told["run"],
        None,
        seconds_of(told["lastOutput"]),
        tuple(told["leftovers"]),
        owner=told["user"],
    )


def _run(told: Told) -> Run:
    return Run(
        told["mission"],
        told["run"],
        "ended" if told["outcome"] is not None else "running",
        told["outcome"],
        told["fate"],
        told["exitCode"],
        told["signal"],
        told["startedAt"],
        told["endedAt"],
        told.get("reason", ""),
        kranz=told["kranzStatus"],
    )
