"""Judges a storm from what was written down and what lies there in the end. Knows nothing of how kranzq is made.

What it is given: each call of a verb with its answer, each line that a mission wrote, each kill, how long-running
programs left, and, from the checkout after a last drain without kills, the run records and the entries that are left.
Times are nanoseconds of the monotonic clock, which all of them share. Whatever no rule explains is a finding.
"""

from __future__ import annotations

import collections
import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

LOST, DOUBLED, OVERLAPPING, STUCK, UNEXPLAINED = "lost", "doubled", "overlapping", "stuck", "unexplained"
KINDS = (LOST, DOUBLED, OVERLAPPING, STUCK, UNEXPLAINED)
LIMIT = "known limit"
"""No fault: what is documented as not promised. A leftover without its mark's locks, seen from another namespace."""
AT_MOST_INTERRUPTED = 3
CODES = {
    "enqueue": {0, 4, 6, 75},
    "cancel": {0, 3, 6, 75},
    "park": {0, 3, 4, 6, 75},
    "unpark": {0, 3, 4, 6, 75},
    "edit": {0, 3, 4, 6, 75},
    "list": {0},
    "recover": {0, 4, 6, 75},
    "daemon": {6, 75},
    "drain": {0, 1, 6, 75},
}
"""How a verb may leave. 1 of a drain: a mission did not succeed; 6 of all: the disk is full or read-only."""
ENDED_BY_KILL = "ended by kill"


@dataclass(frozen=True)
class Call:
    """One call of a verb; `code` is None for one that was killed, so that nobody knows what it did."""

    verb: str
    mission: str
    began: int
    returned: int
    code: int | None
    answer: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""


@dataclass(frozen=True)
class Left:
    """An entry that lies there in the end: its place, its id and, when parked, the reason."""

    mission: str
    id: str
    place: str
    reason: str = ""


@dataclass(frozen=True)
class Finding:
    """What is wrong, of which kind."""

    kind: str
    text: str


@dataclass(frozen=True)
class Facts:
    """All that is known of a storm. All but calls and what is left are as they were written: JSON objects."""

    calls: Sequence[Call] = ()
    lines: Sequence[Mapping[str, Any]] = ()
    kills: Sequence[Mapping[str, Any]] = ()
    runs: Sequence[Mapping[str, Any]] = ()
    left: Sequence[Left] = ()
    exits: Sequence[Mapping[str, Any]] = ()
    terms: Sequence[Mapping[str, Any]] = ()


def check(facts: Facts) -> list[Finding]:
    """Everything that is wrong or a known limit, in the order of the rules."""
    one = _History(facts)
    rules = (one.overlaps, one.starts, one.outcomes, one.lives, one.counts, one.rests, one.calls_judged, one.promises)
    return [finding for rule in rules for finding in rule()]


class _History:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.starts_of: dict[tuple[str, int], list[Mapping[str, Any]]] = collections.defaultdict(list)
        self.ends_of: dict[tuple[str, int], Mapping[str, Any]] = {}
        for line in facts.lines:
            key = line["mission"], line["run"]
            if line["what"] == "start":
                self.starts_of[key].append(line)
            elif line["what"] == "end":
                self.ends_of[key] = line
        self.runs_of: dict[str, list[Mapping[str, Any]]] = collections.defaultdict(list)
        self.lives_of: dict[tuple[str, str], list[Mapping[str, Any]]] = collections.defaultdict(list)
        for run in sorted(facts.runs, key=lambda one: one["run"]):
            self.runs_of[run["mission"]].append(run)
            self.lives_of[run["mission"], run["entry"]["id"]].append(run)
        self.calls_of: dict[str, list[Call]] = collections.defaultdict(list)
        for call in facts.calls:
            self.calls_of[call.mission].append(call)
        self.killed = {(kill["pid"], kill["ticks"]) for kill in facts.kills}
        self.told_to_end = {(term["pid"], term["ticks"]) for term in facts.terms}
        self.ended_namespaces = {kill["pidNs"] for kill in facts.kills if kill["kind"] == "namespace"}

    def overlaps(self) -> Iterator[Finding]:
        """Never two missions at the same time, nor one beside what another left; by their lock and by their times."""
        for line in self.facts.lines:
            if line["what"] == "overlap":
                other = _json(line.get("whom", ""))
                text = f"{_named(line)} met {_named(other)}, or what that left"
                yield Finding(LIMIT if self._is_limit(line, other) else OVERLAPPING, text)
        spans = [(starts[0]["at"], key, starts[0]) for key, starts in self.starts_of.items() if key in self.ends_of]
        last: Mapping[str, Any] = {}
        ended = 0
        for began, key, start in sorted(spans, key=lambda span: span[0]):
            if began < ended:
                yield Finding(OVERLAPPING, f"{_named(start)} began before {_named(last)} had ended")
            if (end := self.ends_of[key]["at"]) > ended:
                last, ended = start, end

    def starts(self) -> Iterator[Finding]:
        """A run starts its mission once, and there is a record of it that bears its nonce."""
        known = {(run["mission"], run["run"]): run for run in self.facts.runs}
        for (mission, number), starts in self.starts_of.items():
            if len(starts) > 1:
                yield Finding(DOUBLED, f"run {number} of {mission} began {len(starts)} times")
            run = known.get((mission, number))
            if run is None or {start["nonce"] for start in starts} != {run["nonce"]}:
                yield Finding(UNEXPLAINED, f"run {number} of {mission} began, and no record tells of it")

    def outcomes(self) -> Iterator[Finding]:
        """What is recorded of a run is what its mission did, and every interruption has a kill behind it."""
        for run in self.facts.runs:
            key = run["mission"], run["run"]
            began, end = self.starts_of.get(key), self.ends_of.get(key)
            code, outcome, name = end and end["code"], run["outcome"], f"run {key[1]} of {key[0]}"
            if run["kind"] == "cancel":
                if began:
                    yield Finding(UNEXPLAINED, f"{name} was cancelled before it began, and it began")
            elif run["state"] != "ended":
                if run["state"] != "claiming" or began:
                    yield Finding(STUCK, f"{name} is {run['state']} for ever")
            elif outcome in {"not started", "never began"}:
                if began:
                    yield Finding(UNEXPLAINED, f"{name} is recorded as {outcome}, and it began")
            elif outcome in {"succeeded", "deferred"}:
                if code != (0 if outcome == "succeeded" else 75):
                    yield Finding(UNEXPLAINED, f"{name} is recorded as {outcome}, and its mission ended with {code}")
            elif outcome == "failed":
                if code in {None, 0} and not self._was_killed(run, began):
                    yield Finding(UNEXPLAINED, f"{name} is recorded as failed ({run['reason']}), and nobody killed it")
            elif outcome == "interrupted":
                if (run.get("exit") or {}).get("endedAt") and run["counted"]:
                    yield Finding(DOUBLED, f"{name} had a recorded end and counts as interrupted ({run['reason']})")
                elif not self._keeper_was_struck(run):
                    yield Finding(
                        UNEXPLAINED, f"{name} was interrupted ({run['reason']}), and nobody struck its keeper"
                    )
            elif outcome == "cancelled":
                if not any(call.verb == "cancel" for call in self.calls_of[key[0]]):
                    yield Finding(UNEXPLAINED, f"{name} is recorded as cancelled, and nobody cancelled it")
            else:
                yield Finding(UNEXPLAINED, f"{name} is recorded as {outcome}")

    def lives(self) -> Iterator[Finding]:
        """One life of an entry ends once, runs no more then, and is interrupted no more often than allowed."""
        for (mission, _), runs in self.lives_of.items():
            ends = [run for run in runs if _is_last(run)]
            if len(ends) > 1:
                yield Finding(DOUBLED, f"{mission} ended in runs {', '.join(str(run['run']) for run in ends)}")
            later = [run["run"] for run in runs if ends and run["run"] > ends[0]["run"] and run["kind"] != "cancel"]
            again = [number for number in later if (mission, number) in self.starts_of]
            if again:
                yield Finding(DOUBLED, f"{mission} had ended in run {ends[0]['run']} and ran again in {again[0]}")
            interrupted = sum(run["outcome"] == "interrupted" and run["counted"] for run in runs)
            if interrupted > AT_MOST_INTERRUPTED:
                yield Finding(UNEXPLAINED, f"{mission} was interrupted {interrupted} times and not parked")

    def counts(self) -> Iterator[Finding]:
        """Each acknowledged enqueue came to exactly one end or lies there; of a killed one there is one or none."""
        ended = {key for key, runs in self.lives_of.items() if any(_is_last(run) for run in runs)}
        lying = {(one.mission, one.id) for one in self.facts.left}
        found = collections.Counter(mission for mission, _ in ended | lying)
        for mission in {*found, *self.calls_of}:
            enqueued = [call for call in self.calls_of[mission] if call.verb == "enqueue"]
            least = sum(call.code == 0 and bool(call.answer.get("created")) for call in enqueued)
            most = least + sum(call.code is None for call in enqueued)
            if found[mission] < least:
                yield Finding(LOST, f"{mission} was enqueued {least} times and found {found[mission]} times")
            if found[mission] > most:
                yield Finding(DOUBLED, f"{mission} was enqueued {most} times and found {found[mission]} times")
        for mission, life in self.lives_of.keys() - ended - lying:
            amended = any(call.verb in {"park", "unpark", "edit"} for call in self.calls_of[mission])
            began = any((mission, run["run"]) in self.starts_of for run in self.lives_of[mission, life])
            if not amended and began:
                yield Finding(LOST, f"{mission} ran as entry {life}, which neither ended nor lies there")

    def rests(self) -> Iterator[Finding]:
        """In the end nothing is queued or claimed, and what is parked is parked for a reason that we know."""
        for one in self.facts.left:
            if one.place in {"queue", "claim", "inbox"}:
                yield Finding(STUCK, f"{one.mission} is still {one.place} after the last drain")
            elif one.place == "quarantine":
                yield Finding(UNEXPLAINED, f"{one.mission} was quarantined: {one.reason}")
            elif one.place == "parked":
                interrupted = sum(
                    run["outcome"] == "interrupted" and run["counted"]
                    for run in self.lives_of.get((one.mission, one.id), ())
                )
                by_hand = any(call.verb == "park" and call.code in {0, None} for call in self.calls_of[one.mission])
                if interrupted < AT_MOST_INTERRUPTED and not by_hand:
                    yield Finding(UNEXPLAINED, f"{one.mission} is parked: {one.reason}")

    def calls_judged(self) -> Iterator[Finding]:
        """Verbs and programs end by a kill or with a code that their reference knows, never with a fault of theirs."""
        for call in self.facts.calls:
            if call.code is not None and call.code not in CODES[call.verb]:
                yield Finding(UNEXPLAINED, f"{call.verb} {call.mission} ended with {call.code}: {call.said}")
        for left in self.facts.exits:
            asked = {0, 143, -signal.SIGTERM} if self.told_to_end else set()  # the last: before it could listen
            if left["code"] != ENDED_BY_KILL and left["code"] not in CODES[left["program"]] | asked:
                yield Finding(UNEXPLAINED, f"a {left['program']} ended by itself with {left['code']}")

    def promises(self) -> Iterator[Finding]:
        """What was reported as cancelled or parked does not begin afterwards, unless somebody asked for it again."""
        for call in self.facts.calls:
            removed = call.verb == "cancel" and call.answer.get("result") == "removed"
            parked = call.verb == "park" and call.answer.get("state") == "parked"
            if call.code != 0 or not (removed or parked):
                continue
            back = {"enqueue"} if removed else {"enqueue", "unpark", "edit"}
            asked = [one.began for one in self.calls_of[call.mission] if one.verb in back and one.returned > call.began]
            for run in self.runs_of[call.mission]:
                for start in self.starts_of.get((call.mission, run["run"]), ()):
                    if start["at"] > call.returned and not any(at < start["at"] for at in asked):
                        yield Finding(UNEXPLAINED, f"{_named(start)} began after {call.verb} had taken it out")

    def _is_limit(self, line: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return other.get("plan") == "unlocked" and other.get("pidNs") != line["pidNs"]

    def _keeper_was_struck(self, run: Mapping[str, Any]) -> bool:
        """Killed, or, where it is not counted, asked to end: itself, or by a dispatcher that was told to stop."""
        keeper = run["keeper"]
        who = keeper["pid"], keeper["startTicks"]
        wished_by = ((run.get("exit") or {}).get("wish") or {}).get("who")
        told = {f"process {pid}" for pid, _ in self.told_to_end}
        asked = not run["counted"] and (who in self.told_to_end or wished_by in told)
        return asked or who in self.killed or keeper["pidNs"] in self.ended_namespaces

    def _was_killed(self, run: Mapping[str, Any], began: Sequence[Mapping[str, Any]] | None) -> bool:
        if began and began[0]["plan"] == "vanishes" and run["signal"] == signal.SIGKILL:
            return True
        process = run["process"]
        pids = {(start["pid"], start["ticks"]) for start in began or ()}
        pids |= {(process["pid"], process["startTicks"])} if process else set()
        struck = {signal.SIGKILL: self.killed, signal.SIGTERM: self.told_to_end}.get(run["signal"], set())
        return bool(pids & struck)


def _is_last(run: Mapping[str, Any]) -> bool:
    return (run["fate"] or {}).get("fate") == "retire"


def _named(line: Mapping[str, Any]) -> str:
    return f"run {line.get('run')} of {line.get('mission')} ({line.get('plan', '')} pid {line.get('pid')})"


def _json(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
