"""Judges what programs saw of a work queue while they hammered it and were killed. Knows nothing of how it is made.

A history is a list of calls. Each has a verb, its arguments, when it began and, unless its program was killed, when it
returned and with what. Times are nanoseconds of one clock that only grows. What a call did, it did somewhere between
the two; so a fault is told only where no order of the calls could explain what was seen.
"""

from __future__ import annotations

import collections
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SLACK_NS = 2_000_000
"""The queue counts its leases in whole milliseconds."""
HOLDERS_VERBS = ("heartbeat", "finish", "release")
EXPECTED = ("ItemLost", "NoSuchItem")
TERMINAL = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Call:
    """One call. `returned` is None for one that was cut off; `fault` is the name of the error that it raised."""

    verb: str
    began: int
    returned: int | None
    asked: dict[str, Any]
    answer: Any = None
    fault: str | None = None

    @property
    def accepted(self) -> bool:
        """Whether it came back without an error."""
        return self.returned is not None and self.fault is None

    @property
    def may_have_worked(self) -> bool:
        """Whether it came back without an error, or was cut off and nobody knows."""
        return self.fault is None


@dataclass(frozen=True)
class Grant:
    """One claim of one item: given some time between `began` and `returned`."""

    item: str
    attempt: int
    holder: str
    lease_ns: int
    began: int
    returned: int


@dataclass
class Kept:
    """An item as the database has it in the end, with its history: (attempt, holder, how it ended)."""

    state: str
    attempts: int
    result: str
    history: list[tuple[int, str, str | None]] = field(default_factory=list)


def read(folder: Path) -> list[Call]:
    """The calls that programs wrote down: a line before each call and one after it, each file by one thread.

    Several ends in one call have lines of their own, which are paired by their `part`.
    """
    calls = []
    for path in sorted(folder.glob("*.jsonl")):
        open_calls: dict[str, dict[str, Any]] = {}
        for line in path.read_text().splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue  # cut off in the middle of a line, which is the last
            part = said.get("part", "")
            if said["phase"] == "call":
                open_calls[part] = said
            else:
                began = open_calls.pop(part)
                calls.append(
                    Call(began["verb"], began["at"], said["at"], began["asked"], said.get("answer"), said.get("fault"))
                )
        calls += [Call(began["verb"], began["at"], None, began["asked"]) for began in open_calls.values()]
    return sorted(calls, key=lambda call: call.began)


def check(calls: Sequence[Call], kept: dict[str, Kept], *, drained: bool) -> list[str]:
    """Everything that is wrong, as sentences; with `drained` nothing may be left that has not ended."""
    history = _History(calls)
    return [
        *history.unexpected_faults(),
        *history.fences(),
        *history.two_holders(),
        *history.stale_calls(),
        *history.refused_holders(),
        *history.ends(kept),
        *history.lost_items(kept, drained=drained),
        *_kept(history, kept),
    ]


class _History:
    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.grants: dict[str, list[Grant]] = collections.defaultdict(list)
        self.by_claim: dict[tuple[str, int], list[Call]] = collections.defaultdict(list)
        self.by_item: dict[str, list[Call]] = collections.defaultdict(list)
        self.cancels: dict[str, list[Call]] = collections.defaultdict(list)
        self.pruned = min((call.began for call in calls if call.verb == "prune"), default=None)
        known: set[tuple[str, int, str, str]] = set()
        for call in calls:
            if call.verb == "claim" and call.accepted:
                for item, attempt in call.answer:
                    if (request := call.asked.get("request", "")) and (
                        item,
                        attempt,
                        call.asked["holder"],
                        request,
                    ) in known:
                        continue  # the answer to the same request once more
                    known.add((item, attempt, call.asked["holder"], request))
                    lease, back = call.asked["lease_ms"] * 1_000_000, call.returned or 0
                    self.grants[item].append(Grant(item, attempt, call.asked["holder"], lease, call.began, back))
            elif call.verb in HOLDERS_VERBS:
                self.by_claim[call.asked["item"], call.asked["attempt"]].append(call)
                self.by_item[call.asked["item"]].append(call)
            elif call.verb == "cancel":
                self.cancels[call.asked["item"]].append(call)
        for grants in self.grants.values():
            grants.sort(key=lambda grant: grant.attempt)

    def unexpected_faults(self) -> Iterator[str]:
        """A caller is told that it lost its item, or that there is none; nothing else may happen to it."""
        for call in self.calls:
            if call.fault is not None and call.fault.partition(":")[0] not in EXPECTED:
                yield f"{call.verb} {call.asked} raised {call.fault}"
            if call.fault == "NoSuchItem" and not self._pruned_before(call.returned or 0):
                yield f"{call.verb} {call.asked} did not find the item, and nothing had been pruned"

    def fences(self) -> Iterator[str]:
        """Attempts are given once, and those that were given later are higher."""
        for item, grants in self.grants.items():
            for one, other in itertools.pairwise(grants):
                if one.attempt == other.attempt:
                    yield f"{item}: attempt {one.attempt} was given to {one.holder} and to {other.holder}"
            earliest = None
            for grant in reversed(grants):
                if earliest is not None and earliest < grant.began:
                    yield f"{item}: attempt {grant.attempt} was given after a higher one"
                earliest = grant.returned if earliest is None else min(earliest, grant.returned)

    def two_holders(self) -> Iterator[str]:
        """While somebody surely holds an item, nobody else gets it."""
        for item, grants in self.grants.items():
            for one in grants:
                end = self._surely_until(one)
                for other in grants:
                    if other.attempt != one.attempt and one.returned < other.began and other.returned < end:
                        yield (
                            f"{item}: {one.holder} held attempt {one.attempt} when {other.holder} got {other.attempt}"
                        )

    def stale_calls(self) -> Iterator[str]:
        """No call is accepted of somebody who never had the attempt, or when a later one had been given before."""
        for (item, attempt), calls in self.by_claim.items():
            grants = self.grants[item]
            mine = {grant.holder for grant in grants if grant.attempt == attempt}
            later = min((grant.returned for grant in grants if grant.attempt > attempt), default=None)
            for call in calls:
                if not call.accepted:
                    continue
                if call.asked["holder"] not in mine:
                    yield f"{item}: {call.verb} of attempt {attempt} was accepted of {call.asked['holder']}"
                elif later is not None and later < call.began and not self._is_repeated(call):
                    yield f"{item}: {call.verb} of attempt {attempt} was accepted after a later claim"

    def refused_holders(self) -> Iterator[str]:
        """Who surely holds an item is never told that it does not."""
        for (item, attempt), calls in self.by_claim.items():
            for grant in self.grants[item]:
                if grant.attempt != attempt:
                    continue
                for call in calls:
                    until = self._surely_until(grant, besides=call)
                    refused = call.fault is not None and call.asked["holder"] == grant.holder
                    if refused and grant.returned < call.began and (call.returned or 0) < until:
                        yield f"{item}: {call.verb} of attempt {attempt} was refused to its holder ({call.fault})"

    def ends(self, kept: dict[str, Kept]) -> Iterator[str]:
        """An item ends once; what was reported as its end is what it ended with, and nobody gets it afterwards."""
        for item, told in self._ends().items():
            if len({end for end, _ in told}) > 1:
                yield f"{item} ended more than once: {sorted({str(end) for end, _ in told})}"
            (state, result), at = told[0][0], min(returned for _, returned in told)
            if item in kept and kept[item].state != state:
                yield f"{item} ended as {state} and is kept as {kept[item].state}"
            elif item in kept and result is not None and kept[item].result != result:
                yield f"{item} ended with {result!r} and is kept with {kept[item].result!r}"
            for grant in self.grants[item]:
                if grant.began > at:
                    yield f"{item} had ended as {state} when {grant.holder} got attempt {grant.attempt}"

    def lost_items(self, kept: dict[str, Kept], *, drained: bool) -> Iterator[str]:
        """What was reported as enqueued is there, or has ended and was pruned."""
        ended = self._ends()
        for call in self.calls:
            if call.verb != "enqueue" or not call.accepted:
                continue
            for item in call.asked["items"]:
                if item not in kept and not (self._pruned_before(None) and self._may_have_ended(item, ended)):
                    yield f"{item} was enqueued and is gone"
        asked = {item for call in self.calls if call.verb == "enqueue" for item in call.asked["items"]}
        for item, row in kept.items():
            if item not in asked:
                yield f"{item} is there, and nobody enqueued it"
            if drained and row.state not in TERMINAL:
                yield f"{item} is {row.state}, and nobody got it although everything was claimed in the end"

    def _ends(self) -> dict[str, list[tuple[tuple[str, str | None], int]]]:
        """For each item the ends that were reported, with the time at which each was known."""
        told: dict[str, list[tuple[tuple[str, str | None], int]]] = collections.defaultdict(list)
        for call in self.calls:
            if not call.accepted or call.returned is None:
                continue
            if call.verb == "finish":
                told[call.asked["item"]].append(((call.asked["state"], call.asked["result"]), call.returned))
            elif call.verb == "release" and call.answer == "failed" and not self._is_repeated(call):
                told[call.asked["item"]].append((("failed", call.asked["result"]), call.returned))
            elif call.verb == "cancel" and call.answer:
                told[call.asked["item"]].append((("cancelled", call.asked["result"]), call.returned))
            elif call.verb == "sweep":
                for item in call.answer["failed"]:
                    told[item].append((("failed", None), call.returned))
        return told

    def _may_have_ended(self, item: str, ended: dict[str, Any]) -> bool:
        calls = (*self.by_item[item], *self.cancels[item])
        unknown = any(call.may_have_worked and call.verb != "heartbeat" for call in calls)
        return item in ended or unknown or bool(self.grants[item])

    def _surely_until(self, grant: Grant, besides: Call | None = None) -> int:
        """Until when a claim surely counts: the earliest end of its last lease, or the first call that may end it."""
        calls = [call for call in self.by_claim[grant.item, grant.attempt] if call.asked["holder"] == grant.holder]
        leases = [
            call.began + call.asked["lease_ms"] * 1_000_000
            for call in calls
            if call.verb == "heartbeat" and call.accepted
        ]
        ends = [call.began for call in calls if call.verb in {"finish", "release"} and call is not besides]
        ends += [call.began for call in self.cancels[grant.item]]
        lease_ends: int = max([grant.began + grant.lease_ns, *leases]) - SLACK_NS
        return min([lease_ends, *ends])

    def _is_repeated(self, call: Call) -> bool:
        """Whether the same end was said before: to say it again is no claim on anything."""
        return call.verb != "heartbeat" and any(
            other.began < call.began and other.may_have_worked and (other.verb, other.asked) == (call.verb, call.asked)
            for other in self.by_claim[call.asked["item"], call.asked["attempt"]]
        )

    def _pruned_before(self, at: int | None) -> bool:
        return self.pruned is not None and (at is None or self.pruned < at)


def _kept(history: _History, kept: dict[str, Kept]) -> Iterator[str]:
    """The database's own history tells of every claim that was given, and of no attempt twice or left out."""
    for item, row in kept.items():
        told = {attempt: holder for attempt, holder, _ in row.history}
        if sorted(told) != list(range(1, row.attempts + 1)) or len(told) != len(row.history):
            yield f"{item} has had {row.attempts} attempts, and its history tells of {sorted(told)}"
        for grant in history.grants[item]:
            if told.get(grant.attempt) != grant.holder:
                yield f"{item}: attempt {grant.attempt} was given to {grant.holder}, kept is {told.get(grant.attempt)}"
        done = sum(ended == "done" for _, _, ended in row.history)
        if done != (row.state == "done"):
            yield f"{item} is {row.state}, and {done} of its attempts are done"


def counts(calls: Sequence[Call]) -> str:
    """How often each verb was called, refused and cut off, for people."""
    by_verb: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for call in calls:
        kind = "cut off" if call.returned is None else "refused" if call.fault else "accepted"
        by_verb[call.verb][kind] += 1
    return "".join(
        f"{verb:10}" + "".join(f"  {many:7} {kind}" for kind, many in sorted(told.items())) + "\n"
        for verb, told in sorted(by_verb.items())
    )
