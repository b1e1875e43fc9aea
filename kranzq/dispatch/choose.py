"""Step 3: the first entry in order that may run. Whatever may not is quarantined, parked or passed over, and said once.

An entry whose last run has an end that was recorded and not carried out gets exactly that instead of another run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from math import inf

from kranzq.backend import Candidate
from kranzq.busy import record as busy_record
from kranzq.dispatch.parts import Empty, Memory, OpenQueue, Parts
from kranzq.dispatch.predecessors import Judged, Predecessors, Verdict
from kranzq.dispatch.settle import settle_place
from kranzq.dispatch.tally import is_same_entry
from kranzq.events import PassedOver, emit
from kranzq.model.claim import Place
from kranzq.model.clock import seconds_of, to_ms
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.outcome import Park, Retire, Return, Rotate, Wait
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.trust.may_run import Permit, PermitKind, usable

NO_COMMAND = "it has no command of its own and none is configured"
NO_COMMAND_ADVICE = "Give one (kranzq enqueue M -- COMMAND), or set [mission] command in the user's config.toml"
_AT_ONCE = 50  # entries let go under one lock: a look for each would cost, and nobody shall wait long for the lock


@frozen
class Chosen:
    """The candidate for this turn; `entry` is without what its signature does not cover."""

    candidate: Candidate
    entry: Entry


def choose(parts: Parts, queue: OpenQueue, memory: Memory) -> tuple[Chosen | None, dict[str, str]]:
    """The entry to run, if any, and why others were passed over."""
    runs = Runs(parts.checkout, queue.kranz_fd)
    admit(parts, queue, runs)
    passed: dict[str, str] = {}
    memory.passed = names = set()
    for candidate in queue.in_order():
        permit = parts.gate.may_run(candidate.entry, parts.checkout.root)
        if permit.kind is PermitKind.QUARANTINE:
            queue.quarantine(candidate.place, permit.why)
            continue
        entry = usable(candidate.entry, permit)
        why = for_person = _why_wait(parts, candidate.entry, permit)
        if why is None:
            why = _settled_before(parts, queue, runs, candidate)
        if why is None:
            why = _not_yet(parts, queue, runs, candidate, memory)
        if why is None:
            why = _second(parts, queue, candidate)
        if why is None:
            return Chosen(candidate, entry), passed
        if why:
            passed[str(entry.mission)] = why
            names.add(candidate.place.name)
            if memory.is_new(candidate.place.name, why):
                emit(PassedOver(str(entry.mission), why, bool(for_person)))
    return None, passed


def admit(parts: Parts, queue: OpenQueue, runs: Runs) -> None:
    """Let go what waits no longer: its time has come, or those before it have succeeded; spoiled ones are parked."""
    queue.admit_due()
    now = parts.clock.now()
    ready = [(place, entry) for place, entry, judged in _judged(queue, runs) if judged.verdict is not Verdict.WAITS]
    for at in range(0, len(ready), _AT_ONCE):
        with queue.change():
            # again: an entry that moved while the folders were listed was seen in none, and its last end is an old one
            known = Predecessors(runs, queue.places())
            for place, entry in ready[at : at + _AT_ONCE]:
                with contextlib.suppress(FileNotFoundError):
                    _let_go(queue, place, entry, _judge(known, entry, place), now)


def _let_go(queue: OpenQueue, place: Place, entry: Entry, judged: Judged, now: float) -> None:
    due = due_of(entry)
    if judged.verdict is Verdict.SPOILED:
        queue.set_aside(place, spoiled(entry, judged))
    elif judged.verdict is Verdict.SATISFIED:
        queue.admit(place, to_ms(due) if due is not None and due > now else None)


def spoiled(entry: Entry, judged: Judged) -> str:
    """Why an entry is parked that waited for another mission, and what to type."""
    return f"it waited for another mission, and {judged.why}; when that has succeeded: kranzq unpark {entry.mission}"


def due_of(entry: Entry) -> float | None:
    """When the entry itself says that it is due, in wall seconds."""
    return seconds_of(entry.own.not_before) if entry.own is not None else None


def _judged(queue: OpenQueue, runs: Runs) -> Iterator[tuple[Place, Entry, Judged]]:
    """What waits for others, with the verdict. A file that cannot be read is left: it is quarantined, or not ours."""
    if not (waiting := queue.waiting_for_others()):
        return
    known = Predecessors(runs, queue.places())
    for place in waiting:
        entry = queue.read(place)
        if entry is not None:
            yield place, entry, _judge(known, entry, place)


def _judge(known: Predecessors, entry: Entry, place: Place) -> Judged:
    return known.judge(entry.own.after if entry.own is not None else (), place.number)


def _not_yet(parts: Parts, queue: OpenQueue, runs: Runs, candidate: Candidate, memory: Memory) -> str | None:
    """Let an entry wait that lies among what may run and says itself that it may not; "" when it was moved.

    What it waits for counts for each, since a signature covers it. Its due time does not: there the name tells, and
    only of an entry that others wrote, which had no other way to say it, the content is asked.
    """
    place, own = candidate.place, candidate.entry.own
    if own is None:
        return None
    judged = None
    if own.after:
        with queue.change():  # as in `admit`
            judged = _judge(Predecessors(runs, queue.places()), candidate.entry, place)
    due = due_of(candidate.entry) if not own.mac else None
    late = due is not None and due > parts.clock.now()
    if (judged is None or judged.verdict is Verdict.SATISFIED) and not late:
        return None
    with queue.change(), contextlib.suppress(FileNotFoundError, FileExistsError):
        if judged is not None and judged.verdict is Verdict.SPOILED:
            queue.set_aside(place, spoiled(candidate.entry, judged))
        elif judged is not None and judged.verdict is Verdict.WAITS:
            queue.hold_back(place, None)
            if memory.is_new(place.name, judged.why):
                emit(PassedOver(str(place.mission), f"it waits: {judged.why}", False))
        elif due is not None:
            queue.hold_back(place, to_ms(due))
    return ""


def nothing_to_do(parts: Parts, queue: OpenQueue, memory: Memory) -> Empty | None:
    """A look before the lock is taken, so that an idle checkout is left alone; None when a turn is worth it.

    It decides nothing: whatever it finds is looked at again with the lock in hand.
    """
    due = queue.next_due()
    if (
        memory.first_turn
        or busy_record.exists(queue.fd)
        or queue.claims()
        or not queue.is_tidy()
        or (due or inf) <= parts.clock.now()
    ):
        return None
    runs = Runs(parts.checkout, queue.kranz_fd)
    if any(judged.verdict is not Verdict.WAITS for _, _, judged in _judged(queue, runs)):
        return None
    passed: dict[str, str] = {}
    for place in queue.queued():
        if place.name not in memory.passed:
            return None  # one that was not there before: it will be read with the lock in hand, and not twice
        entry = queue.read(place)
        if entry is None:
            return None
        why = _why_wait(parts, entry, parts.gate.may_run(entry, parts.checkout.root))
        if why is None:
            return None
        passed[str(place.mission)] = why
        if memory.is_new(place.name, why):
            emit(PassedOver(str(place.mission), why, True))
    return Empty(passed, due)


def _why_wait(parts: Parts, entry: Entry, permit: Permit) -> str | None:
    """Why an entry is passed over, with what to type; None when it may run or is no good at all."""
    if permit.kind is PermitKind.WAIT:
        return permit.why + (f". {permit.advice}" if permit.advice else "")
    if permit.kind is PermitKind.RUN and not parts.runner.can_run(usable(entry, permit)):
        return f"{NO_COMMAND}. {NO_COMMAND_ADVICE}"
    return None


def identity_of_candidate(candidate: Candidate) -> EntryIdentity:
    """What a record keeps of the entry that it took."""
    return EntryIdentity(candidate.entry.id, candidate.place.name, candidate.inode, candidate.born_ns)


def _settled_before(parts: Parts, queue: OpenQueue, runs: Runs, candidate: Candidate) -> str | None:
    """Carry out what was decided for this very entry and not done; "" when that was all there is to do with it."""
    place = candidate.place
    if _undone(parts, runs, candidate) is None:
        return None
    with queue.change(), contextlib.suppress(FileNotFoundError):
        if not any(one.name == place.name and one.state is State.QUEUED for one in queue.places(place.mission)):
            return ""
        last = _undone(parts, runs, candidate)  # again: a cancel that found no room has taken its record back by now
        settled = settle_place(parts, queue, runs, place, last) if last is not None else None
        if last is None or (settled is not None and isinstance(settled.fate, Return)):
            return None
    return ""


def _undone(parts: Parts, runs: Runs, candidate: Candidate) -> RunRecord | None:
    """The last run of this very entry, if what was decided for it is not done."""
    mine = identity_of_candidate(candidate)
    last = next((one for one in runs.records(candidate.place.mission) if is_same_entry(one.entry, mine)), None)
    return last if last is not None and _is_due_again(parts, last, candidate) else None


def _is_same_file(taken: EntryIdentity, candidate: Candidate) -> bool:
    return (taken.inode, taken.born_ns) == (candidate.inode, candidate.born_ns)


def _is_due_again(parts: Parts, last: RunRecord, candidate: Candidate) -> bool:
    """Whether the fate of the entry's last run was not carried out: its claim was, by a power cut, never made."""
    if last.state != "ended":
        return True
    match last.fate:
        case Retire() | Park():
            return True
        case Rotate():
            return candidate.place.number == last.number
        case Wait(until_ms):
            # whoever edits an entry writes a new file: then its time is what the person said
            return until_ms > parts.clock.now() * 1000 and _is_same_file(last.entry, candidate)
        case _:
            return False


def _second(parts: Parts, queue: OpenQueue, candidate: Candidate) -> str | None:
    """A second entry of a mission is parked, unless it was asked for; then it waits for the first."""
    if not _others(parts, queue, candidate.place):
        return None
    with queue.change():  # looked at again under it: what is there by now may be the first one's return
        places = queue.places(candidate.place.mission)
        if not any(one.name == candidate.place.name and one.state is State.QUEUED for one in places):
            return ""
        return _second_of(queue, candidate, _others(parts, queue, candidate.place))


def _second_of(queue: OpenQueue, candidate: Candidate, others: list[Place]) -> str | None:
    place = candidate.place
    again = candidate.entry.own is not None and candidate.entry.own.again
    first = next((one for one in others if one.state is not State.QUEUED), None)
    if first is not None and again:
        return f"the run before it is {first.state.value} ({first.name})"
    if first is not None:
        return _park(queue, place, f"a duplicate: {first.name} is the same mission and {first.state.value}")
    for other in others:
        # this one is in front, so the others are the second ones; those that were asked for stay
        other_entry = queue.read(other)
        if other_entry is not None and not (other_entry.own is not None and other_entry.own.again):
            _park(queue, other, f"a duplicate: {place.name} is the same mission and before it")
    return None


def _others(parts: Parts, queue: OpenQueue, place: Place) -> list[Place]:
    """The other entries of a mission that run, wait or are queued. What may not run itself holds nobody up."""
    found = []
    for one in queue.places(place.mission):
        if one.name == place.name or one.mission != place.mission or one.state is State.PARKED:
            continue
        entry = queue.read(one) if one.state is State.WAITING else None
        if entry is None or parts.gate.may_run(entry, parts.checkout.root).kind is PermitKind.RUN:
            found.append(one)
    return found


def _park(queue: OpenQueue, place: Place, reason: str) -> str:
    with contextlib.suppress(FileNotFoundError):
        queue.carry_out(place, Park(reason))
    return ""
