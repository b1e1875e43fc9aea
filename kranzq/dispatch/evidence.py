"""Is the holder of a claim alive, gone or unknown? The rules of recovery, in their order, each with its evidence.

A record that names the claim is judged first; without one the claim's name is all there is. Only *gone* frees at once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kranzq.liveness import boot_time, judge, judge_claim, me
from kranzq.model.claim import Claimed
from kranzq.model.clock import Clock
from kranzq.model.process import Judgement, Liveness

if TYPE_CHECKING:
    from kranzq.runs.record import RunRecord

BACKSTOP_S = 3600.0
LIBRARY = "library"
MISSION = "mission"


class Backstop:
    """How long a claim has been untouched. A daemon counts on its own clock, which no step of the wall clock moves."""

    def __init__(self, clock: Clock, *, remembers: bool) -> None:
        self._clock = clock
        self._remembers = remembers
        self._seen: dict[str, tuple[float, float]] = {}

    def untouched_s(self, claimed: Claimed) -> float:
        """Seconds since the last touch; a touch in the future counts as now."""
        if not self._remembers:
            return max(0.0, self._clock.now() - claimed.touched_at)
        now = self._clock.monotonic()
        touched, since = self._seen.get(claimed.place.name, (None, now))
        if touched != claimed.touched_at:
            # the age at first sight is the wall clock's, from then on our own
            since = now - max(0.0, self._clock.now() - claimed.touched_at) if touched is None else now
            self._seen[claimed.place.name] = (claimed.touched_at, since)
        return now - since


def judge_holder(claimed: Claimed, record: RunRecord | None, backstop: Backstop, *, in_hand: bool) -> Judgement:
    """The verdict on a claim's holder. `in_hand` tells that the asker holds the busy lock."""
    judged = (
        judge_claim(claimed.pid, claimed.suffix, claimed.modified_at)
        if record is None
        else _judge_record(claimed, record, in_hand=in_hand)
    )
    if judged.verdict is not Liveness.UNKNOWN:
        return judged
    untouched = backstop.untouched_s(claimed)
    if untouched > BACKSTOP_S:
        return Judgement(Liveness.GONE, f"{judged.evidence}; untouched for {untouched / 60:.0f} min, taken for gone")
    return Judgement(Liveness.UNKNOWN, f"{judged.evidence}; touched {untouched / 60:.0f} min ago")


def _judge_record(claimed: Claimed, record: RunRecord, *, in_hand: bool) -> Judgement:
    here, holder = me(), record.keeper
    same_machine = holder.machine_id == here.machine_id or holder.boot_id == here.boot_id
    if not same_machine:
        return judge(holder)
    if holder.boot_id != here.boot_id:
        if claimed.touched_at < min(boot_time(), time.time()):
            return Judgement(Liveness.GONE, "it ran before this machine was started anew")
        return Judgement(Liveness.UNKNOWN, "it names another start of this machine, but was touched since")
    if (holder.pid_ns, holder.time_ns) == (here.pid_ns, here.time_ns):
        return judge(holder)
    if record.kind != MISSION:
        return Judgement(Liveness.UNKNOWN, "its holder lives in another namespace and holds no lock")
    if in_hand:
        return Judgement(Liveness.GONE, "its keeper was in another namespace, and the busy lock is free")
    return Judgement(Liveness.ALIVE, "its keeper is in another namespace, and the busy lock is held")
