"""What earlier runs of the same entry came to: how often it failed, deferred itself and was interrupted."""

from __future__ import annotations

from collections.abc import Iterable

from kranzq.liveness import boot_id
from kranzq.model.clock import seconds_of
from kranzq.model.outcome import Outcome
from kranzq.model.policy import Counters
from kranzq.runs.record import EntryIdentity, RunRecord


def counters_of(records: Iterable[RunRecord], record: RunRecord) -> Counters:
    """What earlier runs of the same entry came to. Interruptions count within one start of the machine."""
    same = [
        one
        for one in records
        if one.run != record.run and one.state == "ended" and is_same_entry(one.entry, record.entry)
    ]
    here = boot_id()
    deferred = [seconds for one in same if one.outcome is Outcome.DEFERRED if (seconds := seconds_of(one.ended_at))]
    return Counters(
        failures=sum(one.outcome in {Outcome.FAILED, Outcome.TIMED_OUT} for one in same),
        deferrals=sum(one.outcome is Outcome.DEFERRED for one in same),
        interruptions=sum(
            one.outcome is Outcome.INTERRUPTED and one.counted and one.keeper.boot_id == here for one in same
        ),
        first_deferred_at=min(deferred, default=None),
    )


def is_same_entry(one: EntryIdentity, other: EntryIdentity) -> bool:
    """Whether two runs took the same entry: by its id, else by name, inode and birth time."""
    if one.id is not None or other.id is not None:
        return one.id == other.id
    return (one.name, one.inode, one.born_ns) == (other.name, other.inode, other.born_ns)
