"""What missions have become since the last look: by the names in the queue and by the runs that began.

A look begins with the times of a few folders; only what has another time is listed, and only what has become another
thing is read. The clock of a file system is coarse: a folder that has just changed is listed once more.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kranzq.backend.watching import Seen
from kranzq.dispatch.aside_seen import inbox, mission_of_aside
from kranzq.dispatch.sight import LookQueue, OpenLook, distinct
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Place
from kranzq.model.clock import rfc3339
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord

_FOLDERS = ("queue", "queue/waiting", "queue/parked", "queue/inbox", "queue/quarantine", "missions")
_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 0.35
_SHARE = 10
"""A look may take one part in ten of the time, however large the queue is."""
_RANK = {State.CLAIMED: 0, State.QUEUED: 1, State.WAITING: 2, State.INBOX: 3, State.PARKED: 4}

Stamp = tuple[int, int, int]


@dataclass(slots=True)
class _Picture:
    """What one look found."""

    places: dict[str, list[Place]] = field(default_factory=dict)
    """All entries of each mission, the one that matters most first."""
    aside: dict[str, str] = field(default_factory=dict)
    """The names in the quarantine, with the reasons."""
    runs: dict[str, tuple[Stamp | None, int]] = field(default_factory=dict)
    """For each mission that has a folder: the time of the one that holds its runs, and the last run's number."""

    def news(self, now: _Picture) -> list[str]:
        """The missions that have become something else."""
        moved = [one for one in self.places.keys() | now.places.keys() if self.places.get(one) != now.places.get(one)]
        ran = [one for one, (_, last) in now.runs.items() if last > self.runs.get(one, (None, 0))[1]]
        return sorted({*moved, *ran})


class MissionWatch:
    """Satisfies `Watch` for the missions of a checkout. Changes nothing on disk."""

    def __init__(self, checkout: Checkout, open_look: OpenLook) -> None:
        self._checkout, self._open_look = checkout, open_look
        self._stamps: list[Stamp | None] = []
        self._is_settled = False
        self._picture: _Picture | None = None
        self.pause_s = _PAUSE_S

    def look(self) -> Seen:
        """What missions have become. Raises UnsafePath and what else opening the queue may raise."""
        stamps = [_stamp(f"{self._checkout.kranz}/{name}") for name in _FOLDERS]
        same = stamps == self._stamps
        if same and self._is_settled:
            return Seen()
        begun = time.monotonic()
        changes: tuple[dict[str, object], ...] = ()
        with self._open_look() as queue:
            before, now = self._picture, self._take(queue)
            if before is not None and queue is not None:
                changes = (*self._moved(queue, before, now), *_set_aside(before, now))
        self._stamps, self._is_settled, self._picture = stamps, same, now
        self.pause_s = min(max(_PAUSE_S, _SHARE * (time.monotonic() - begun)), _LONGEST_PAUSE_S)
        return Seen(changes)

    def _take(self, queue: LookQueue | None) -> _Picture:
        if queue is None:
            return _Picture()
        before, runs, places = self._picture or _Picture(), Runs(self._checkout, queue.kranz_fd), _places(queue)
        if missing := before.places.keys() - places.keys():  # what moves while two folders are listed is in neither
            places |= {mission: found for mission, found in _places(queue).items() if mission in missing}
        return _Picture(places, dict(queue.quarantined()), dict(self._runs(runs, before.runs)))

    def _runs(
        self, runs: Runs, known: Mapping[str, tuple[Stamp | None, int]]
    ) -> Iterator[tuple[str, tuple[Stamp | None, int]]]:
        """The last run of each mission; a folder is listed only if its time is another one."""
        for mission in runs.missions():
            stamp = _stamp(f"{self._checkout.missions}/{mission}/dispatch")
            before = known.get(mission)
            if before is not None and before[0] == stamp:
                yield mission, before
            else:
                yield mission, (stamp, max(runs.numbers(mission), default=0) if stamp is not None else 0)

    def _moved(self, queue: LookQueue, before: _Picture, now: _Picture) -> Iterator[dict[str, object]]:
        runs = Runs(self._checkout, queue.kranz_fd)
        for name in before.news(now):
            place = next(iter(now.places.get(name, ())), None)
            yield _told(name, place, runs.last(MissionId(name)), _why(queue, place))


def _places(queue: LookQueue) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = defaultdict(list)
    for place in distinct(queue.places()):
        found[place.mission].append(place)
    for entry in inbox(queue.fd)[0]:
        found[entry.mission].append(Place(State.INBOX, "", entry.mission, entry.priority, 0))
    return {mission: sorted(places, key=_in_order) for mission, places in found.items()}


def _set_aside(before: _Picture, now: _Picture) -> Iterator[dict[str, object]]:
    for name in sorted(now.aside.keys() - before.aside.keys()):
        told = _told(mission_of_aside(name), None, None, now.aside[name])
        yield told | {"state": State.QUARANTINED.value, "file": name}


def _told(name: str | None, place: Place | None, last: RunRecord | None, why: str) -> dict[str, object]:
    """A mission as the stream has it. The run is its newest one, which may be that of an earlier entry."""
    return {
        "mission": name,
        "state": (place.state if place is not None else State.GONE).value,
        "priority": place.priority if place is not None else None,
        "seq": place.number if place is not None and place.state is not State.INBOX else None,
        "due": rfc3339(place.due_ms / 1000) if place is not None and place.due_ms is not None else None,
        "run": last.run if last is not None else None,
        "outcome": last.outcome.value if last is not None and last.outcome is not None else None,
        "why": why,
        "file": None,
    }


def _why(queue: LookQueue, place: Place | None) -> str:
    return queue.why_parked(place) if place is not None and place.state is State.PARKED else ""


def _in_order(place: Place) -> tuple[int, int, int, str]:
    return _RANK.get(place.state, 9), place.priority, place.number, place.name


def _stamp(path: str) -> Stamp | None:
    """By what a folder is known that nothing was made, renamed or removed in; None where there is none."""
    try:
        seen = os.stat(path, follow_symlinks=False)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino, seen.st_mtime_ns
