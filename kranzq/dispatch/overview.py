"""All that a screen shows of one checkout at one moment: its state, what lies in it, and what the running mission does.

More than `status` tells, since it costs more: every entry is read, and the processes of the mission are looked at.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from kranzq import __version__
from kranzq.dispatch.busy_seen import BusySeen
from kranzq.dispatch.follow import read_piece
from kranzq.dispatch.listed import Listing
from kranzq.dispatch.look import listing
from kranzq.dispatch.sight import Sight
from kranzq.dispatch.status import Status, Thresholds, status
from kranzq.dispatch.status import nothing_there as no_status
from kranzq.liveness.usage import Usage, usage_below
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.runs.folders import Runs

_STATES = frozenset({State.CLAIMED, State.QUEUED, State.WAITING, State.INBOX, State.PARKED})
_TAIL = 4096


@frozen
class RunningSeen:
    """What the running mission does. `usage` is that of all its processes, None where they cannot be seen."""

    usage: Usage | None
    last_line: str
    """The last line of output that says anything, as it was printed: it may drive a terminal."""


@frozen
class Overview:
    """One checkout at one moment; `at` is in wall seconds."""

    status: Status
    listing: Listing
    running: RunningSeen | None
    at: float
    version: str = __version__
    """That of the program which looked."""


def nothing_there(repo: str) -> Overview:
    """What is to be seen of a checkout without a queue."""
    return Overview(no_status(repo), Listing(), None, time.time())


def overview(sight: Sight, thresholds: Callable[[], Thresholds]) -> Overview:
    """Look at everything once; nothing is changed."""
    seen = status(sight, thresholds)
    found = listing(sight, _STATES, quarantined=True)
    return Overview(seen, found, _running(sight, seen.busy), sight.clock.now())


def _running(sight: Sight, busy: BusySeen | None) -> RunningSeen | None:
    if busy is None or busy.mission is None or busy.run is None:
        return None
    runs = Runs(sight.checkout, sight.queue.kranz_fd)
    try:
        piece = read_piece(runs, MissionId(busy.mission), busy.run, -_TAIL, _TAIL)
    except OSError:
        piece = None
    usage = usage_below(busy.pid) if busy.by == "keeper" and busy.pid and busy.pid != os.getpid() else None
    return RunningSeen(usage, last_line(piece.data) if piece is not None else "")


def last_line(data: bytes) -> str:
    """The last line that says anything. What a progress bar has overwritten in its line is left out."""
    for line in reversed(data.replace(b"\r", b"\n").split(b"\n")):
        if text := line.decode("utf-8", "replace").strip():
            return text
    return ""
