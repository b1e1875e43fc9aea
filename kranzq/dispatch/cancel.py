"""Taking an approval back: what waits is removed, what runs gets a wish that its keeper carries out.

Under the lock around a change of names, so an entry is met in exactly one place. It works with no dispatcher alive: a
keeper reads wishes by itself, and what a killed keeper left is recovered here.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from kranzq.disk import atomic
from kranzq.dispatch.evidence import Backstop
from kranzq.dispatch.item_seen import still_working
from kranzq.dispatch.parts import OpenQueue, Parts
from kranzq.dispatch.recover import Recovery
from kranzq.dispatch.take_back import WithdrawQueue, take_back
from kranzq.dispatch.unattended import is_gone, settle_claims
from kranzq.errors import Conflict, KranzqError, NoSuchMission, QueueLocked
from kranzq.events import Cancelled, emit
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claimed
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.model.state import State
from kranzq.runs.folder import CANCEL
from kranzq.runs.folders import Runs

_TRIES = 5
_POLL_S = 0.05
_BATCH = 64


class CancelQueue(OpenQueue, WithdrawQueue, Protocol):
    """What cancelling asks of an open queue."""


@frozen
class Canceller:
    """Who cancels, and where. `parts` makes what settling and recovering need; only called for a mission that runs."""

    checkout: Checkout
    queue: CancelQueue
    who: str
    parts: Callable[[], Parts]

    @property
    def runs(self) -> Runs:
        """The run folders below the open `.kranz`."""
        return Runs(self.checkout, self.queue.kranz_fd)


@frozen
class Answer:
    """What came of it: `removed`, `wished`, `cancelled` (the run has ended so) or `ended` (by itself, or before).

    `removed` tells besides that an entry that waited was removed.
    """

    mission: MissionId
    result: str
    removed: bool = False
    run: int | None = None
    outcome: Outcome | None = None

    def to_json(self) -> dict[str, object]:
        """The answer with the documented keys."""
        outcome = self.outcome.value if self.outcome is not None else None
        shown = {"mission": self.mission, "result": self.result, "removed": self.removed}
        return shown | {"run": self.run, "outcome": outcome}


def cancel(one: Canceller, mission: MissionId, why: str, *, wait: bool) -> Answer:
    """Take the approval of a mission back. Raises NoSuchMission, and Conflict for a claim that no record names."""
    settle_claims(one.parts, one.queue, mission)
    removed, wished = False, False
    for _ in range(_TRIES):
        taken, runs = _once(one, mission, why)
        removed, wished = removed or taken, wished or bool(runs)
        if not _recover(one, mission):
            break
    _refuse_unrecorded(one, mission)
    if wait and wished:
        _until_gone(one, mission)
    return _answer(one, mission, removed=removed, wished=wished)


def is_pattern(text: str) -> bool:
    """Whether a text means more than one mission: no id has a wildcard in it."""
    return any(mark in text for mark in "*?[")


def matching(one: Canceller, pattern: str) -> dict[MissionId, State]:
    """The missions in the queue that match a shell pattern, with the state of each; what runs comes last."""
    dropped = one.queue.dropped_missions()
    found = {mission: State.INBOX for mission in dropped if fnmatchcase(mission, pattern)}
    for place in sorted(one.queue.places(), key=lambda place: place.state is State.CLAIMED):
        if fnmatchcase(place.mission, pattern):
            found[place.mission] = place.state
    return dict(sorted(found.items(), key=lambda pair: (pair[1] is State.CLAIMED, pair[0])))


@frozen
class NotCancelled:
    """One of many that could not be cancelled, and why."""

    mission: MissionId
    why: str

    def to_json(self) -> dict[str, object]:
        """The answer with the documented keys."""
        return {"mission": self.mission, "why": self.why}


def cancel_each(
    one: Canceller, missions: Sequence[MissionId], why: str, *, wait: bool
) -> Iterator[Answer | NotCancelled]:
    """Cancel them all; one that cannot be does not stop the others. All are asked before one is waited for.

    What nobody has claimed goes a batch at a time, under the lock for a few milliseconds each.
    """
    gone: set[MissionId] = set()
    for at in range(0, len(missions), _BATCH):
        with contextlib.suppress(KranzqError):  # said of each below
            gone |= _batch(one, missions[at : at + _BATCH], why)
    answers = [
        Answer(mission, "removed", removed=True) if mission in gone else _tried(one, mission, why, wait=False)
        for mission in missions
    ]
    for answer in answers:
        again = wait and isinstance(answer, Answer) and answer.result == "wished"
        yield _tried(one, answer.mission, why, wait=True) if again else answer


def _batch(one: Canceller, missions: Sequence[MissionId], why: str) -> set[MissionId]:
    """Take back what nobody has claimed; those that are over with that. What is claimed is met one by one."""
    with one.queue.change():
        claimed = {claim.place.mission for claim in one.queue.claims()}
        gone = take_back(one.queue, one.runs, [each for each in missions if each not in claimed], one.who, why)
    for mission in sorted(gone):
        emit(Cancelled(str(mission), "removed"))
    return gone


def _tried(one: Canceller, mission: MissionId, why: str, *, wait: bool) -> Answer | NotCancelled:
    try:
        return cancel(one, mission, why, wait=wait)
    except KranzqError as fault:
        return NotCancelled(mission, fault.sentence)


def _once(one: Canceller, mission: MissionId, why: str) -> tuple[bool, list[int]]:
    """Remove what is no claim and leave a wish for what is; whether something was removed, and the runs."""
    with one.queue.change():
        removed = bool(take_back(one.queue, one.runs, (mission,), one.who, why))
        runs = [run for claimed in _claims(one, mission) if (run := _wish(one, claimed, why)) is not None]
    if removed:
        emit(Cancelled(str(mission), "removed"))
    for run in runs:
        emit(Cancelled(str(mission), f"wished for run {run}"))
    return removed, runs


def _wish(one: Canceller, claimed: Claimed, why: str) -> int | None:
    """Leave the wish where the keeper of a claim looks, synced; the run, or None when there is none to end."""
    record = one.runs.of_claim(claimed.place.mission, claimed.place.name)
    folder = one.runs.open(record.mission, record.run) if record is not None else None
    if record is None or folder is None or record.state == "ended":
        return None
    with folder:
        try:
            folder.wish(CANCEL, one.who, why)
            atomic.sync_folder(one.queue.fd)  # the claim: its entry would run again under its old name
        except OSError as fault:
            raise atomic.store_fault(f"{folder.path}/{CANCEL}", fault) from fault
    return record.run


def _recover(one: Canceller, mission: MissionId) -> bool:
    """Recover what nobody watches over any more, so nobody would read the wish. Whether anything moved."""
    claims = _claims(one, mission)
    if not claims:
        return False
    parts = one.parts()
    if not any(is_gone(parts, one.runs, claimed) for claimed in claims):
        return False
    return Recovery(parts, one.queue, Backstop(parts.clock, remembers=False)).recover().moved > 0


def _refuse_unrecorded(one: Canceller, mission: MissionId) -> None:
    for claimed in _claims(one, mission):
        if one.runs.of_claim(mission, claimed.place.name) is None:
            raise Conflict(
                f"Mission {mission} is claimed by process {claimed.pid}, of which kranzq has no record "
                "(kranz, or a program like it), so it cannot be cancelled from here.",
                "End it there, or see what is known of it: kranzq status",
            )


def _until_gone(one: Canceller, mission: MissionId) -> None:
    """Wait until nobody has a claim of the mission, settling its end if nobody else does."""
    while still_working(one.runs, [claimed.place for claimed in _claims(one, mission)]):
        try:
            if not settle_claims(one.parts, one.queue, mission):
                _recover(one, mission)
        except QueueLocked:
            continue  # the wish is written; somebody else is at work, which is what is waited for
        time.sleep(_POLL_S)


def _answer(one: Canceller, mission: MissionId, *, removed: bool, wished: bool) -> Answer:
    if wished and (claims := still_working(one.runs, [claimed.place for claimed in _claims(one, mission)])):
        record = one.runs.of_claim(mission, claims[0].name)
        return Answer(mission, "wished", removed, record.run if record is not None else None)
    if removed and not wished:
        return Answer(mission, "removed", removed)
    last = one.runs.last(mission)
    if last is None:
        raise NoSuchMission(mission)
    done = wished and last.outcome is Outcome.CANCELLED
    return Answer(mission, "cancelled" if done else "ended", removed, last.run, last.outcome)


def _claims(one: Canceller, mission: MissionId) -> list[Claimed]:
    return [claimed for claimed in one.queue.claims() if claimed.place.mission == mission]
