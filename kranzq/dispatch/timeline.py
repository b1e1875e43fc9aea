"""When missions were enqueued, claimed, started and ended, run by run, with what tells how it went. A look.

An entry's own time of approval lies in the entry, which each run keeps; what the entry says is shown, never believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kranzq.dispatch.sight import Sight, distinct
from kranzq.errors import BadEntry
from kranzq.model.clock import rfc3339, seconds_of
from kranzq.model.entry import Entry, parse
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.outcome import fate_name
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord

_MOST_SURVIVORS = 20


@frozen
class Waiting:
    """An entry that is in the queue now. `enqueued_at` is None where the entry does not say it. Times: RFC 3339."""

    state: State
    enqueued_at: str | None
    due: str | None

    def to_json(self) -> dict[str, object]:
        """The entry with the documented keys."""
        return {"state": self.state.value, "enqueuedAt": self.enqueued_at, "due": self.due}


@frozen
class Times:
    """One run. `enqueued_at` is that of its entry, which several runs may share."""

    record: RunRecord
    enqueued_at: str | None
    survivors: tuple[Mapping[str, object], ...] = ()

    def to_json(self) -> dict[str, object]:
        """The run with the documented keys; a time that there is none of is null."""
        record = self.record
        return {
            "mission": record.mission,
            "run": record.run,
            "state": record.state,
            "enqueuedAt": self.enqueued_at,
            "claimedAt": record.created_at or None,
            "startedAt": record.started_at,
            "endedAt": record.ended_at,
            "outcome": record.outcome.value if record.outcome is not None else None,
            "fate": fate_name(record.fate) if record.fate is not None else None,
            "reason": record.reason,
            "exitCode": record.exit_code,
            "signal": record.signal,
            "counted": record.counted,
            "keeper": record.keeper.pid,
            "process": record.process[0] if record.process is not None else None,
            "survivors": [_survivor(one) for one in self.survivors[:_MOST_SURVIVORS]],
            "version": record.version,
        }


@frozen
class Timeline:
    """Runs, newest last; and of one mission that was asked for, what of it is in the queue now."""

    runs: tuple[Times, ...]
    waiting: tuple[Waiting, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The timeline with the documented keys."""
        return {"runs": [one.to_json() for one in self.runs], "waiting": [one.to_json() for one in self.waiting]}


def timeline(sight: Sight, mission: MissionId | None, *, last: int) -> Timeline:
    """The newest `last` runs of one mission or of all, also those that have not ended."""
    runs = Runs(sight.checkout, sight.queue.kranz_fd)
    missions: Iterable[MissionId] = runs.missions() if mission is None else (mission,)
    records = [record for one in missions for record in runs.records(one)]
    records.sort(key=lambda record: (record.ended_at or "9999", record.created_at, record.run))
    shown = records[max(0, len(records) - last) :]
    return Timeline(tuple(_times(runs, record) for record in shown), _waiting(sight, mission))


def _times(runs: Runs, record: RunRecord) -> Times:
    folder = runs.open(record.mission, record.run)
    if folder is None:
        return Times(record, None)
    with folder:
        data = folder.kept_entry()
        end = folder.read_exit(record.nonce)
    try:
        entry = parse(data) if data is not None else None
    except BadEntry:
        entry = None
    return Times(record, _enqueued(entry), end.survivors if end is not None else ())


def _waiting(sight: Sight, mission: MissionId | None) -> tuple[Waiting, ...]:
    if mission is None:
        return ()
    places = [place for place in distinct(sight.queue.places(mission)) if place.mission == mission]
    return tuple(
        Waiting(
            place.state,
            _enqueued(sight.queue.read(place)) if place.state is not State.CLAIMED else None,
            rfc3339(place.due_ms / 1000) if place.due_ms is not None else None,
        )
        for place in places
    )


def _enqueued(entry: Entry | None) -> str | None:
    """When an entry says that it was made, if that is a time."""
    said = entry.own.enqueued_at if entry is not None and entry.own is not None else None
    return said if said and seconds_of(said) is not None else None


def _survivor(one: Mapping[str, object]) -> dict[str, object]:
    pid, name = one.get("pid"), one.get("name") or one.get("command")
    return {"pid": pid if type(pid) is int else None, "name": name[:200] if isinstance(name, str) else ""}
