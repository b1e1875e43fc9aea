"""Producers' bindings, for whoever reconciles: whose item each mission is, where it is now, and how it ended.

A producer that was killed between its binding and its enqueue leaves a binding that nothing names. When that is older
than its time to live it is an orphan, and may be reclaimed; while an entry, a claim or a run knows the mission, never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from kranzq.dispatch.aside_seen import inbox
from kranzq.dispatch.predecessors import kranz_status
from kranzq.dispatch.sight import LookQueue, distinct
from kranzq.errors import NotFound, Refused
from kranzq.model.checkout import Checkout
from kranzq.model.clock import Clock, SystemClock, rfc3339, seconds_of
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.source import Source
from kranzq.model.state import State
from kranzq.model.whole import parse_whole
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord

TTL_VARIABLE = "KRANZ_CLAIM_TTL"
TTL_S = 120.0
BOUND, ORPHANED = "bound", "orphaned"
_APPROVED = frozenset({None, "approved"})
_KRANZ_ENDED = frozenset({"complete", "failed", "blocked", "abandoned"})
_RANK = (State.CLAIMED, State.QUEUED, State.WAITING, State.INBOX, State.PARKED)


class BindingQueue(LookQueue, Protocol):
    """What tells and ends bindings."""

    def bindings(self, mission: MissionId) -> Mapping[str, Source]:
        """A mission's bindings by what became of them."""
        ...

    def change(self) -> AbstractContextManager[None]:
        """The lock around a change of names."""
        ...

    def cancel_source(self, mission: MissionId) -> bool:
        """Mark a binding as cancelled."""
        ...


@frozen
class Binding:
    """One binding. `state` is `bound`, `returned`, `cancelled` or `orphaned`; `where` is the mission's own state."""

    source: Source
    state: str
    where: State
    last: RunRecord | None
    kranz: str | None

    @property
    def has_ended(self) -> bool:
        """Whether its producer has something to act on: it is bound, and the mission is over."""
        over = self.last is not None and self.last.state == "ended"
        return self.state == BOUND and self.where is State.GONE and (over or self.kranz in _KRANZ_ENDED)

    def to_json(self) -> dict[str, object]:
        """The binding with the documented keys."""
        source, last = self.source, self.last
        outcome = last.outcome.value if last is not None and last.outcome is not None else None
        return {
            "mission": source.mission,
            "producer": source.producer,
            "reference": source.reference,
            "state": self.state,
            "createdAt": rfc3339(source.created_at) if source.created_at else None,
            "missionState": self.where.value,
            "kranzStatus": self.kranz,
            "run": last.run if last is not None else None,
            "outcome": outcome,
            "exitCode": last.exit_code if last is not None else None,
            "endedAt": last.ended_at if last is not None else None,
        }


def time_to_live(environ: Mapping[str, str]) -> float:
    """After how many seconds a binding that nothing names is an orphan."""
    try:
        return float(parse_whole(environ.get(TTL_VARIABLE, "")))
    except ValueError:
        return TTL_S


@dataclass(slots=True)
class Producers:
    """One look at all bindings of a checkout."""

    checkout: Checkout
    queue: BindingQueue
    ttl_s: float = TTL_S
    clock: Clock = field(default_factory=SystemClock)

    def all(self) -> list[Binding]:
        """Every mission's newest binding, by mission: the one that counts, else what became of it."""
        look, found = self._look(), []
        for mission in Runs(self.checkout, self.queue.kranz_fd).missions():
            try:
                sources = self.queue.bindings(mission)
            except Refused:  # a link or a FIFO in a folder's place binds nothing; `check` names it
                continue
            found += [look(mission, state, source) for state, source in list(sources.items())[:1]]
        return found

    def one(self, mission: MissionId) -> Binding:
        """A mission's binding. Raises NotFound."""
        sources = self.queue.bindings(mission)
        for state, source in sources.items():
            return self._look()(mission, state, source)
        raise NotFound(f"Mission {mission} has no producer's binding.", "Make one with: kranzq enqueue --source")

    def orphans(self) -> list[Binding]:
        """What nothing names any more."""
        return [one for one in self.all() if one.state == ORPHANED]

    def reclaim(self, mission: MissionId) -> bool:
        """Mark an orphan as cancelled; False when it is none any more. Looked at again under the lock."""
        with self.queue.change():
            source = self.queue.bindings(mission).get(BOUND)
            if source is None or self._look()(mission, BOUND, source).state != ORPHANED:
                return False
            return self.queue.cancel_source(mission)

    def _look(self) -> Callable[[MissionId, str, Source], Binding]:
        runs, where = Runs(self.checkout, self.queue.kranz_fd), self._states()

        def look(mission: MissionId, state: str, source: Source) -> Binding:
            last, kranz = _since(source, runs.last(mission)), kranz_status(self.queue.kranz_fd, mission)
            place = where.get(mission, State.GONE)
            if (
                state == BOUND
                and (place, last) == (State.GONE, None)
                and not runs.are_hidden(mission)
                and kranz in _APPROVED
                and self._is_old(source)
            ):
                state = ORPHANED
            return Binding(source, state, place, last, kranz)

        return look

    def _states(self) -> dict[str, State]:
        """Where each mission is that has a file anywhere in the queue, a quarantined one among them."""
        found: dict[str, State] = {}
        for place in distinct(self.queue.places()):
            if place.mission not in found or _RANK.index(place.state) < _RANK.index(found[place.mission]):
                found[place.mission] = place.state
        for entry in inbox(self.queue.fd)[0]:
            found.setdefault(entry.mission, State.INBOX)
        for name, _ in self.queue.quarantined():
            mission = name.partition(".json")[0].split("-", 2)[-1]
            found.setdefault(mission, State.QUARANTINED)
        return found

    def _is_old(self, source: Source) -> bool:
        """Whether its time is over; one in the future, or none at all, is left alone."""
        age = self.clock.now() - source.created_at
        return source.created_at > 0 and age >= self.ttl_s


def _since(source: Source, last: RunRecord | None) -> RunRecord | None:
    """A run that was over before the mission was bound is no answer to this binding."""
    ended = seconds_of(last.ended_at) if last is not None else None
    return None if ended is not None and ended < source.created_at else last
