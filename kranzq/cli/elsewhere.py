"""The verbs that look at missions, at a server: list, status, why, history, logs, wait. The words are those of here."""

from __future__ import annotations

import collections
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kranzq.cli import elsewhere_told as told
from kranzq.cli.elsewhere_waiting import refuse_inside_mission_of, wait_for_end
from kranzq.cli.say import complain, is_screen, say, say_json
from kranzq.cli.showing import history_text, listing_text, sink, status_text, why_text
from kranzq.cli.which_server import missions_at
from kranzq.dispatch.output import PIECE, TAIL_LIMIT
from kranzq.model.ids import MissionId
from kranzq.model.state import State

if TYPE_CHECKING:
    from kranzq.client.remote_missions import RemoteMissions
    from kranzq.client.values import LogPiece
    from kranzq.dispatch.follow import MissionEnd

MOST_RUNS = 1000
"""Of a history at a time; a server gives no more."""
_AFTER_IT = "  On the machine of the server, type: kranzq recover"
THERE = "What is to be typed is meant for the machine of the server."


def list_(server: str, *, parked: bool, everything: bool, as_json: bool, every_s: float | None = None) -> None:
    """What waits; on a terminal every so many seconds, if that was asked for."""
    if is_screen() and not as_json:
        from kranzq.cli.screen.elsewhere import show_listing

        show_listing(server, every_s, parked=parked, everything=everything)
        return
    with missions_at(server) as missions:
        found = missions.listing(parked=parked, everything=everything)
    if as_json:
        say_json(found)
        return
    shown = told.read(missions.where, told.listing, found)
    listing_text(shown, parked=parked)
    _say_there(any(one.advice for one in shown.entries))


def status(server: str, *, as_json: bool, every_s: float | None = None) -> None:
    """What runs, and what needs a person; on a terminal every so many seconds, if that was asked for."""
    if is_screen() and not as_json:
        from kranzq.cli.screen.elsewhere import show_status

        show_status(server, every_s)
        return
    with missions_at(server) as missions:
        found = missions.status()
    if as_json:
        say_json(found)
        return
    shown = told.read(missions.where, told.status, found)
    status_text(shown, where=missions.where, version=str(found.get("version", "?")))
    _say_there(any(one.advice for one in shown.warnings))


def why(server: str, mission: str, *, as_json: bool) -> None:
    """Why a mission does not run."""
    with missions_at(server) as missions:
        found = missions.why(MissionId(mission))
    if as_json:
        say_json(found)
        return
    shown = told.read(missions.where, told.why, found)
    why_text(shown)
    _say_there(any(one.clear for one in shown.reasons))


def history(server: str, mission: str | None, *, last: int | None, everything: bool, as_json: bool) -> None:
    """How runs ended."""
    known = MissionId(mission) if mission is not None else None
    asked = min(last, MOST_RUNS) if last is not None else MOST_RUNS
    with missions_at(server) as missions:
        found = missions.history(known, last=asked, unended=everything)
    count = told.read(missions.where, lambda there: len(there["runs"]), found)
    if count == MOST_RUNS and last != MOST_RUNS:
        complain(f"There may be more: a server tells of the newest {MOST_RUNS} runs.")
    if as_json:
        say_json(found)
    else:
        history_text(told.read(missions.where, told.runs, found))


def logs(server: str, mission: str, *, run: int | None, follow: bool, tail: int | None) -> None:
    """A run's output."""
    known = MissionId(mission)
    with missions_at(server) as missions:
        number, begin = run, 0
        if tail is not None:
            number, begin = _tail(missions, known, run, tail)
        pieces = missions.follow(known, run=number, offset=begin)
        number = show(pieces if follow else _so_far(pieces), begin)
        if follow and not _has_ended(missions, known, number):
            complain(f"Run {number} of mission {known} has no recorded end: its keeper is gone.", _AFTER_IT)


def wait(server: str, mission: str, *, timeout_s: float | None) -> MissionEnd:
    """What a wait came to. Raises NoSuchMission."""
    known = MissionId(mission)
    with missions_at(server) as missions:
        refuse_inside_mission_of(missions, "wait", os.environ)
        seen = missions.one(known)
        is_waiting = told.read(missions.where, told.state, seen) in {State.QUEUED, State.WAITING}
        if is_waiting and told.read(missions.where, told.status, missions.status()).daemon is None:
            complain(
                "No daemon runs there, so it may wait for long.",
                "  Type there: kranzq daemon (or once: kranzq drain)",
            )
        return wait_for_end(missions, known, timeout_s=timeout_s)


def show(pieces: Iterator[LogPiece], begin: int) -> int:
    """Send what comes to the standard output; the run of which it is."""
    out, at, run = sink(), begin, 0
    for piece in pieces:
        run = piece.run
        if piece.start > at:
            out.gap(piece.start - at)
        if piece.data:
            out.data(piece.data)
        at = max(at, piece.next)
        out.pause()
    return run


def _so_far(pieces: Iterator[LogPiece]) -> Iterator[LogPiece]:
    """What is there now."""
    size: int | None = None
    for piece in pieces:
        yield piece
        size = piece.size if size is None else size
        if not piece.data or piece.next >= size:
            return


def _tail(missions: RemoteMissions, mission: MissionId, run: int | None, lines: int) -> tuple[int, int]:
    """The run, and where its last `lines` lines begin, looking back a bounded way only."""
    last = missions.log(mission, run=run, offset=-1, most=1)
    run, end, window = last.run, last.size, PIECE
    while True:
        begin = max(0, end - window)
        starts = collections.deque[int]([0] if begin == 0 and end else [], maxlen=min(lines, TAIL_LIMIT))
        for piece in _between(missions, mission, run, begin, end):
            starts.extend(at for at in _line_starts(piece) if at < end)
        if lines == 0:
            return run, end
        if len(starts) == lines or begin == 0:
            return run, starts[0] if starts else end
        if window >= TAIL_LIMIT:
            return run, begin
        window *= 4


def _between(missions: RemoteMissions, mission: MissionId, run: int, begin: int, end: int) -> Iterator[LogPiece]:
    at = begin
    while at < end:
        piece = missions.log(mission, run=run, offset=at, most=min(end - at, 4 * PIECE))
        if not piece.data:
            return
        yield piece
        at = piece.next


def _line_starts(piece: LogPiece) -> Iterator[int]:
    at = -1
    while (at := piece.data.find(b"\n", at + 1)) >= 0:
        yield piece.start + at + 1


def _has_ended(missions: RemoteMissions, mission: MissionId, run: int) -> bool:
    found = told.read(missions.where, told.runs, missions.one(mission))
    return next((one.outcome is not None for one in found if one.run == run), True)


def _say_there(is_advised: bool) -> None:
    if is_advised:
        say(THERE)
