"""What outlived the recorded end of its mission on purpose: nobody takes it for a leftover."""

from __future__ import annotations

from collections.abc import Mapping

from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord


def reported_survivors(runs: Runs, record: RunRecord) -> Mapping[int, int | None]:
    """What the record of the end names as left on purpose: pid and start ticks."""
    folder = runs.open(record.mission, record.run)
    if folder is None:
        return {}
    with folder:
        end_record = folder.read_exit(record.nonce)
    named: dict[int, int | None] = {}
    for one in end_record.survivors if end_record is not None else ():
        pid, ticks = one.get("pid"), one.get("startTicks")
        if type(pid) is int and type(ticks) is int:
            named[pid] = ticks
    return named
