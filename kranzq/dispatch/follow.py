"""Waiting for a mission's end, and following what its runs say. Each look opens the queue anew and holds nothing.

Following ends with the run, also when its keeper dies.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from typing import Literal

from kranzq.disk.read import GONE
from kranzq.dispatch.aside_seen import inbox, quarantined_as
from kranzq.dispatch.daemon_seen import look_for_daemon
from kranzq.dispatch.item_seen import still_working
from kranzq.dispatch.output import Output, Piece, Sink
from kranzq.dispatch.past import Run
from kranzq.dispatch.sight import LookQueue, OpenLook, distinct
from kranzq.liveness import judge
from kranzq.model.checkout import Checkout
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.model.process import Liveness
from kranzq.model.state import State
from kranzq.runs.folder import OUTPUT, RunFolder
from kranzq.runs.folders import Runs

_PAUSE_FIRST_S = 0.1
_PAUSE_MOST_S = 0.5
_LOOKS = 3
_SHARE = 30  # a look may take one part in thirty of the time, however large the queue is


Followed = Literal["ended", "lost", "no output"]
"""How following a run went; *lost*: its keeper is gone and no end was recorded."""
EndState = Literal["ended", "parked", "quarantined", "removed", "unknown", "timeout"]


@frozen
class MissionEnd:
    """What a wait came to. `run` is the last one where it ended by one; `reason` is half a sentence."""

    state: EndState
    run: Run | None = None
    reason: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the last run succeeded."""
        return self.state == "ended" and self.run is not None and self.run.outcome == Outcome.SUCCEEDED.value


def wait_for_end(
    open_queue: OpenLook,
    checkout: Checkout,
    mission: MissionId,
    *,
    timeout_s: float | None = None,
    sink: Sink | None = None,
    after_run: int | None = None,
) -> MissionEnd:
    """Wait until nothing of the mission waits or runs any more; with `sink`, the output of its runs goes there.

    Whoever has just enqueued gives the mission's last run before that as `after_run` (0: none): only what comes after
    it counts, however fast it ended.
    """
    watch = _Watch(checkout, mission, after_run)
    reader: _RunReader | None = None
    until = None if timeout_s is None else time.monotonic() + timeout_s
    looks = 0
    with contextlib.ExitStack() as stack:
        for pause in _pauses():
            began = time.monotonic()
            with open_queue() as queue:
                end = watch.look(queue)
                if sink is not None and queue is not None and (reader is None or reader.over):
                    reader = _next_reader(Runs(checkout, queue.kranz_fd), watch, reader, stack)
            if reader is not None and sink is not None:
                reader.pump(sink)
            if end is not None and (reader is None or reader.over):
                return end
            now = time.monotonic()
            looks += 1
            if until is not None and now >= until and looks >= _LOOKS:  # one look alone cannot tell an end for sure
                return MissionEnd("timeout", reason="it has not ended yet")
            rest = max(pause, min((now - began) * _SHARE, 2.0))
            time.sleep(rest if until is None else min(rest, max(0.0, until - now)))
    raise AssertionError("the pauses never end")


def nobody_dispatches(queue: LookQueue, mission: MissionId) -> bool:
    """Whether a mission waits in the queue and no daemon is there to take it."""
    states = {place.state for place in queue.places(mission) if place.mission == mission}
    return bool(states & {State.QUEUED, State.WAITING}) and look_for_daemon(queue.fd) is None


def follow_run(runs: Runs, mission: MissionId, run: int, sink: Sink, *, tail: int | None = None) -> Followed:
    """Send a run's output to `sink` until the run has ended; says whether its end is recorded."""
    with contextlib.ExitStack() as stack:
        reader = _RunReader.open(runs, mission, run, stack)
        if reader is None:
            return "no output"
        if tail is not None:
            reader.output.seek_tail(tail)
        for pause in _pauses():
            reader.pump(sink)
            if reader.over:
                return "ended" if _is_recorded(reader.folder) else "lost"
            time.sleep(pause)
    raise AssertionError("the pauses never end")


def show_run(runs: Runs, mission: MissionId, run: int, sink: Sink, *, tail: int | None = None) -> Followed:
    """Send what a run has said so far to `sink`."""
    with contextlib.ExitStack() as stack:
        reader = _RunReader.open(runs, mission, run, stack)
        if reader is None:
            return "no output"
        if tail is not None:
            reader.output.seek_tail(tail)
        reader.output.pump(sink)
    return "ended"


def read_piece(runs: Runs, mission: MissionId, run: int, offset: int, most: int) -> Piece | None:
    """At most so many bytes of a run's output from `offset` on (negative: from its end); None without output."""
    with contextlib.ExitStack() as stack:
        reader = _RunReader.open(runs, mission, run, stack)
        if reader is None:
            return None
        over = is_over(reader.folder)  # asked first: what is said before the end must not be missed
        at = offset if offset >= 0 else max(0, reader.output.size + offset)
        start, data, size = reader.output.read(at, most)
        return Piece(run, start, data, size, over)


def is_over(folder: RunFolder) -> bool:
    """Whether a run says nothing more: its end is recorded, or its keeper is gone, or its folder is."""
    record = folder.read()
    if record is None:
        return True
    end = folder.read_exit(record.nonce)
    return (
        record.state == "ended" or (end is not None and end.complete) or judge(record.keeper).verdict is Liveness.GONE
    )


def _is_recorded(folder: RunFolder) -> bool:
    record = folder.read()
    return record is not None and (record.state == "ended" or folder.read_exit(record.nonce) is not None)


class _RunReader:
    """One run's folder and output, open; `over` once the run has ended and everything was sent."""

    def __init__(self, folder: RunFolder, output: Output) -> None:
        self.folder = folder
        self.output = output
        self.over = False

    @classmethod
    def open(cls, runs: Runs, mission: MissionId, run: int, stack: contextlib.ExitStack) -> _RunReader | None:
        """The reader, or None when the run or its output is not there."""
        folder = runs.open(mission, run)
        if folder is None:
            return None
        with contextlib.ExitStack() as opened:
            opened.enter_context(folder)
            try:
                fd = os.open(OUTPUT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.fd)
            except OSError as fault:
                if fault.errno in GONE or fault.errno == errno.ELOOP:
                    return None
                raise
            opened.callback(os.close, fd)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            stack.push(opened.pop_all())
            return cls(folder, Output(fd))

    def pump(self, sink: Sink) -> None:
        """Send what is new."""
        over = is_over(self.folder)  # asked first: what is said before the end must not be missed
        self.output.pump(sink)
        self.over = over


class _Watch:
    """One mission's way through the queue, from the first look on."""

    def __init__(self, checkout: Checkout, mission: MissionId, after_run: int | None) -> None:
        self._checkout = checkout
        self.mission = mission
        self._active = after_run is not None
        self._missing = 0
        self.ended_before = after_run or 0
        """The last run that had ended before the first look: a later one is what is waited for."""

    def look(self, queue: LookQueue | None) -> MissionEnd | None:
        """The end, or None while there is something to wait for."""
        if queue is None:
            return self._gone(None)
        places = [place for place in distinct(queue.places(self.mission)) if place.mission == self.mission]
        places = still_working(Runs(self._checkout, queue.kranz_fd), places)
        waiting = [place for place in places if place.state is not State.PARKED]
        if not self._active:
            claims = {place.name for place in waiting if place.state is State.CLAIMED}
            records = Runs(self._checkout, queue.kranz_fd).records(self.mission)
            ended = (one.run for one in records if one.state == "ended" and one.claim not in claims)
            self.ended_before = next(ended, 0)
        if waiting or any(entry.mission == self.mission for entry in inbox(queue.fd)[0]):
            self._active, self._missing = True, 0
            return None
        if places:
            return MissionEnd("parked", reason=queue.why_parked(places[0]))
        # a file that moves while two folders are listed is in neither: only a second look proves that it is gone
        self._missing += 1
        return self._gone(queue) if self._missing > 1 else None

    def _gone(self, queue: LookQueue | None) -> MissionEnd:
        if queue is None:
            return MissionEnd("removed" if self._active else "unknown", reason="the checkout has no queue")
        records = Runs(self._checkout, queue.kranz_fd).records(self.mission)
        last = next((one for one in records if one.state == "ended"), None)
        aside = quarantined_as(queue, self.mission, last.number if last is not None else None)
        if aside is not None:
            return MissionEnd("quarantined", reason=aside[1])
        if self._active and (last is None or last.run <= self.ended_before):
            return MissionEnd("removed", reason="it was taken out of the queue before it ran")
        return MissionEnd("ended", Run.of(last), last.reason) if last is not None else MissionEnd("unknown")


def _next_reader(
    runs: Runs, watch: _Watch, before: _RunReader | None, stack: contextlib.ExitStack
) -> _RunReader | None:
    """The reader of the next run after the one that is over; the old one stays until there is one."""
    known = before.folder.run if before is not None else watch.ended_before
    following = next((run for run in runs.numbers(watch.mission) if run > known), None)
    opened = _RunReader.open(runs, watch.mission, following, stack) if following is not None else None
    return opened or before


def _pauses() -> Iterator[float]:
    pause = _PAUSE_FIRST_S
    while True:
        yield pause
        pause = min(pause * 1.2, _PAUSE_MOST_S)
