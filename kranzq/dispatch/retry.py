"""Once more: a mission that has ended is queued as it was; one that is parked or backs off runs as soon as it can.

The entry of a run lies in its folder, inside the checkout, where anybody may have changed it. So only a valid signature
of this user brings its command back; without one the mission is queued by its name alone, for the configured command.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from kranzq.backend import Accepted
from kranzq.dispatch.amend import (
    Amended,
    Amender,
    AmendQueue,
    in_words,
    of_mission,
    put,
    read,
    refuse_claimed,
    renewed,
    unpark_in,
)
from kranzq.dispatch.predecessors import refuse_endless
from kranzq.dispatch.tally import is_same_entry
from kranzq.dispatch.unattended import settle_unattended
from kranzq.errors import BadEntry, Conflict, NoSuchMission, Refused
from kranzq.events import Edited, emit
from kranzq.model.claim import Place
from kranzq.model.clock import rfc3339
from kranzq.model.entry import DEFAULT_PRIORITY, MAX_PRIORITY, Entry, Own, parse
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Rotate, Wait
from kranzq.model.state import State
from kranzq.runs.record import RunRecord
from kranzq.trust.mac import Signature, sign, verify

_NAME_ONLY = "its command was not kept with a valid signature of yours, so it is queued without one"


class RetryQueue(AmendQueue, Protocol):
    """What a retry asks of an open queue."""

    def enqueue(self, new: Entry, floor: Callable[[MissionId], int | None]) -> Accepted[Entry, State]:
        """Make an entry or say what is there; takes `change` itself."""
        ...


@frozen
class _Kept:
    entry: Entry
    whole: bool
    """Whether everything in it is what this user had signed."""


def retry(one: Amender, queue: RetryQueue, mission: MissionId) -> Amended:
    """Run a mission once more, with new counters. Raises NoSuchMission, Conflict for one that runs or has yet to."""
    settle_unattended(one.parts, one.queue, one.runs, mission)
    one.queue.finish_moves()
    with queue.change(), in_words(one, mission):
        here = of_mission(one, mission)
        if any(place.state is not State.CLAIMED for place in here):
            return _in_queue(one, mission, here)
        if here:
            refuse_claimed(here, f"Wait for its end (kranzq wait {mission}), or: kranzq enqueue --again {mission}")
    return _ended(one, queue, mission)


def _in_queue(one: Amender, mission: MissionId, here: list[Place]) -> Amended:
    waiting = next((place for place in here if place.state is State.WAITING), None)
    if any(place.state is State.QUEUED for place in here):
        queued = next(place for place in here if place.state is State.QUEUED)
        return Amended(mission, queued, changed=False, note="it waits for its turn already")
    if waiting is None:
        return unpark_in(one, mission, here)
    if waiting.due_ms is None:
        after = read(one, waiting).own
        names = ", ".join(after.after) if after is not None else "others"
        raise Conflict(
            f"Mission {mission} has not run yet: it waits for {names}. Nothing was changed.",
            f"See why: kranzq why {mission}",
        )
    last = one.runs.last(mission)
    if last is None or not isinstance(last.fate, Wait | Rotate):
        raise Conflict(
            f"Mission {mission} has not run yet: its time has not come. Nothing was changed.",
            f"To let it run now: kranzq edit {mission} --not-before now",
        )
    entry = renewed(one, read(one, waiting))
    place = put(one, waiting, entry, State.QUEUED, None)
    emit(Edited(str(mission), "due now, with new counters"))
    return Amended(mission, place, changed=True, note="it waited after its last run and is due now")


def _ended(one: Amender, queue: RetryQueue, mission: MissionId) -> Amended:
    last = one.runs.last(mission)
    if last is None:
        raise NoSuchMission(mission)
    if last.item is not None:
        raise Conflict(
            f"Run {last.run} of {mission} was one of item {last.item.id}, which the work queue alone gives out again.",
            f"See what became of it: kranzq work show {last.item.id}; or enqueue its work anew: kranzq work enqueue",
        )
    kept = _kept(one, last)
    own = replace(
        kept.entry.own or Own(id=""),
        id=os.urandom(16).hex(),
        again=False,
        not_before=None,
        enqueued_at=rfc3339(one.clock.now()),
        enqueued_by=one.who,
    )
    signed = sign(replace(kept.entry, own=own), one.checkout.root, one.keys.current())

    def floor(named: MissionId) -> int | None:
        if own.after:
            refuse_endless(named, own.after, queue.places, queue.read)
        return one.runs.last_number(named)

    accepted = queue.enqueue(signed, floor)
    place = next(iter(of_mission(one, mission)), None)
    if place is None or place.number != accepted.entry.number:  # taken by a dispatcher in this moment
        place = Place(accepted.state, "", mission, accepted.entry.priority, accepted.entry.number)
    note = "" if kept.whole else _NAME_ONLY
    return Amended(mission, place, changed=accepted.created, note=note if accepted.created else "it was queued before")


def _kept(one: Amender, last: RunRecord) -> _Kept:
    """The entry of the last run, or of an earlier one of the same entry, as far as it can be trusted."""
    for record in one.runs.records(last.mission):
        entry = _entry_of(one, record) if is_same_entry(record.entry, last.entry) else None
        if entry is None:
            continue
        try:
            whole = verify(entry, one.checkout.root, one.keys) is Signature.VALID
        except Refused:  # the key's own file is not safe
            whole = False
        priority = _priority_of(record, entry.priority)
        if whole:
            return _Kept(replace(entry, priority=priority, number=0), whole=True)
        return _Kept(Entry(last.mission, priority, 0, entry.ticket), whole=entry.own is None)
    return _Kept(Entry(last.mission, _priority_of(last, DEFAULT_PRIORITY)), whole=False)


def _entry_of(one: Amender, record: RunRecord) -> Entry | None:
    folder = one.runs.open(record.mission, record.run)
    if folder is None:
        return None
    with folder:
        data = folder.kept_entry()
    try:
        entry = parse(data) if data is not None else None
    except BadEntry:
        return None
    return entry if entry is not None and entry.mission == record.mission else None


def _priority_of(record: RunRecord, otherwise: int) -> int:
    """The priority under which it ran: the name wins."""
    text = record.entry.name.partition("-")[0]
    known = text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PRIORITY)) and int(text) <= MAX_PRIORITY
    return int(text) if known else otherwise
