"""How the looking verbs show what they found to people: short tables, local times, what to type next."""

from __future__ import annotations

import codecs
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from kranzq import __version__
from kranzq.cli.say import clean, clean_output, duration, local_time, say, say_styled, shade
from kranzq.cli.tables import fitted
from kranzq.dispatch.daemon_seen import DaemonSeen, HiddenDaemon
from kranzq.model.clock import seconds_of
from kranzq.model.state import State

if TYPE_CHECKING:
    from kranzq.dispatch.busy_seen import BusySeen
    from kranzq.dispatch.follow import MissionEnd
    from kranzq.dispatch.listed import Listed, Listing
    from kranzq.dispatch.output import Sink
    from kranzq.dispatch.past import Run
    from kranzq.dispatch.status import Status
    from kranzq.dispatch.why import Why


def listing_text(found: Listing, *, parked: bool) -> None:
    """The table of entries, then the files that are none."""
    rows = [(one.mission, str(one.priority), _seq(one), one.state.value, _remark(one)) for one in found.entries]
    if rows:
        fitted(("MISSION", "PRIO", "SEQ", "STATE", ""), rows)
    elif not found.bad and not found.quarantined:
        say("Nothing is parked." if parked else "Nothing waits.")
    advice = dict.fromkeys(one.advice for one in found.entries if one.advice and one.state is not State.PARKED)
    for text in advice:
        say(f"  {text}")
    if parked and rows:
        say("  When one may run again: kranzq unpark MISSION")
    for name, why in found.bad:
        say(f"! {name} is no entry: {why}")
    for name, why in found.quarantined:
        say(f"quarantined  {name}: {why}")


def status_text(found: Status, *, where: str = "", version: str = __version__) -> None:
    """A short screen: what runs, since when, what waits, whether a daemon is there, what to look at.

    `where` is the server that was asked, if one was, and `version` its own.
    """
    say_styled(shade(found.repo, bold=True) + clean(f"{f' at {where}' if where else ''}  (kranzq {version})"))
    say(f"  runs     {_runs(found.busy)}{f'; kranz says {found.kranz}' if found.kranz is not None else ''}")
    say(f"  daemon   {daemon_text(found.daemon)}")
    counts = ", ".join(f"{number} {word}" for word, number in found.counts.items() if number or word == "queued")
    say(f"  queue    {counts}")
    if found.first:
        say(f"  next     {', '.join(found.first)}")
    if found.next_due is not None:
        say(f"  due      the next one at {local_time(found.next_due)}")
    for text in found.waits:
        say(f"  waits    {text}")
    if found.paused is not None:
        say_styled("  " + shade(f"paused   {found.paused}. Go on with: kranzq resume", fg="yellow"))
    for notice in found.warnings:
        say_styled(shade("! ", fg="yellow") + clean(notice.text))
        if notice.advice:
            say(f"    {notice.advice}")


def why_text(answer: Why) -> None:
    """The reasons, the first that bites first."""
    where = {State.INBOX: "is in the inbox", State.GONE: "has ended"}.get(answer.state, f"is {answer.state.value}")
    held_up = any(one.code not in {"kranz", "tree"} for one in answer.reasons)
    next_ = "" if held_up else "; nothing holds it up: it is next"
    say_styled(shade(answer.mission, bold=True) + f" {where}{next_}")
    for reason in answer.reasons:
        say(f"  {reason.text}")
        if reason.clear:
            say(f"      {reason.clear}")


def history_text(found: Iterable[Run]) -> None:
    """The table of runs."""
    rows = [
        (
            record.mission,
            str(record.run),
            record.outcome or record.state,
            record.fate or "-",
            local_time(seconds_of(record.started_at)),
            _took(record),
            _about(record),
        )
        for record in found
    ]
    if rows:
        fitted(("MISSION", "RUN", "OUTCOME", "FATE", "STARTED", "TOOK", ""), rows)
    else:
        say("Nothing has run yet.")


def end_text(mission: str, end: MissionEnd) -> str:
    """One line: what a wait came to."""
    what = f"run {end.run.run} {end.run.outcome}" if end.run is not None else end.state
    return f"{mission}: {what}" + (f", {end.reason}" if end.reason else "")


def end_json(mission: str, end: MissionEnd) -> dict[str, object]:
    """What a wait came to, with stable keys."""
    return {
        "mission": mission,
        "state": end.state,
        "run": end.run.run if end.run is not None else None,
        "outcome": end.run.outcome if end.run is not None else None,
        "exitCode": end.run.exit_code if end.run is not None else None,
        "signal": end.run.signal if end.run is not None else None,
        "reason": end.reason,
    }


def sink() -> Sink:
    """Where output of missions goes: a terminal gets it cleaned, anything else byte by byte."""
    return _Terminal(sys.stdout) if sys.stdout.isatty() else _Plain()


class _Plain:
    """Bytes as they are; a gap is a line of its own."""

    def data(self, piece: bytes) -> None:
        sys.stdout.buffer.write(piece)

    def gap(self, size: int) -> None:
        sys.stdout.buffer.write(f"\n{_gap(size)}\n".encode())

    def pause(self) -> None:
        sys.stdout.buffer.flush()


class _Terminal:
    """Line by line, with control characters shown instead of acting."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def data(self, piece: bytes) -> None:
        text = self._decoder.decode(piece).replace("\r\n", "\n").replace("\r", "\n")
        for line in text.splitlines(keepends=True):
            self._stream.write(clean_output(line))

    def gap(self, size: int) -> None:
        self._stream.write(f"\n{_gap(size)}\n")

    def pause(self) -> None:
        self._stream.flush()


def _gap(size: int) -> str:
    return f"… {size} bytes left out …"


def _seq(one: Listed) -> str:
    return "-" if one.seq is None else str(one.seq)


def _remark(one: Listed) -> str:
    parts = [f"due {local_time(one.due_ms / 1000)}"] if one.due_ms is not None else []
    parts += [f"after {', '.join(one.waiting_for)}"] if one.waiting_for else []
    parts += [one.note] if one.note else []
    return "; ".join(parts)


def _runs(busy: BusySeen | None) -> str:
    if busy is None:
        return "nothing"
    now = time.time()
    lasts = f", for {duration(now - busy.since)} (since {local_time(busy.since)})" if busy.since is not None else ""
    if busy.by not in {"keeper", "claim"} or busy.mission is None:
        return f"busy: {busy.text}{lasts}"
    run = f", run {busy.run}" if busy.run is not None else ""
    spoke = (
        f"; last output {duration(now - busy.last_output)} ago" if busy.last_output is not None else "; no output yet"
    )
    keeper = f"keeper {busy.pid}" if busy.pid is not None else "its keeper in another pid namespace"
    keeper += f" of user {busy.user}" if busy.user is not None else ""
    process = f"pid {busy.process}, " if busy.process is not None else ""
    return f"{busy.mission}{run}{lasts}, {process}{keeper}{spoke}"


def daemon_text(daemon: DaemonSeen | HiddenDaemon | None) -> str:
    """What is known of a daemon, in one line."""
    match daemon:
        case None:
            return "none"
        case HiddenDaemon(why):
            return f"cannot be seen from here: {why}"
        case DaemonSeen():
            looked = seconds_of(daemon.last_scan)
            parts = [f"pid {daemon.pid}", f"since {local_time(seconds_of(daemon.since))}"]
            parts += [f"wakes on {daemon.watching}"] if daemon.watching else []
            parts += [f"last look {duration(time.time() - looked)} ago"] if looked is not None else []
            parts += ["stopping"] if daemon.stopping else []
            return ", ".join(parts)


def _about(record: Run) -> str:
    parts = [record.reason] if record.reason and record.outcome != "succeeded" else []
    return "; ".join(parts + ([f"kranz says {record.kranz}"] if record.kranz is not None else []))


def _took(record: Run) -> str:
    start, end = seconds_of(record.started_at), seconds_of(record.ended_at)
    return duration(end - start) if start is not None and end is not None else "-"
