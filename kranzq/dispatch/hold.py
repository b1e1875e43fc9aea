"""Step 1: the busy lock, kranz's lock beside it, and the looks that must come before anything is chosen.

Busy is found out before claiming: nothing is ever claimed and put back only because the checkout is busy.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from kranzq import __version__
from kranzq.busy import record as busy_record
from kranzq.busy.foreign import KranzLock
from kranzq.busy.lock import Hold
from kranzq.busy.record import BusyRecord
from kranzq.dispatch.evidence import Backstop
from kranzq.dispatch.parts import IsBusy, Memory, OpenQueue, Parts
from kranzq.dispatch.recover import Recovery, Report
from kranzq.dispatch.survivors import reported_survivors
from kranzq.events import LeftoversEnded, Warned, emit
from kranzq.liveness import me
from kranzq.model.clock import rfc3339
from kranzq.model.process import Liveness, ProcessIdentity
from kranzq.runs.folders import Runs
from kranzq.runs.leftovers import Seen, end, look


@dataclass(slots=True)
class Holding:
    """The taken lock with its records. Exactly one of the three endings is called."""

    queue: OpenQueue
    hold: Hold
    kranz: KranzLock
    process: ProcessIdentity
    since: str

    def name_dispatcher(self) -> None:
        """Let the records name this process."""
        if self.process != me():
            self.kranz.name_us()
        self.process = me()
        busy_record.write(self.queue.fd, BusyRecord("dispatcher", self.process, self.since, __version__))

    def name_keeper(self, keeper: ProcessIdentity, mission: str, run: int, nonce: str) -> None:
        """Let the records name the keeper: it outlives this process."""
        self.process = keeper
        record = BusyRecord("keeper", keeper, self.since, __version__, mission, run, nonce)
        busy_record.write(self.queue.fd, record)
        self.kranz.name(keeper, mission)

    def let_go(self, *, unlock: bool) -> None:
        """Remove the records if they are ours and free the lock.

        With `unlock` it is taken from whoever inherited it, too; only when nothing of a run is known to live but what
        was left on purpose.
        """
        try:
            busy_record.remove(self.queue.fd, self.process)
        finally:  # a record that cannot be removed is the next holder's; a lock that is kept stops all of them
            try:
                self.kranz.let_go()
            finally:
                if unlock:
                    self.hold.unlock()
                else:
                    self.hold.close()

    def leave(self) -> None:
        """Close only: the keeper keeps lock and records."""
        self.kranz.leave()
        self.hold.close()


def take_hold(parts: Parts, queue: OpenQueue, memory: Memory, backstop: Backstop) -> tuple[Holding, Report] | IsBusy:
    """Steps 1 and 2: the lock, who else works here, leftovers if there is a reason to look, and the claims."""
    hold = parts.busy.try_hold(queue.fd)
    if hold is None:
        return _busy(Recovery(parts, queue, backstop).recover())
    try:
        kranz = KranzLock(queue.fd)
        if (holder := kranz.take(parts.keepers.standing())) is not None:
            report = Recovery(parts, queue, backstop, hold=hold).recover()
            hold.close()
            return IsBusy(holder, recovered=report.moved > 0)
    except BaseException:
        hold.close()
        raise
    holding = Holding(queue, hold, kranz, me(), rfc3339(parts.clock.now()))
    try:
        stale = busy_record.exists(queue.fd)
        reason = _is_new_queue(queue, memory) or memory.first_turn or stale or queue.claims()
        if reason and (remaining := end_all_leftovers(parts, queue, hold)):
            holding.let_go(unlock=False)
            return IsBusy(f"leftovers that could not be ended: pid {', '.join(map(str, remaining))}")
        engine = parts.engines.alive(queue.kranz_fd)
        report = Recovery(parts, queue, backstop, hold=hold).recover()
        _warn_of_refused(report, memory)
        if (other := engine[0] if engine is not None else _at_work(report)) is not None:
            holding.let_go(unlock=False)
            return IsBusy(other, recovered=report.moved > 0)
        if stale:  # whoever it names has not the lock, and what it left was looked for: ours goes when we let go
            holding.name_dispatcher()
    except BaseException:
        holding.let_go(unlock=False)
        raise
    memory.first_turn = False
    return holding, report


def end_all_leftovers(parts: Parts, queue: OpenQueue, hold: Hold) -> tuple[int, ...]:
    """End everything of this checkout that a killed keeper left; we hold the lock. The pids that remain."""

    def again() -> Seen:
        return look(
            parts.checkout.root,
            locks=hold.fds,
            in_hand=True,
            spare={**survivors, **parts.keepers.started(), **parts.couriers()},
            orphans_of=os.getpid() if parts.is_subreaper else None,
        )

    survivors: dict[int, int | None] = {}
    if not again().leftovers:
        return ()
    # only now: what was left on purpose stands in the records of all runs, and reading them takes its time
    survivors = all_reported_survivors(Runs(parts.checkout, queue.kranz_fd))
    done = end(again, grace=parts.settings.grace_s)
    if done.ended:
        emit(LeftoversEnded("", tuple(one.pid for one in done.ended)))
    return tuple(one.pid for one in done.remaining)


def all_reported_survivors(runs: Runs) -> dict[int, int | None]:
    """What any run left on purpose: pid and start ticks."""
    named: dict[int, int | None] = {}
    for mission in runs.missions():
        for record in runs.records(mission):
            named |= reported_survivors(runs, record)
    return named


def _busy(report: Report) -> IsBusy:
    free = report.lock is None
    return IsBusy(report.lock or "the busy lock was just let go", report.keeper, report.moved > 0 or free, by_lock=True)


def _at_work(report: Report) -> str | None:
    """Who works here without the lock: a claim alive by record or token, or unknown with a record."""
    for finding in report.findings:
        alive = finding.verdict is Liveness.ALIVE and not finding.by_bare_pid
        unknown = finding.verdict is Liveness.UNKNOWN and finding.has_record
        unended = finding.verdict is Liveness.GONE and bool(finding.leftovers)
        if alive or unknown or unended:
            return f"claim {finding.claim} is {finding.verdict.value}: {finding.evidence}"
    return None


def _warn_of_refused(report: Report, memory: Memory) -> None:
    for finding in report.findings:
        if finding.is_refused and memory.is_new(finding.claim, finding.action):
            emit(Warned(f"claim {finding.claim} {finding.action}"))


def _is_new_queue(queue: OpenQueue, memory: Memory) -> bool:
    seen = os.fstat(queue.fd)
    key = (seen.st_dev, seen.st_ino)
    changed = memory.queue_key is not None and memory.queue_key != key
    memory.queue_key = key
    return changed
