"""What is over goes after its time: old runs, old quarantined files, what killed writers left. Safe for anybody.

A daemon sweeps at its start and once an hour, between turns; `recover` sweeps too. The busy lock is not needed, for
nothing goes that anybody uses, and one rename hides a folder before its files go.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Container

from kranzq.disk.leavings import sweep_temporaries
from kranzq.disk.read import open_folder
from kranzq.dispatch.parts import OpenQueue, Parts
from kranzq.errors import KranzqError
from kranzq.events import Swept, Warned, emit
from kranzq.liveness import judge_claim
from kranzq.model.ids import MissionId
from kranzq.model.process import Liveness
from kranzq.runs.folders import Runs
from kranzq.runs.retention import InQueue, prune_runs, sweep_missions

EVERY_S = 3600.0
_YOUNG_S = 3600.0
"""A pid that is not there may live in another pid namespace; no writer takes an hour from its file to its rename."""


class Sweeper:
    """Sweeps when an hour has passed since the last time, and at the first call."""

    def __init__(self) -> None:
        self._due = 0.0
        self._said = ""

    def sweep_if_due(self, parts: Parts) -> None:
        """Sweep, if it is time. A fault is said once; the next hour tries again."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + EVERY_S
        try:
            with parts.open_queue() as queue:
                sweep(parts, queue)
        except (KranzqError, OSError) as fault:
            if str(fault) != self._said:
                self._said = str(fault)
                emit(Warned(f"what is over could not be swept: {fault}"))


def sweep(parts: Parts, queue: OpenQueue) -> None:
    """Remove what is over and unused."""
    keep, now = parts.settings.keep, parts.clock.now()
    claims = {claimed.place.name for claimed in queue.claims()}
    runs = prune_runs(
        Runs(parts.checkout, queue.kranz_fd), keep, InQueue(claims, lambda mission: _entry_ids(queue, mission)), now
    )
    quarantined = queue.prune_quarantine(keep.quarantine_count, keep.quarantine_age_s)
    leavings = queue.sweep_leavings(is_gone) + _sweep_beside(parts, queue)
    if runs or quarantined or leavings:
        emit(Swept(runs, quarantined, leavings))


def _sweep_beside(parts: Parts, queue: OpenQueue) -> int:
    """Remove what killed writers left beside the queue: in the folders of missions, and among the user's own files."""
    busy = {claimed.place.mission for claimed in queue.claims()}
    removed = sweep_missions(Runs(parts.checkout, queue.kranz_fd), is_gone, _is_old, busy)
    for path in parts.private_folders:
        with contextlib.suppress(OSError):  # it is not there, or no folder of ours
            fd = open_folder(path)
            try:
                removed += sweep_temporaries(fd, is_gone)
            finally:
                os.close(fd)
    return removed


def is_gone(pid: int, wrote_at: float) -> bool:
    """Whether the writer of a temporary file is proven gone, and the file so old that no other can be meant."""
    return _is_old(wrote_at) and judge_claim(pid, None, wrote_at).verdict is Liveness.GONE


def _is_old(wrote_at: float) -> bool:
    return time.time() - wrote_at >= _YOUNG_S


def _entry_ids(queue: OpenQueue, mission: MissionId) -> Container[str | None]:
    entries = [queue.read(place) for place in queue.places(mission)]
    return {entry.own.id if entry is not None and entry.own is not None else None for entry in entries}
