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
from kranzq.errors import BadMissionId, ServerUnreachable
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
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, BadMissionId) as fault:
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
    bad, quarantined = (
        tuple((_text(one["file"]), _text(one["why"])) for one in told[key]) for key in ("bad", "quarantined")
    )
    return Listing(tuple(map(_listed, told["entries"])), bad, quarantined)


def status(told: Told) -> Status:
    """The state of a checkout."""
    busy = told["busy"]
    return Status(
        _text(told["repo"]),
        HiddenDaemon(_text(told["daemonHidden"])) if told.get("daemonHidden") else _daemon(told["daemon"]),
        _busy(busy),
        {name: _number(told[name]) for name in COUNTED},
        _text_or_none(told["paused"]),
        (),
        _texts(told.get("next", [])),
        seconds_of(told.get("due")),
        _texts(told.get("waits", [])),
        tuple(map(_notice, told.get("warnings", ()))),
        _text_or_none(busy["kranzStatus"]) if busy is not None else None,
    )


def why(told: Told) -> Why:
    """Why a mission does not run."""
    reasons = tuple(Reason(*(_text(one[key]) for key in ("reason", "text", "clear"))) for one in told["reasons"])
    return Why(_text(told["mission"]), state(told), reasons)


def state(told: Told) -> State:
    """Where a mission is."""
    return State(told["state"])


def runs(told: Told) -> list[Run]:
    """Runs, newest last."""
    return [_run(one) for one in told["runs"]]


def outcome_in(told: Told, run: int | None) -> Outcome | None:
    """How one of a mission's runs ended; None without a run or an end."""
    found = next((one.outcome for one in runs(told) if one.run == run), None)
    return Outcome(found) if found is not None else None


def answer(told: Told) -> Answer:
    """What came of a cancel."""
    outcome = Outcome(told["outcome"]) if told["outcome"] is not None else None
    mission, result, run = MissionId(_text(told["mission"])), _text(told["result"]), _number_or_none(told["run"])
    return Answer(mission, result, bool(told["removed"]), run, outcome)


def approved(told: Told, request: Request) -> tuple[Approved, Request]:
    """What is queued now, and what was asked for as far as it can be compared with that."""
    waits = request.not_before, request.after
    own = Own("", not_before=rfc3339(waits[0]) if waits[0] is not None else None, after=waits[1])
    entry = Entry(MissionId(_text(told["mission"])), _number(told["priority"]), _number(told["seq"]), own=own)
    return Approved(entry, bool(told["created"]), state(told)), replace(request, not_before=None, after=())


def notes(told: Told) -> list[str]:
    """What holds the entries of a mission up."""
    return [_listed(one).note for one in told["entries"]]


def names(told: Told) -> dict[MissionId, State]:
    """The missions of a listing with the state of each; what runs comes last."""
    found: dict[MissionId, State] = {}
    entries: Sequence[Told] = told["entries"]
    for one in sorted(entries, key=lambda one: one["state"] == State.CLAIMED.value):
        found[MissionId(_text(one["mission"]))] = state(one)
    return dict(sorted(found.items(), key=lambda pair: (pair[1] is State.CLAIMED, pair[0])))


def _listed(told: Told) -> Listed:
    due = seconds_of(told["due"])
    return Listed(
        _text(told["mission"]),
        _number(told["priority"]),
        _number_or_none(told["seq"]),
        state(told),
        round(due * 1000) if due is not None else None,
        _texts(told["waitingFor"]),
        told["signed"],
        _text(told.get("note", "")),
        _text(told.get("advice", "")),
    )


def _notice(told: Told) -> Notice:
    return Notice(
        _text(told["text"]), _text(told["advice"]), told.get("listed") is True, _text_or_none(told.get("claim"))
    )


def _daemon(told: Told | None) -> DaemonSeen | None:
    if told is None:
        return None
    since, watching, last, version = (
        _text_or_none(told[key]) or "" for key in ("since", "watching", "lastScan", "version")
    )
    return DaemonSeen(_number(told["pid"]), since, watching, last, version)


def _busy(told: Told | None) -> BusyElsewhere | None:
    if told is None:
        return None
    return BusyElsewhere(
        "keeper",
        _text(told.get("text", "by somebody")),
        _text_or_none(told["mission"]),
        _number_or_none(told["pid"]),
        seconds_of(told["since"]),
        _number_or_none(told["run"]),
        None,
        seconds_of(told["lastOutput"]),
        tuple(map(_number, told["leftovers"])),
        owner=_text_or_none(told["user"]),
    )


def _run(told: Told) -> Run:
    return Run(
        _text(told["mission"]),
        _number(told["run"]),
        "ended" if told["outcome"] is not None else "running",
        _text_or_none(told["outcome"]),
        _text_or_none(told["fate"]),
        _number_or_none(told["exitCode"]),
        _number_or_none(told["signal"]),
        _text_or_none(told["startedAt"]),
        _text_or_none(told["endedAt"]),
        _text(told.get("reason", "")),
        kranz=_text_or_none(told["kranzStatus"]),
    )


def _text(value: object) -> str:
    """Raises TypeError for what is no text, as the next ones do for what they are not."""
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is no text")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise TypeError(f"{type(values).__name__} is no list")
    return tuple(map(_text, values))


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} is no number")
    return value


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)
