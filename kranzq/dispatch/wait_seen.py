"""Why an entry waits, as people ask it: for its time, after a run that came to nothing, or for other missions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kranzq.dispatch.predecessors import Predecessors, Verdict
from kranzq.dispatch.tally import counters_of
from kranzq.model.claim import Place
from kranzq.model.entry import Entry
from kranzq.model.frozen import frozen
from kranzq.model.outcome import Outcome, Rotate, Wait
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord


@frozen
class WaitSeen:
    """What it waits for: a code for programs, half a sentence (empty: only its time), and what would clear it."""

    code: str
    text: str
    clear: str


class Waits:
    """One look at what waits; predecessors are examined only if something waits for them, and then once."""

    def __init__(self, runs: Runs, places: Callable[[], Iterable[Place]]) -> None:
        self._runs = runs
        self._places = places
        self._known: Predecessors | None = None

    def seen(self, place: Place, entry: Entry | None) -> WaitSeen:
        """Why the entry at a place below `waiting/` waits."""
        return self._for_others(place, entry) if place.due_ms is None else self._for_time(place, entry)

    def _for_others(self, place: Place, entry: Entry | None) -> WaitSeen:
        self._known = self._known or Predecessors(self._runs, self._places())
        after = entry.own.after if entry is not None and entry.own is not None else ()
        judged = self._known.judge(after, place.number)
        match judged.verdict:
            case Verdict.WAITS:
                return WaitSeen("after", judged.why, _after_clear(judged.why, place))
            case Verdict.SPOILED:
                return WaitSeen("after", f"{judged.why}: it will be parked", "See why that failed: kranzq history")
            case Verdict.SATISFIED:
                return WaitSeen(
                    "after", "all have succeeded", "The next turn lets it run: kranzq daemon, or kranzq drain"
                )

    def _for_time(self, place: Place, entry: Entry | None) -> WaitSeen:
        last = next((one for one in self._runs.records(place.mission) if _put_off(one, entry)), None)
        if last is None:
            return WaitSeen("not due", "", f"To let it run now: kranzq edit {place.mission} --not-before now")
        counted = counters_of(self._runs.records(place.mission), last)
        if last.outcome is Outcome.DEFERRED:
            tries = f"deferred {_times(counted.deferrals + 1)}"
        else:
            tries = f"{counted.failures + 1} of {last.retries} retries used"
        outcome = last.outcome.value if last.outcome is not None else "ended"
        reason = f", {last.reason.rstrip('.')}" if last.reason else ""
        text = f"run {last.run} {outcome}{reason}; {tries}"
        return WaitSeen("not due", text, f"To let it run now, with new counters: kranzq retry {place.mission}")


def _put_off(record: RunRecord, entry: Entry | None) -> bool:
    """Whether this run is why the entry waits: its fate says so, and it was the same life of the entry."""
    known = entry.id if entry is not None else None
    return isinstance(record.fate, Wait | Rotate) and record.entry.id == known


def _after_clear(why: str, place: Place) -> str:
    if "not seen yet" in why or "not in the queue" in why:
        return f"Enqueue that one; or take this one out: kranzq cancel {place.mission}"
    return "It runs when those have succeeded, and is parked when one has not"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
