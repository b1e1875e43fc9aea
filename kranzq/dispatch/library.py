"""The mission queue for programs that run missions themselves: `kranzq.backend.Backend` over records and claims.

A claim of theirs writes a run record of kind *library* that names the holder's process, so that recovery can judge it;
each end is recorded before the claim moves. Nothing here starts or watches a mission.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, cast

from kranzq.backend import Accepted, Candidate, Wanted
from kranzq.dispatch.approve import Approver, approve
from kranzq.dispatch.choose import choose
from kranzq.dispatch.evidence import Backstop
from kranzq.dispatch.library_claim import LibraryQueue, Opener, end, take
from kranzq.dispatch.parts import Memory, OpenQueue, Parts
from kranzq.dispatch.recover import Recovery
from kranzq.dispatch.request import Request
from kranzq.dispatch.take_back import take_back
from kranzq.errors import NotFound
from kranzq.events import Cancelled, emit
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claim, Holder
from kranzq.model.clock import seconds_of
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Ending, Outcome, Park, Retire, Return
from kranzq.model.state import State
from kranzq.runner import Prepared
from kranzq.runs.folders import Runs

_TRIES = 100
_MOVED = ("put back", "settled")
"""How the findings of recovery begin that moved a claim; one that somebody else moved is not ours to count."""


@frozen
class Nothing:
    """Nothing was claimed. `lost` tells that others were faster each time, `passed_over` why missions wait."""

    passed_over: dict[str, str]
    lost: bool = False


class TheirOwn:
    """The runner of whoever runs missions without us: there always is a way to run them, and it is never ours."""

    def can_run(self, entry: Entry) -> bool:
        """Whatever may run has a command: the library's user."""
        del entry
        return True

    def prepare(self, checkout: Checkout, entry: Entry, marks: Mapping[str, str]) -> Prepared | Ending:
        """Nothing is started from here."""
        del checkout, entry, marks
        return Ending(Outcome.NOT_STARTED, "a library's user starts missions itself", counted=False)


class MissionBackend:
    """Satisfies `Backend` for missions. Keeps nothing open between calls; threads and processes may have one each."""

    def __init__(
        self,
        parts: Callable[[], Parts],
        opener: Opener,
        approver: Callable[[LibraryQueue], Approver],
        *,
        end_leftovers: bool = True,
    ) -> None:
        self._make_parts = parts
        self.opener = opener
        self._approver = approver
        self._end_leftovers = end_leftovers
        self._memory = Memory()

    @functools.cached_property
    def parts(self) -> Parts:
        """What claims and ends are made with. An enqueue needs none of it, nor the settings that it is made of."""
        return self._make_parts()

    def enqueue(self, new: Entry) -> Accepted[Entry, State]:
        """Queue a mission, signed and durable, or say what is there. Id, number and signature are made here."""
        with self.opener(True) as queue:
            approved = approve(self._approver(queue), _request(new))
        return Accepted(approved.entry, approved.created, approved.state)

    def claim(self, holder: Holder, wanted: Wanted | None = None) -> Claim | None:
        """Take the front entry that may run. The busy lock is not asked: `kranzq.dispatch.guard` combines the two."""
        with self.opener(True) as queue:
            taken = self.claim_in(queue, holder, wanted)
        return taken if isinstance(taken, Claim) else None

    def claim_in(self, queue: LibraryQueue, holder: Holder, wanted: Wanted | None = None) -> Claim | Nothing:
        """As `claim`, in a queue that is open."""
        seen = cast("OpenQueue", _Only(queue, wanted.missions)) if wanted is not None and wanted.missions else queue
        passed: dict[str, str] = {}
        for _ in range(_TRIES):
            chosen, passed = choose(self.parts, seen, self._memory)
            if chosen is None:
                return Nothing(passed)
            if (claim := take(self.parts, queue, holder, chosen)) is not None:
                return claim
        return Nothing(passed, lost=True)

    def finish(self, claim: Claim, outcome: Outcome) -> None:
        """Record the end and retire the entry. Raises ClaimLost."""
        end(self.parts, self.opener, claim, Ending(outcome), Retire())

    def release(self, claim: Claim, why: str = "") -> State:
        """Put it back, uncounted; a wish to cancel retires it instead. Raises ClaimLost."""
        reason = f"released: {why}" if why else "released"
        match end(self.parts, self.opener, claim, Ending(Outcome.NEVER_BEGAN, reason, counted=False), Return()):
            case Park():
                return State.PARKED
            case Retire():
                return State.GONE
            case _:
                return State.QUEUED

    def cancel(self, mission: MissionId, why: str = "") -> bool:
        """Remove what waits or is parked of a mission, whose end is *cancelled*; a claim stays its holder's."""
        try:
            with self.opener(False) as queue, queue.change():
                approver = self._approver(queue)
                removed = bool(take_back(queue, Runs(approver.checkout, queue.kranz_fd), (mission,), approver.who, why))
        except NotFound:
            return False
        if removed:
            emit(Cancelled(str(mission), f"removed: {why}" if why else "removed"))
        return removed

    def recover(self) -> tuple[str, ...]:
        """Put back or settle what gone holders left; the names of the claims that were moved."""
        try:
            opened = self.opener(False)
        except NotFound:
            return ()
        with opened as queue:
            backstop = Backstop(self.parts.clock, remembers=False)
            report = Recovery(self.parts, queue, backstop, kill=self._end_leftovers).recover()
        return tuple(one.claim for one in report.findings if one.action.startswith(_MOVED))

    def entries(self, state: State = State.QUEUED, limit: int | None = None) -> list[Entry]:
        """What is there in a state, in order; nothing on disk is changed."""
        found: list[Entry] = []
        try:
            opened = self.opener(False)
        except NotFound:
            return found
        with opened as queue:
            for place in queue.places():
                if limit is not None and len(found) >= limit:
                    break
                if place.state is state and (entry := queue.read(place)) is not None:
                    found.append(entry)
        return found


class _Only:
    """An open queue as it looks to whoever wants some missions only."""

    def __init__(self, queue: LibraryQueue, missions: Container[str]) -> None:
        self._queue = queue
        self._missions = missions

    def in_order(self) -> Iterator[Candidate]:
        """The wanted entries."""
        return self._queue.in_order(self._missions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def _request(new: Entry) -> Request:
    own = new.own
    if own is None:
        return Request(new.mission, new.priority, ticket=new.ticket)
    return Request(
        new.mission,
        new.priority,
        own.command,
        new.ticket,
        own.timeout_seconds,
        own.retries,
        own.env,
        own.cwd,
        own.again,
        not_before=seconds_of(own.not_before),
        after=own.after,
    )
