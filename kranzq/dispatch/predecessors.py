"""Missions that wait for others: whether those have succeeded, and which requests to wait could never end.

Decided from where a predecessor's entries are and from the records of its runs; where kranz ran it, from the status
that kranz keeps. A predecessor's earlier success does not count while an approval that is older than the waiting one
has yet to run.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable, Sequence

from kranzq.disk.read import ENTRY_LIMIT, Unreadable, open_folder, read_regular
from kranzq.errors import Conflict, NotFound, UsageFault
from kranzq.model.claim import Place
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.json_object import json_object
from kranzq.model.outcome import Outcome, Retire
from kranzq.model.state import State
from kranzq.runs.folders import Runs

COMPLETE = "complete"
_ENDED_BADLY = frozenset({"failed", "abandoned"})


class Verdict(enum.Enum):
    """What may become of an entry that waits for others."""

    SATISFIED = "satisfied"
    SPOILED = "spoiled"
    WAITS = "waits"


@frozen
class Judged:
    """A verdict and the reason for it, half a sentence; empty when nothing is in the way."""

    verdict: Verdict
    why: str = ""


class Predecessors:
    """One look at predecessors; each is examined once. `places` are all places of the queue."""

    def __init__(self, runs: Runs, places: Iterable[Place]) -> None:
        self._runs = runs
        self._places: dict[str, list[Place]] = {}
        for place in places:
            self._places.setdefault(place.mission, []).append(place)
        self._ends: dict[str, Judged] = {}

    def judge(self, after: Iterable[MissionId], number: int) -> Judged:
        """Whether an entry with this number may run: all succeeded; one ended otherwise; or some have yet to end."""
        judged = [self._one(mission, number) for mission in after]
        spoiled = next((one for one in judged if one.verdict is Verdict.SPOILED), None)
        if spoiled is not None:
            return spoiled
        waits = [one.why for one in judged if one.verdict is Verdict.WAITS]
        return Judged(Verdict.WAITS, "; ".join(waits)) if waits else Judged(Verdict.SATISFIED)

    def _one(self, mission: MissionId, number: int) -> Judged:
        there = self._places.get(mission, [])
        first = next((one for one in there if one.state is State.CLAIMED or one.number < number), None)
        if first is not None:
            return _pending(first)
        if mission not in self._ends:
            self._ends[mission] = self._end(mission)
        ended = self._ends[mission]
        # one that was approved later, or came back with a new number, may still mend what has gone wrong
        return _pending(there[0]) if there and ended.verdict is not Verdict.SATISFIED else ended

    def _end(self, mission: MissionId) -> Judged:
        last = self._runs.last(mission)
        if last is not None and last.outcome is Outcome.SUCCEEDED:
            return Judged(Verdict.SATISFIED)
        status = kranz_status(self._runs.kranz, mission)
        if status == COMPLETE:
            return Judged(Verdict.SATISFIED)
        if last is not None and last.outcome is not None and isinstance(last.fate, Retire):
            how = f" ({last.reason})" if last.reason else ""
            return Judged(Verdict.SPOILED, f"{mission} {_PAST[last.outcome]}{how}")
        if last is None and status in _ENDED_BADLY:
            return Judged(Verdict.SPOILED, f"kranz says that {mission} is {status}")
        known = "is not in the queue any more" if last is not None else "was not seen yet"
        return Judged(Verdict.WAITS, f"{mission} {known}")


_PAST = {outcome: outcome.value for outcome in Outcome} | {
    Outcome.CANCELLED: "was cancelled",
    Outcome.DEFERRED: "was deferred",
    Outcome.INTERRUPTED: "was interrupted",
    Outcome.NOT_STARTED: "could not be started",
}


def refuse_endless(
    mission: MissionId,
    after: Sequence[MissionId],
    places: Callable[[MissionId], Iterable[Place]],
    read: Callable[[Place], Entry | None],
) -> None:
    """Raise Conflict when `after` leads back to the mission, through whatever waits in the queue. `change` is held."""
    if mission in after:
        raise UsageFault(f"Mission {mission} cannot wait for itself.", "Name another one with --after.")
    ways: list[tuple[MissionId, ...]] = [(one,) for one in after]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        if way[-1] in seen:
            continue
        seen.add(way[-1])
        for place in places(way[-1]):
            entry = read(place) if place.mission == way[-1] else None
            for following in entry.own.after if entry is not None and entry.own is not None else ():
                if following == mission:
                    chain = " waits for ".join((mission, *way, mission))
                    raise Conflict(
                        f"They would wait for each other for ever: {chain}. Nothing was changed.",
                        f"Leave an --after out, or cancel one of them: kranzq cancel {way[0]}",
                    )
                ways.append((*way, following))


def refuse_unknown(runs: Runs, after: Iterable[MissionId], places: Callable[[MissionId], Iterable[Place]]) -> None:
    """Raise NotFound for a predecessor that was never seen here: mostly a typing mistake."""
    for mission in after:
        there = any(place.mission == mission for place in places(mission))
        if not there and runs.last(mission) is None and kranz_status(runs.kranz, mission) is None:
            raise NotFound(
                f"This checkout knows no mission {mission} to wait for. Nothing was changed.",
                "If it is to come, say so with: --future",
            )


def kranz_status(kranz_fd: int, mission: MissionId) -> str | None:
    """The status that kranz keeps of a mission in `state.json`, or None."""
    fds: list[int] = []
    try:
        parent = kranz_fd
        for name in ("missions", str(mission)):
            parent = open_folder(name, dir_fd=parent)
            fds.append(parent)
        found = read_regular("state.json", dir_fd=parent, limit=ENTRY_LIMIT)
    except (OSError, Unreadable):
        return None
    finally:
        for fd in fds:
            os.close(fd)
    value = json_object(found.data) if found is not None else None
    inner = value.get("mission") if value is not None else None
    status = inner.get("status") if isinstance(inner, dict) else None
    return status if isinstance(status, str) else None


def _pending(place: Place) -> Judged:
    word = "running" if place.state is State.CLAIMED else place.state.value
    return Judged(Verdict.WAITS, f"{place.mission} is {word}")
