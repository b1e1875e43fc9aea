"""Which runs are kept, by age and count, and which never go: whatever somebody still needs or may still be using.

Kept whatever their age: the newest run of a mission (its number must not be given out again), its last end (other
missions may wait for it), runs of an entry that is still in the queue (its tries are counted from them), runs whose
claim lies there, runs without an end whose keeper is not proven gone, and runs that left processes which live.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterator

from kranzq.disk.leavings import IsGone, finish_removals, remove_whole, sweep_temporaries
from kranzq.liveness import Place, judge, place_of, start_ticks
from kranzq.model.claim import ITEM_PREFIX
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.process import Liveness
from kranzq.runs.folder import ENTRY, RunFolder
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord

ENDED = "ended"
Since = Callable[[float], bool]
"""Whether what was written at a wall time is so old that no writer is at it any more."""


@frozen
class Keep:
    """How much is kept; ages in seconds."""

    runs_per_mission: int = 20
    runs_age_s: float = 90 * 86400.0
    quarantine_count: int = 1000
    quarantine_age_s: float = 90 * 86400.0


@frozen
class InQueue:
    """What the queue still has: the names of its claims, and the entry ids of a mission (None for one without)."""

    claims: Container[str]
    entry_ids: Callable[[MissionId], Container[str | None]]


def prune_runs(runs: Runs, keep: Keep, queue: InQueue, now: float) -> int:
    """Remove the runs that nobody needs any more; how many were removed."""
    return sum(
        _prune(runs, mission, keep, queue, now) + _prune_item(runs, mission, keep, queue, now)
        for mission in runs.missions()
    )


def sweep_missions(runs: Runs, is_gone: IsGone, is_old: Since, busy: Container[MissionId]) -> int:
    """Remove what killed writers left in the folders of missions; how many files and folders.

    That is temporary files wherever one is written, and old run folders in which nothing was recorded (whoever
    makes one puts its record there at once, at most behind the entry). Those of missions in `busy` may be in use.
    """
    return sum(_sweep(runs, mission, is_gone, is_old, is_used=mission in busy) for mission in runs.missions())


def _sweep(runs: Runs, mission: MissionId, is_gone: IsGone, is_old: Since, *, is_used: bool) -> int:
    removed = 0
    for fd in (runs.open_folder(mission), runs.open_folder(mission, "input")):
        if fd is not None:
            removed += sweep_temporaries(fd, is_gone)
            os.close(fd)
    tries = runs.open_folder(mission, "dispatch")
    if tries is None:
        return removed
    try:
        removed += sweep_temporaries(tries, is_gone)
        for run in runs.numbers(mission):
            if (folder := runs.open(mission, run)) is None:
                continue
            with folder:
                was_old = is_old(os.fstat(folder.fd).st_mtime)  # before anything is removed from it
                if not _may_be_kept_for_its_end(folder.read()):
                    removed += sweep_temporaries(folder.fd, is_gone)
                is_nothing = was_old and not is_used and set(os.listdir(folder.fd)) <= {ENTRY}
            if is_nothing:
                removed += remove_whole(tries, f"{run:03d}")
    finally:
        os.close(tries)
    return removed


def _may_be_kept_for_its_end(record: RunRecord | None) -> bool:
    """Whether a keeper may live that has made room for its end, hours ago, in temporary files.

    Their names bear its pid, which means nothing in another namespace: there it looks like one that is gone.
    """
    return record is not None and record.state != ENDED and judge(record.keeper).verdict is not Liveness.GONE


def _prune_item(runs: Runs, mission: MissionId, keep: Keep, queue: InQueue, now: float) -> int:
    """Remove all runs of an item when the last is old: each item is a mission of its own, and none comes again.

    The work queue keeps how it ended. What else lies in the mission's folder stays, and the folder with it.
    """
    if not mission.startswith(ITEM_PREFIX) or (folder := runs.open_folder(mission, "dispatch")) is None:
        return 0
    try:
        numbers = runs.numbers(mission)
        if not numbers or any(_age(folder, run, now) <= keep.runs_age_s for run in numbers):
            return 0
        ids = queue.entry_ids(mission)
        if not all(_is_of_item(runs, mission, run, ids, queue) for run in numbers):
            return 0
        removed = sum(remove_whole(folder, f"{run:03d}") for run in numbers)
    finally:
        os.close(folder)
    with contextlib.suppress(OSError):
        for name in (f"missions/{mission}/dispatch", f"missions/{mission}"):
            os.rmdir(name, dir_fd=runs.kranz)
    return removed


def _is_of_item(runs: Runs, mission: MissionId, run: int, ids: Container[str | None], queue: InQueue) -> bool:
    """Whether a run is an item's, and nobody uses it."""
    folder = runs.open(mission, run)
    if folder is None:
        return False
    with folder:
        record = folder.read()
        return record is not None and record.item is not None and not any(_uses(folder, record, ids, queue))


def _prune(runs: Runs, mission: MissionId, keep: Keep, queue: InQueue, now: float) -> int:
    folder = runs.open_folder(mission, "dispatch")
    if folder is None:
        return 0
    try:
        finish_removals(folder)
        numbers = runs.numbers(mission)
        surplus = numbers[: max(0, len(numbers) - keep.runs_per_mission)]
        old = [run for run in numbers[:-1] if run not in surplus and _age(folder, run, now) > keep.runs_age_s]
        candidates = sorted({*surplus, *old})
        if not candidates:
            return 0  # the usual case: no record was read
        ends = _last_ends(runs, mission)
        ids = queue.entry_ids(mission)
        return sum(
            remove_whole(folder, f"{run:03d}")
            for run in candidates
            if run not in ends and _may_go(runs, mission, run, ids, queue, age_s=_age(folder, run, now), keep=keep)
        )
    finally:
        os.close(folder)


def _last_ends(runs: Runs, mission: MissionId) -> set[int]:
    """The last end of a mission, and the last one of a run that began, which may be an earlier one."""
    last = None
    for record in runs.records(mission):
        if record.state == ENDED:
            last = last or record.run
            if record.outcome is not None and record.outcome.ran:
                return {last, record.run}
    return set() if last is None else {last}


def _may_go(
    runs: Runs, mission: MissionId, run: int, ids: Container[str | None], queue: InQueue, *, age_s: float, keep: Keep
) -> bool:
    folder = runs.open(mission, run)
    if folder is None:
        return False
    with folder:
        record = folder.read()
        if record is None:  # nothing tells whose it is, so only its age does
            return age_s > keep.runs_age_s
        return not any(_uses(folder, record, ids, queue))


def _uses(folder: RunFolder, record: RunRecord, ids: Container[str | None], queue: InQueue) -> Iterator[bool]:
    """Each reason for which somebody may still need the run."""
    yield record.claim in queue.claims
    yield record.entry.id in ids
    if record.state != ENDED:
        yield judge(record.keeper).verdict is not Liveness.GONE
    end = folder.read_exit(record.nonce)
    for one in end.survivors if end is not None else ():
        yield _may_live(record, one.get("pid"), one.get("startTicks"))


def _may_live(record: RunRecord, pid: object, ticks: object) -> bool:
    match place_of(record.keeper):
        case Place.HERE:
            return type(pid) is int and start_ticks(pid) == ticks
        case Place.OTHER_BOOT:
            return False
        case Place.OTHER_NAMESPACE | Place.ELSEWHERE:
            return True


def _age(folder: int, run: int, now: float) -> float:
    """Seconds since something was last put into a run's folder or taken out of it."""
    try:
        return now - os.stat(f"{run:03d}", dir_fd=folder, follow_symlinks=False).st_mtime
    except OSError:
        return 0.0
