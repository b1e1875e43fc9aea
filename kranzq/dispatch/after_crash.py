"""The `recover` command: steps 1 and 2 of a turn alone, for a person who wants to see the proof.

With the lock in hand it looks for everything that a killed keeper left; without, it does what any waiting dispatcher
does: the claims, and a lock that only leftovers hold.
"""

from __future__ import annotations

import os
from dataclasses import replace

from kranzq.busy import record as busy_record
from kranzq.busy.lock import Hold
from kranzq.dispatch.busy_seen import local, of_kranz
from kranzq.dispatch.evidence import Backstop
from kranzq.dispatch.hold import all_reported_survivors
from kranzq.dispatch.parts import OpenQueue, Parts
from kranzq.dispatch.recover import Confirm, Recovery, Report
from kranzq.dispatch.retention import sweep
from kranzq.events import LeftoversEnded, emit
from kranzq.runs.folders import Runs
from kranzq.runs.leftovers import Leftover, Seen, end, look


def recover_now(parts: Parts, *, dry_run: bool = False, kill: bool = True, confirm: Confirm | None = None) -> Report:
    """Judge and settle all claims, end leftovers unless told not to; what was found and done."""
    backstop = Backstop(parts.clock, remembers=False)
    with parts.open_queue() as queue:
        if not dry_run:
            queue.finish_moves()
        report = _once(parts, queue, backstop, dry_run=dry_run, kill=kill, confirm=confirm)
        if report.ended and not dry_run:
            # leftovers held the lock at the first look; now it can be taken and the rest be seen
            again = _once(parts, queue, backstop, dry_run=dry_run, kill=kill, confirm=confirm)
            done = {finding.claim for finding in again.findings}
            kept = tuple(finding for finding in report.findings if finding.claim not in done)
            moved = report.moved + again.moved
            report = replace(again, findings=kept + again.findings, ended=report.ended + again.ended, moved=moved)
        if not dry_run:
            sweep(parts, queue)
        if report.lock is None and (kranz := of_kranz(parts.checkout, queue.fd, queue.kranz_fd)) is not None:
            since = f" (since {local(kranz.since)})" if kranz.since is not None else ""
            report = replace(report, lock=f"{kranz.text}{since}", clear=kranz.clear)
        return report


def _once(
    parts: Parts, queue: OpenQueue, backstop: Backstop, *, dry_run: bool, kill: bool, confirm: Confirm | None
) -> Report:
    hold = parts.busy.try_hold(queue.fd)
    try:
        recovery = Recovery(parts, queue, backstop, hold=hold, kill=kill, dry_run=dry_run, confirm=confirm)
        report = recovery.recover()
        if hold is None:
            return report
        left, ended = _strays(parts, queue, hold, kill=kill and not dry_run, confirm=confirm)
        if not left and not dry_run:
            busy_record.remove(queue.fd, None)
        return replace(report, leftovers=report.leftovers + left, ended=report.ended + ended)
    finally:
        if hold is not None:
            hold.close()


def _strays(
    parts: Parts, queue: OpenQueue, hold: Hold, *, kill: bool, confirm: Confirm | None
) -> tuple[tuple[Leftover, ...], tuple[Leftover, ...]]:
    """Leftovers of runs that no claim names any more: those that remain, those that were ended."""
    spare = all_reported_survivors(Runs(parts.checkout, queue.kranz_fd))

    def again() -> Seen:
        return look(parts.checkout.root, locks=hold.fds, in_hand=True, spare={**spare, os.getpid(): None})

    seen = again().leftovers
    if not seen or not kill or (confirm is not None and not confirm("runs that no claim names", seen)):
        return seen, ()
    done = end(again, grace=parts.settings.grace_s)
    if done.ended:
        emit(LeftoversEnded("", tuple(one.pid for one in done.ended)))
    return done.remaining, done.ended
