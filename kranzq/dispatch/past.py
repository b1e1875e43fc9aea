"""How runs ended: the records of missions, for `history`. A look; what cannot be read is left out."""

from __future__ import annotations

from collections.abc import Iterable

from kranzq.model.ids import MissionId
from kranzq.model.outcome import fate_name
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord


def history(runs: Runs, mission: MissionId | None, *, last: int | None, unended: bool) -> list[RunRecord]:
    """The runs of one mission or of all, newest last; at most the `last` ones. Only ended ones unless `unended`."""
    missions: Iterable[MissionId] = runs.missions() if mission is None else (mission,)
    found = [record for one in missions for record in runs.records(one) if unended or record.state == "ended"]
    found.sort(key=lambda record: (record.ended_at or "9999", record.created_at, record.run))
    return found if last is None else found[max(0, len(found) - last) :]


def run_json(record: RunRecord) -> dict[str, object]:
    """One run with the documented keys."""
    return {
        "mission": record.mission,
        "run": record.run,
        "outcome": record.outcome.value if record.outcome is not None else None,
        "fate": fate_name(record.fate) if record.fate is not None else None,
        "exitCode": record.exit_code,
        "signal": record.signal,
        "startedAt": record.started_at,
        "endedAt": record.ended_at,
    }
