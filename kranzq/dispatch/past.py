"""How runs ended: the records of missions, for `history`. A look; what cannot be read is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

from kranzq.dispatch.kranz_seen import kranz_says
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.outcome import fate_name
from kranzq.model.tree import Tree
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord


@frozen
class Run:
    """One run as `history` shows it. `outcome` and `fate` are None while it has not ended; times are RFC 3339."""

    mission: str
    run: int
    state: str
    outcome: str | None
    fate: str | None
    exit_code: int | None
    signal: int | None
    started_at: str | None
    ended_at: str | None
    reason: str
    tree: Tree | None = None
    kranz: str | None = None
    """What kranz says of the mission now; only with its newest run."""

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        """The run of a record."""
        return cls(
            record.mission,
            record.run,
            record.state,
            record.outcome.value if record.outcome is not None else None,
            fate_name(record.fate) if record.fate is not None else None,
            record.exit_code,
            record.signal,
            record.started_at,
            record.ended_at,
            record.reason,
            record.tree,
        )

    def to_json(self) -> dict[str, object]:
        """The run with the documented keys."""
        return {
            "mission": self.mission,
            "run": self.run,
            "outcome": self.outcome,
            "fate": self.fate,
            "exitCode": self.exit_code,
            "signal": self.signal,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "tree": self.tree.to_json() if self.tree is not None else None,
            "kranzStatus": self.kranz,
            "reason": self.reason,
        }


def history(runs: Runs, mission: MissionId | None, *, last: int | None, unended: bool) -> list[Run]:
    """The runs of one mission or of all, newest last; at most the `last` ones. Only ended ones unless `unended`."""
    missions: Iterable[MissionId] = runs.missions() if mission is None else (mission,)
    found = [record for one in missions for record in runs.records(one) if unended or record.state == "ended"]
    found.sort(key=lambda record: (record.ended_at or "9999", record.created_at, record.run))
    shown = [Run.of(record) for record in (found if last is None else found[max(0, len(found) - last) :])]
    newest = {one.mission: at for at, one in enumerate(shown)}
    for one, at in newest.items():
        shown[at] = replace(shown[at], kranz=kranz_says(runs.kranz, one))
    return shown
