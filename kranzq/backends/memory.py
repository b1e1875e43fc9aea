"""A queue of missions in memory: the fake that passes the same suite as the real backends.

It keeps what `kranzq.backend.Backend` promises within one process, for any number of threads; nothing is durable.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kranzq.backend import Accepted, Wanted
from kranzq.errors import ClaimLost, Conflict, UsageFault
from kranzq.events import Cancelled, Ended, Enqueued, PutBack, emit
from kranzq.liveness import judge, me
from kranzq.model.claim import Claim, Holder
from kranzq.model.clock import Clock, SystemClock
from kranzq.model.entry import MAX_PRIORITY, Entry, Own
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Ending, Outcome, Park, fate_name
from kranzq.model.policy import Counters, Limits, decide
from kranzq.model.process import Liveness
from kranzq.model.state import State


@dataclass(slots=True)
class _Row:
    """One entry and what became of it so far."""

    entry: Entry
    state: State = State.QUEUED
    token: str = ""
    holder: Holder | None = None
    claims: int = 0
    interruptions: int = 0


class MemoryBackend:
    """Satisfies `Backend` for missions. A holder without a process of its own is this one."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._rows: list[_Row] = []
        self._number = 0

    def enqueue(self, new: Entry) -> Accepted[Entry, State]:
        """Keep the entry, or say what is there of its mission. Id and number are made here."""
        if not 0 <= new.priority <= MAX_PRIORITY:
            raise UsageFault(f"Priority {new.priority} is not in the range 0 to {MAX_PRIORITY} (0 is the most urgent).")
        own = replace(new.own or Own(id=""), id=os.urandom(16).hex())
        with self._lock:
            there = self._in_the_way(new.mission, again=own.again)
            if there is not None:
                return self._already(there, own)
            entry = replace(new, number=self._number, own=own)
            self._number += 1
            self._rows.append(_Row(entry))
        emit(Enqueued(str(entry.mission), entry.number, entry.priority))
        return Accepted(entry, created=True, state=State.QUEUED)

    def claim(self, holder: Holder, wanted: Wanted | None = None) -> Claim | None:
        """Take the front entry for a holder; one that was made behind a claimed one of its mission waits for it."""
        with self._lock:
            taken = {row.entry.mission for row in self._in(State.CLAIMED)}
            for row in self._in(State.QUEUED):
                mission = row.entry.mission
                if mission in taken or (wanted is not None and wanted.missions and mission not in wanted.missions):
                    continue
                row.state, row.holder, row.token = State.CLAIMED, holder, os.urandom(16).hex()
                row.claims += 1
                return Claim(row.entry, row.token, holder)
        return None

    def finish(self, claim: Claim, outcome: Outcome) -> None:
        """Retire the entry. Raises ClaimLost."""
        with self._lock:
            row = self._held(claim)
            self._rows.remove(row)
        emit(Ended(str(row.entry.mission), row.claims, outcome.value, "retire", ""))

    def release(self, claim: Claim, why: str = "") -> State:
        """Put it back in its old place. Raises ClaimLost."""
        with self._lock:
            row = self._held(claim)
            row.state, row.holder, row.token = State.QUEUED, None, ""
        emit(Ended(str(row.entry.mission), row.claims, Outcome.NEVER_BEGAN.value, "return", why))
        return State.QUEUED

    def cancel(self, mission: MissionId, why: str = "") -> bool:
        """Remove what waits or is parked of a mission; what is claimed stays its holder's."""
        with self._lock:
            gone = [row for row in self._rows if row.entry.mission == mission and row.state is not State.CLAIMED]
            for row in gone:
                self._rows.remove(row)
        if gone:
            emit(Cancelled(str(mission), why))
        return bool(gone)

    def recover(self) -> tuple[str, ...]:
        """Put back, or park, what gone holders left."""
        moved = []
        with self._lock:
            for row in list(self._in(State.CLAIMED)):
                judged = judge((row.holder and row.holder.process) or me())
                if judged.verdict is Liveness.GONE:
                    moved.append((row, self._interrupted(row), judged.evidence))
        for row, word, evidence in moved:
            emit(PutBack(str(row.entry.mission), word, evidence))
        return tuple(f"{row.entry.mission} ({word})" for row, word, _ in moved)

    def entries(self, state: State = State.QUEUED, limit: int | None = None) -> list[Entry]:
        """What is there in a state, in order."""
        with self._lock:
            return [row.entry for row in self._in(state)][:limit]

    def _in(self, state: State) -> Iterator[_Row]:
        rows = [row for row in self._rows if row.state is state]
        return iter(sorted(rows, key=lambda row: (row.entry.priority, row.entry.number)))

    def _in_the_way(self, mission: MissionId, *, again: bool) -> _Row | None:
        for row in self._rows:
            if row.entry.mission != mission and row.entry.mission.lower() == mission.lower():
                raise Conflict(
                    f"Mission {mission} differs only in the case of its letters from {row.entry.mission}.",
                    "Give it another name.",
                )
        mine = [row for row in self._rows if row.entry.mission == mission and not (again and row.token)]
        return min(mine, key=lambda row: row.state is State.CLAIMED, default=None)

    def _already(self, there: _Row, own: Own) -> Accepted[Entry, State]:
        mission = there.entry.mission
        if there.state is State.PARKED:
            raise Conflict(f"Mission {mission} is parked. Nothing was changed.", "Cancel it, then enqueue it anew.")
        if there.entry.own is None or there.entry.own.command != own.command:
            raise Conflict(
                f"Mission {mission} is {there.state.value} with another command. Nothing was changed.",
                "Cancel it first, or enqueue it with again.",
            )
        return Accepted(there.entry, created=False, state=there.state)

    def _held(self, claim: Claim) -> _Row:
        for row in self._rows:
            if row.state is State.CLAIMED and row.token == claim.token:
                return row
        raise ClaimLost(str(claim.entry.mission))

    def _interrupted(self, row: _Row) -> str:
        counters = Counters(interruptions=row.interruptions)
        fate = decide(Ending(Outcome.INTERRUPTED), counters, Limits(), now=self._clock.now(), jitter=lambda: 0.0)
        row.interruptions += 1
        row.state = State.PARKED if isinstance(fate, Park) else State.QUEUED
        row.holder, row.token = None, ""
        return fate_name(fate)
