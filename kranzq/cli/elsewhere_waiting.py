"""Waiting for the end of a mission at a server, by looks that grow rare; with its output meanwhile, if it is wanted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from kranzq.cli import elsewhere_told as told
from kranzq.cli.say import complain
from kranzq.dispatch.follow import MissionEnd
from kranzq.errors import InsideMission, KranzqError, NoSuchMission, NotFound
from kranzq.model.ids import MissionId
from kranzq.model.state import State

if TYPE_CHECKING:
    from kranzq.client.remote_missions import RemoteMissions
    from kranzq.client.values import LogPiece
    from kranzq.dispatch.past import Run

_FIRST_S, _MOST_S = 0.1, 2.0
_LOOKS = 3
_GONE_TWICE = 2
"""A file that moves while two folders are listed is in neither: only a second look proves that it is gone."""
_UNATTENDED_S = 10.0
"""Between two looks whether somebody there will settle the end that is waited for."""
Show = Callable[[Iterator["LogPiece"], int], object]


def wait_for_end(
    missions: RemoteMissions,
    mission: MissionId,
    *,
    timeout_s: float | None = None,
    show: Show | None = None,
    after_run: int | None = None,
) -> MissionEnd:
    """As the wait in a checkout: until nothing of the mission waits or runs. `show` is given the output of its runs.

    Whoever has just enqueued gives the mission's last run before that as `after_run`. Raises NoSuchMission.
    """
    watch = _Watch(missions, mission, after_run)
    until, pause, looks = None if timeout_s is None else time.monotonic() + timeout_s, _FIRST_S, 0
    while True:
        end = watch.look()
        if show is not None:
            watch.show_runs(show)
        if end is not None:
            return end
        looks += 1
        now = time.monotonic()
        if until is not None and now >= until and looks >= _LOOKS:
            return MissionEnd("timeout", reason="it has not ended yet")
        time.sleep(pause if until is None else min(pause, max(0.0, until - now)))
        pause = min(pause * 1.3, _MOST_S)


class _Watch:
    """One mission's way, from the first look on."""

    def __init__(self, missions: RemoteMissions, mission: MissionId, after_run: int | None) -> None:
        self._missions, self._mission = missions, mission
        self._is_active, self._before, self._missing = after_run is not None, after_run, 0
        self._shown = after_run
        self._runs: list[Run] = []
        self._unattended = Unattended(missions, mission)

    def look(self) -> MissionEnd | None:
        """The end, or None while there is something to wait for."""
        seen = self._missions.one(self._mission)
        state = told.read(self._missions.where, lambda found: State(found["state"]), seen)
        self._runs = told.read(self._missions.where, told.runs, seen)
        ended = [one for one in self._runs if one.outcome is not None]
        if self._before is None:
            settled = self._runs[:-1] if state is State.CLAIMED else self._runs  # the newest run may be the claim's
            self._before = max((one.run for one in settled if one.outcome is not None), default=0)
            self._shown = self._before
        if state is State.PARKED:
            notes = told.read(self._missions.where, told.notes, seen)
            return MissionEnd("parked", reason=notes[0] if notes else "")
        if state is State.QUARANTINED:
            return MissionEnd("quarantined", reason=self._why())
        if state is not State.GONE:
            if state is State.CLAIMED:
                self._unattended.tell()
            self._is_active, self._missing = True, 0
            return None
        self._missing += 1
        if self._missing < _GONE_TWICE:
            return None
        last = max(ended, key=lambda one: one.run, default=None)
        if self._is_active and (last is None or last.run <= self._before):
            return MissionEnd("removed", reason="it was taken out of the queue before it ran")
        if last is None:
            raise NoSuchMission(self._mission)
        return MissionEnd("ended", last, last.reason)

    def show_runs(self, show: Show) -> None:
        """The output of runs that were not shown yet, each to its end."""
        for run in sorted(one.run for one in self._runs if one.run > (self._shown or 0)):
            try:
                show(self._missions.follow(self._mission, run=run), 0)
            except NotFound:  # it says nothing yet: perhaps at the next look
                return
            self._shown = run

    def _why(self) -> str:
        found = told.read(self._missions.where, told.why, self._missions.why(self._mission))
        return "; ".join(one.text for one in found.reasons)


class Unattended:
    """Whether nobody there settles the end of a mission, told once: whoever waits here cannot settle it.

    Its dispatcher may have been killed; the keeper ends the run all the same, and no look tells of it.
    """

    def __init__(self, missions: RemoteMissions, mission: MissionId) -> None:
        self._missions, self._mission = missions, mission
        self._due, self._has_told = float("-inf"), False

    def tell(self) -> None:
        """Look, if it is time to, and say what to type there."""
        if self._has_told or time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _UNATTENDED_S
        try:
            seen = told.read(self._missions.where, told.status, self._missions.status())
        except KranzqError:
            return  # what is waited for is asked for by itself, and says so if it cannot be had
        if seen.daemon is None and (notices := [one for one in seen.warnings if "daemon" in one.advice]):
            self._has_told = True
            text = f"{self._mission} may be waited for in vain: {notices[0].text}."
            complain(text, f"  On the machine of the server: {notices[0].advice}")


def refuse_inside_mission_of(missions: RemoteMissions, verb: str, environ: Mapping[str, str]) -> None:
    """Raise InsideMission where this process belongs to a mission of the checkout that a server of this machine has."""
    if not environ.get("KRANZ_CLAIM") or not missions.where.startswith("unix:"):
        return
    if os.path.realpath(environ.get("KRANZ_REPO", "")) == missions.status().get("repo"):
        raise InsideMission(verb, environ.get("KRANZ_MISSION_ID", "?"))
