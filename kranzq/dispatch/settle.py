"""Decide and settle: from the records of a run to exactly one fate, recorded before it is carried out.

Whoever does it holds the lock around a change of names and looks again under it: the claim must still be there, a fate
that was recorded is taken, and only then carried out. A crash in between leaves the fate for the next one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from kranzq.backend import MissionQueue
from kranzq.disk.leavings import sweep_temporaries
from kranzq.dispatch.aftermath import tree_left
from kranzq.dispatch.evidence import LIBRARY
from kranzq.dispatch.parts import Parts
from kranzq.dispatch.retention import is_gone
from kranzq.dispatch.tally import counters_of
from kranzq.events import Ended, PutBack, emit
from kranzq.model.claim import Claimed, Place
from kranzq.model.clock import rfc3339, seconds_of
from kranzq.model.frozen import frozen
from kranzq.model.item_policy import decide_item
from kranzq.model.outcome import Ending, Fate, NotStarted, Outcome, Retire, Return, Rotate, fate_name
from kranzq.model.policy import decide
from kranzq.model.tree import Tree
from kranzq.runs.folder import CANCEL, RunFolder
from kranzq.runs.folders import Runs
from kranzq.runs.record import ExitRecord, RunRecord

_BROUGHT_BACK = frozenset({Outcome.INTERRUPTED, Outcome.NOT_STARTED, Outcome.NEVER_BEGAN})


@frozen
class Settled:
    """A run's end as it was recorded, and the fate that was carried out."""

    ending: Ending
    fate: Fate
    waits: str | None = None
    """Why the work queue was not told of the end of an item yet, half a sentence."""


def settle(
    parts: Parts,
    queue: MissionQueue,
    runs: Runs,
    claimed: Claimed,
    record: RunRecord | None,
    *,
    told: ExitRecord | None = None,
) -> Settled | None:
    """Decide, if nobody has, and carry the fate out; None when the claim is gone and nothing is left to do.

    `told` is the end as the keeper told it over its socket, for the case that its folder was removed.
    """
    settled = None
    if queue.still_there(claimed):  # looked at first: without its claim there may be no directory for the lock either
        tree = _tree_left(parts, runs, record, told) if record is not None else None  # before the lock: it reads much
        with queue.change():
            if queue.still_there(claimed):
                settled = settle_place(parts, queue, runs, claimed.place, record, told=told, tree=tree)
    if settled is not None:
        return _handed_in(parts, queue, runs, claimed, record, settled) if claimed.place.is_item else settled
    if record is not None:
        settle_without_claim(parts, queue, runs, record, told=told)
    return None


def _handed_in(
    parts: Parts, queue: MissionQueue, runs: Runs, claimed: Claimed, record: RunRecord | None, settled: Settled
) -> Settled:
    """Tell the work queue of an item's end, with no lock of ours held. The claim goes when it has heard."""
    from kranzq.dispatch import item_end  # noqa: PLC0415 - only where there are items

    if parts.items is None:
        return replace(settled, waits="no work queue is configured here")
    if record is None or record.item is None:
        return replace(settled, waits=item_end.give_back_unrecorded(parts, queue, claimed))
    why = item_end.hand_in(parts, queue, runs, claimed, record, settled.ending, settled.fate)
    return replace(settled, waits=why)


def _tree_left(parts: Parts, runs: Runs, record: RunRecord, told: ExitRecord | None) -> Tree | None:
    """What a run without an end left in the tree. Only told: others may record its end meanwhile, under the lock."""
    folder = runs.open(record.mission, record.run)
    if folder is None:
        return None
    with folder:
        current = folder.read() or record
        if current.state == "ended":
            return None
        end = folder.read_exit(current.nonce) or told
        ending = ending_of(current, end, cancel=folder.wished(CANCEL) is not None)
        return tree_left(parts.checkout, folder, current, ending, end)


def settle_without_claim(
    parts: Parts, queue: MissionQueue, runs: Runs, record: RunRecord, *, told: ExitRecord | None = None
) -> None:
    """Somebody removed the claim from outside: nothing is to be carried out, but how the run ended is kept.

    The end of an item reaches the work queue all the same, as far as it is known.
    """
    folder = runs.open(record.mission, record.run)
    if folder is None:
        if record.item is not None and told is not None:
            ending = ending_of(record, told, cancel=False)
            _hand_in_without_claim(parts, queue, runs, record, ending, _fate(parts, runs, record, ending, None))
        return
    with folder:
        current = folder.read() or record
        end = folder.read_exit(record.nonce) or told
        if current.state != "ended":
            if end is None and record.item is None:
                return
            ending = ending_of(current, end, cancel=folder.wished(CANCEL) is not None)
            fate = Retire() if record.item is None else _fate(parts, runs, current, ending, folder.not_before())
            current = folder.write(_ended(current, ending, fate, end, parts.clock.now()), sync=True)
            emit(
                Ended(str(current.mission), current.run, ending.outcome.value, fate_name(fate), "its claim was removed")
            )
        elif record.item is None:
            return
    if record.item is not None and current.fate is not None:
        _hand_in_without_claim(parts, queue, runs, current, ending_in(current), current.fate)


def _hand_in_without_claim(
    parts: Parts, queue: MissionQueue, runs: Runs, record: RunRecord, ending: Ending, fate: Fate
) -> None:
    from kranzq.dispatch import item_end  # noqa: PLC0415 - only where there are items

    if parts.items is not None:
        item_end.hand_in(parts, queue, runs, None, record, ending, fate)


def settle_place(
    parts: Parts,
    queue: MissionQueue,
    runs: Runs,
    place: Place,
    record: RunRecord | None,
    *,
    told: ExitRecord | None = None,
    tree: Tree | None = None,
) -> Settled | None:
    """As `settle`, for a claim or an entry that is there; `change` must be held. `tree` is kept with an end."""
    if record is None and place.is_item:
        return Settled(Ending(Outcome.NEVER_BEGAN, "the record of its run is gone", counted=False), Return())
    if record is None:
        fate = queue.carry_out(place, Return())
        emit(PutBack(str(place.mission), place.name, "no record names it"))
        return Settled(Ending(Outcome.NEVER_BEGAN, counted=False), fate)
    with contextlib.ExitStack() as stack:
        folder = runs.open(record.mission, record.run)
        if folder is not None:
            stack.enter_context(folder)
        current = (folder.read() if folder is not None else None) or record
        is_decided = current.state == "ended"
        if not is_decided:
            current = replace(current, tree=tree or current.tree)
            number = _decided(parts, queue, runs, folder, current, told)
            current = stack.enter_context(number)
            if folder is not None:
                folder.write(current, sync=True)
                sweep_temporaries(folder.fd, lambda pid, at: pid == record.keeper.pid or is_gone(pid, at))
        assert current.fate is not None
        ending = ending_in(current)
        # told before it is done: whoever is killed in between leaves the fate to the next one, who tells it once more
        if not (is_decided and place.is_item):  # that may be repeated for as long as the work queue is away
            emit(Ended(str(current.mission), current.run, ending.outcome.value, fate_name(current.fate), ending.reason))
        fate = current.fate if place.is_item else queue.carry_out(place, current.fate)
    return Settled(ending, fate)


def ending_in(record: RunRecord) -> Ending:
    """The end that an ended record tells."""
    outcome = record.outcome or Outcome.INTERRUPTED
    return Ending(outcome, record.reason, record.exit_code, record.signal, record.not_started, record.counted)


def ending_of(record: RunRecord, end: ExitRecord | None, *, cancel: bool) -> Ending:
    """What the records of a run tell of its end. A wish to cancel turns what would come back into *cancelled*."""
    if end is not None:
        ending = end.ending
    elif not record.began:
        ending = Ending(Outcome.NEVER_BEGAN, "its dispatcher died before it was told to go", counted=False)
    elif record.kind == LIBRARY:
        ending = Ending(Outcome.INTERRUPTED, "the process that had claimed it is gone")
    else:
        ending = Ending(Outcome.INTERRUPTED, "its keeper was killed before an end was recorded")
    if not cancel:
        return ending
    if ending.outcome in _BROUGHT_BACK:
        return replace(ending, outcome=Outcome.CANCELLED, cancel_wished=True)
    return replace(ending, cancel_wished=True)


@contextlib.contextmanager
def _number_for(queue: MissionQueue, runs: Runs, record: RunRecord, fate: Fate) -> Iterator[Fate]:
    if isinstance(fate, Rotate) and fate.number is None:
        with queue.take_number(runs.last_number(record.mission)) as number:
            yield replace(fate, number=number)
    else:
        yield fate


@contextlib.contextmanager
def _decided(
    parts: Parts,
    queue: MissionQueue,
    runs: Runs,
    folder: RunFolder | None,
    record: RunRecord,
    told: ExitRecord | None,
) -> Iterator[RunRecord]:
    """The record with its end and its fate; the lock around a new number is held as long as the context."""
    end = (folder.read_exit(record.nonce) if folder is not None else None) or told
    cancel = folder is not None and folder.wished(CANCEL) is not None
    ending = ending_of(record, end, cancel=cancel)
    now = parts.clock.now()
    not_before = _asked_for(folder, ending, end, now)
    if not_before is not None and ending.outcome in {Outcome.SUCCEEDED, Outcome.FAILED}:
        ending = replace(ending, outcome=Outcome.DEFERRED, reason="it asked to be run later")
    fate = _fate(parts, runs, record, ending, not_before)
    with _number_for(queue, runs, record, fate) as final:
        yield _ended(record, ending, final, end, now)


def _fate(parts: Parts, runs: Runs, record: RunRecord, ending: Ending, not_before: float | None) -> Fate:
    return (decide if record.item is None else decide_item)(
        ending,
        counters_of(runs.records(record.mission), record),
        parts.settings.limits(record.retries),
        now=parts.clock.now(),
        jitter=parts.jitter,
        not_before=not_before,
    )


def _asked_for(folder: RunFolder | None, ending: Ending, end: ExitRecord | None, now: float) -> float | None:
    """From when on a mission asked to be run again, not earlier than `now`; None when it did not ask.

    Compared with its own end: the time may have come while no dispatcher lived, and it has not done its work all the
    same. A time before its end is none.
    """
    asked = folder.not_before() if folder is not None and ending.outcome.ran else None
    ended = (seconds_of(end.ended_at) if end is not None else None) or now
    return max(asked, now) if asked is not None and asked > ended else None


def _ended(record: RunRecord, ending: Ending, fate: Fate, end: ExitRecord | None, now: float) -> RunRecord:
    return replace(
        record,
        state="ended",
        outcome=ending.outcome,
        fate=fate,
        reason=ending.reason,
        exit_code=ending.exit_code,
        signal=ending.signal,
        counted=ending.counted,
        not_started=ending.not_started,
        started_at=(end.started_at if end is not None else None) or record.started_at,
        ended_at=(end.ended_at if end is not None else None) or rfc3339(now),
    )


def is_environment_fault(ending: Ending) -> bool:
    """Whether everybody should wait a while before the next start."""
    return ending.outcome is Outcome.NOT_STARTED and ending.not_started is NotStarted.ENVIRONMENT
