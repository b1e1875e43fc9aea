"""Recovery: every claim of a gone holder goes where it belongs, with the proof beside it. Safe for anybody at any time.

First the claims, then, if it was not ours to take, the busy lock. What a gone run left is ended before its claim moves;
its record is read after the holder's death is proven.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kranzq.busy.lock import Hold
from kranzq.dispatch.evidence import Backstop, judge_holder
from kranzq.dispatch.parts import OpenQueue, Parts
from kranzq.dispatch.recovered import MOVED, REFUSED, action_of, refusal
from kranzq.dispatch.settle import settle, settle_place
from kranzq.dispatch.survivors import reported_survivors
from kranzq.errors import Refused
from kranzq.events import LeftoversEnded, PutBack, emit
from kranzq.model.claim import Claimed
from kranzq.model.frozen import frozen
from kranzq.model.outcome import Return
from kranzq.model.process import Judgement, Liveness
from kranzq.progress import advance
from kranzq.runs.folders import Runs
from kranzq.runs.holders import Situation, judge_lock
from kranzq.runs.leftovers import Leftover, Seen, end, look
from kranzq.runs.record import RunRecord

Confirm = Callable[[str, tuple[Leftover, ...]], bool]
"""Asked before leftovers are ended; says yes or no."""


@frozen
class Finding:
    """One claim: the verdict on its holder, the evidence, and what was done or would be."""

    claim: str
    mission: str
    verdict: Liveness
    evidence: str
    action: str
    run: int | None = None
    has_record: bool = False
    by_bare_pid: bool = False
    leftovers: tuple[Leftover, ...] = ()

    @property
    def explained(self) -> bool:
        """Whether nothing is left to find out or to end about it."""
        is_open = bool(self.leftovers) or self.is_refused
        return self.verdict is Liveness.ALIVE or (self.verdict is Liveness.GONE and not is_open)

    @property
    def is_refused(self) -> bool:
        """Whether this user may not write what settling it takes. The other claims are settled all the same."""
        return self.action.startswith(REFUSED)


@frozen
class Report:
    """What recovery found. `lock` says in half a sentence why the busy lock is held, None when it is free."""

    findings: tuple[Finding, ...]
    lock: str | None = None
    leftovers: tuple[Leftover, ...] = ()
    cannot_look: tuple[int, ...] = ()
    ended: tuple[Leftover, ...] = ()
    moved: int = 0
    keeper: int | None = None
    clear: str = ""
    """What a person can type about a lock of kranz's whose holder cannot be judged."""

    @property
    def explained(self) -> bool:
        """Whether no unknown claim and no leftover remains."""
        return not self.leftovers and all(finding.explained for finding in self.findings)


@dataclass(slots=True)
class Recovery:
    """One recovery of an open queue. `hold` is the busy lock, if the caller has it."""

    parts: Parts
    queue: OpenQueue
    backstop: Backstop
    hold: Hold | None = None
    kill: bool = True
    dry_run: bool = False
    confirm: Confirm | None = None
    _ended: list[Leftover] = field(default_factory=list)
    runs: Runs = field(init=False)

    def __post_init__(self) -> None:
        """Look where the queue lies."""
        self.runs = Runs(self.parts.checkout, self.queue.kranz_fd)

    def recover(self) -> Report:
        """Judge all claims, move what is gone, then look at the lock."""
        judged = self._judge_all(self.queue.claims())
        spare = frozenset(
            record.nonce for _, record, verdict in judged if record is not None and verdict.verdict is not Liveness.GONE
        )
        bare = [one for one, record, verdict in judged if record is None and verdict.verdict is Liveness.GONE]
        put_back = {} if self.dry_run else self._put_back(bare)
        findings = []
        for done, (claimed, record, verdict) in enumerate(judged, 1):
            if (action := put_back.get(claimed.place.name)) is not None:
                findings.append(self._found(claimed, record, verdict, action))
                continue
            findings.append(self._finding(claimed, record, verdict, spare))
            advance("settling claims", done, len(judged))
        moved = sum(finding.action.startswith(MOVED) for finding in findings)
        lock, left, cannot_look, keeper = self._look_at_lock(spare)
        return Report(tuple(findings), lock, left, cannot_look, tuple(self._ended), moved, keeper)

    def _judge_all(self, claims: Sequence[Claimed]) -> list[tuple[Claimed, RunRecord | None, Judgement]]:
        judged = []
        for done, claimed in enumerate(claims, 1):
            judged.append((claimed, *self._judge(claimed)))
            advance("looking at claims", done, len(claims))
        return judged

    def _judge(self, claimed: Claimed) -> tuple[RunRecord | None, Judgement]:
        record = self.runs.of_claim(claimed.place.mission, claimed.place.name)
        verdict = judge_holder(claimed, record, self.backstop, in_hand=self.hold is not None)
        return record, verdict

    def _put_back(self, bare: Sequence[Claimed]) -> dict[str, str]:
        """What became of claims that no record names: nothing ran for them, so one change of names does for many."""
        done: dict[str, str] = {}
        for first in range(0, len(bare), _AT_ONCE):
            some = bare[first : first + _AT_ONCE]
            if not any(map(self.queue.still_there, some)):  # then there may be no directory for the lock either
                done |= dict.fromkeys((claimed.place.name for claimed in some), action_of(None))
                continue
            with self.queue.change():
                for claimed in some:
                    place = claimed.place
                    # read only now: before the holder was proven gone it could still have written
                    if place.is_item or (self.runs.may_have(place.mission) and not self._is_bare(claimed)):
                        continue
                    there = self.queue.still_there(claimed)
                    try:
                        settled = settle_place(self.parts, self.queue, self.runs, place, None) if there else None
                    except (PermissionError, Refused) as fault:
                        done[place.name] = refusal(claimed, fault)
                    else:
                        done[place.name] = action_of(settled)
            advance("putting claims back", len(done), len(bare))
        return done

    def _is_bare(self, claimed: Claimed) -> bool:
        """Whether no record names the claim, as far as this user may look."""
        return not self.runs.are_hidden(claimed.place.mission) and self._record_again(claimed) is None

    @staticmethod
    def _found(
        claimed: Claimed,
        record: RunRecord | None,
        judged: Judgement,
        action: str,
        left: tuple[Leftover, ...] = (),
    ) -> Finding:
        return Finding(
            claimed.place.name,
            str(claimed.place.mission),
            judged.verdict,
            judged.evidence,
            action,
            record.run if record is not None else None,
            record is not None,
            record is None and claimed.suffix is None and judged.verdict is Liveness.ALIVE,
            left,
        )

    def _finding(self, claimed: Claimed, record: RunRecord | None, judged: Judgement, spare: frozenset[str]) -> Finding:
        def found(action: str, left: tuple[Leftover, ...] = ()) -> Finding:
            return self._found(claimed, record, judged, action, left)

        if judged.verdict is not Liveness.GONE:
            return found("left alone")
        record = record or self._record_again(claimed)  # its holder could write until it was gone
        if record is None and self.runs.are_hidden(claimed.place.mission):
            return found("left to its owner: this user may not read its records")
        left = self._leftovers_of(record, spare) if record is not None else ()
        if self.dry_run:
            return found(
                f"would be put back{', or settled if its end was recorded' if record is not None else ''}", left
            )
        if left and not self._may_end(str(claimed.place.mission), left):
            return found("stays until its leftovers are gone", left)
        if record is not None and (left := self._end_leftovers_of(record, spare)):
            return found("stays: its leftovers could not be ended", left)
        # read only now: before the holder was proven gone it could still have written
        try:
            settled = settle(self.parts, self.queue, self.runs, claimed, self._record_again(claimed))
        except (PermissionError, Refused) as fault:
            return found(refusal(claimed, fault))
        is_entry = not claimed.place.is_item  # of what becomes of an item the work queue tells
        if settled is not None and isinstance(settled.fate, Return) and record is not None and is_entry:
            emit(PutBack(str(claimed.place.mission), claimed.place.name, judged.evidence))
        return found(action_of(settled))

    def _record_again(self, claimed: Claimed) -> RunRecord | None:
        return self.runs.of_claim(claimed.place.mission, claimed.place.name)

    def _may_end(self, mission: str, left: tuple[Leftover, ...]) -> bool:
        return self.kill and (self.confirm is None or self.confirm(mission, left))

    def _leftovers_of(self, record: RunRecord, spare: frozenset[str]) -> tuple[Leftover, ...]:
        return self._look(record, spare).leftovers

    def _look(self, record: RunRecord, spare: frozenset[str], locks: Sequence[int] = ()) -> Seen:
        return look(
            self.parts.checkout.root,
            locks=locks,
            nonces=(record.nonce,),
            spare_nonces=spare,
            spare=reported_survivors(self.runs, record),
        )

    def _end_leftovers_of(self, record: RunRecord, spare: frozenset[str]) -> tuple[Leftover, ...]:
        """End them; those that are left. In the same grace goes what holds the busy lock without a mark.

        But where nobody is to be ended, or a person is asked about each, the lock is looked at by itself.
        """
        if not self.kill:
            return self._leftovers_of(record, spare)  # a second look: during the first a fork can hide
        apart = self.hold is not None or self.confirm is not None
        locks = () if apart else self.parts.busy.open_unlocked(self.queue.fd)
        try:
            done = end(lambda: self._look(record, spare, locks), grace=self.parts.settings.grace_s)
        finally:
            _close(locks)
        self._note_ended(str(record.mission), done.ended)
        return tuple(one for one in done.remaining if one.net == "mark")

    def _look_at_lock(
        self, spare: frozenset[str]
    ) -> tuple[str | None, tuple[Leftover, ...], tuple[int, ...], int | None]:
        """Why the lock is held, what is left of a killed keeper, and whom we may not look into."""
        if self.hold is not None:
            return None, (), (), None
        locks = self.parts.busy.open_unlocked(self.queue.fd)
        try:
            judged = judge_lock(locks)
            if judged.situation is Situation.KEEPER:
                return "a mission runs", (), (), judged.pid or None
            if judged.situation is Situation.DISPATCHER:
                return f"dispatcher {judged.pid} is at work", (), (), None
            if judged.situation is Situation.CANNOT_SEE:
                if self.parts.busy.is_free(self.queue.fd):  # it was let go since, so there is nobody to see
                    return None, (), (), None
                return "its holder cannot be seen from here (another namespace, user or machine)", (), (), None
            if not judged.holders:
                return None, (), (), None
            return self._end_holders(locks, spare)
        finally:
            _close(locks)

    def _end_holders(
        self, locks: tuple[int, ...], spare: frozenset[str]
    ) -> tuple[str | None, tuple[Leftover, ...], tuple[int, ...], int | None]:
        def again() -> Seen:
            return look(self.parts.checkout.root, locks=locks, spare_nonces=spare)

        seen = again()
        if not seen.leftovers:
            spared = ", ".join(str(pid) for pid in sorted({one.pid for one in judge_lock(locks).holders}))
            held = f"processes of a claim that is not gone hold it: pid {spared}" if spared else None
            return held, (), seen.cannot_look, None
        names = ", ".join(str(one.pid) for one in seen.leftovers)
        sentence = f"leftovers of a killed keeper hold it: pid {names}"
        if self.dry_run or not self._may_end("the busy lock", seen.leftovers):
            return sentence, seen.leftovers, seen.cannot_look, None
        done = end(again, grace=self.parts.settings.grace_s)
        self._note_ended("", done.ended)
        return (sentence if done.remaining else None), done.remaining, done.last.cannot_look, None

    def _note_ended(self, mission: str, ended: tuple[Leftover, ...]) -> None:
        if ended:
            self._ended += ended
            emit(LeftoversEnded(mission, tuple(one.pid for one in ended)))


_AT_ONCE = 100


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)
