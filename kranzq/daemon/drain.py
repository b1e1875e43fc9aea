"""Turns without a daemon: run what is due, then leave. Waits while the checkout is busy, unless told to do one turn."""

from __future__ import annotations

from dataclasses import dataclass, field

from kranzq import events
from kranzq.daemon.lock_waiter import LockWaiter
from kranzq.daemon.loop import AGAIN_S
from kranzq.daemon.stopping import Stopping
from kranzq.daemon.wake import Wake
from kranzq.dispatch.evidence import Backstop
from kranzq.dispatch.parts import Empty, IsBusy, Left, Memory, Parts, Paused, Ran, Result
from kranzq.dispatch.settle import is_environment_fault
from kranzq.dispatch.turn import turn
from kranzq.events import WaitsBusy, emit
from kranzq.model.outcome import Outcome, Park, Retire

_TRIES = 5
_SHORT_TRIES = 2


@dataclass(slots=True)
class Drained:
    """What came of it. `busy` and `paused` say why it stopped early, `later` that something is to be tried again."""

    ran: list[Ran] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    busy: str | None = None
    paused: str | None = None
    left: bool = False
    later: bool = False
    stopped: int | None = None

    @property
    def all_succeeded(self) -> bool:
        """Whether every mission that ran succeeded; what went back to its place or waits has not ended yet."""
        return not any(
            isinstance(one.fate, Park | Retire) and one.ending.outcome is not Outcome.SUCCEEDED for one in self.ran
        )


def drain(parts: Parts, wake: Wake, stopping: Stopping, *, once: bool) -> Drained:
    """Do turns until nothing due is left, something needs a later try, or it is told to stop."""
    one = _Drain(parts, wake, once=once)
    stopping.listen()
    while not stopping.wanted:
        wake.clear()
        pause = one.after(turn(parts, one.memory, one.backstop, stopping))
        if pause is None:
            break
        wake.wait(pause)
    if one.ran_dry and one.done.ran and not stopping.wanted:
        emit(events.Drained(len(one.done.ran)))
    return one.done


class _Drain:
    def __init__(self, parts: Parts, wake: Wake, *, once: bool) -> None:
        self.done = Drained()
        self.ran_dry = False
        self.memory = Memory()
        self.backstop = Backstop(parts.clock, remembers=False)
        self._parts = parts
        self._once = once
        self._waiter = LockWaiter(parts.busy.wait_until_free, wake)
        self._looks = 0

    def after(self, result: Result) -> float | None:
        """How long to wait before the next turn; None when it is over."""
        match result:
            case Ran():
                return self._ran(result)
            case Left():
                self.done.left = True
            case Empty(passed_over=passed):
                self.done.passed_over, self.ran_dry = passed, True
            case Paused(reason):
                self.done.paused = reason
            case IsBusy():
                return self._busy(result)
        return None

    def _ran(self, ran: Ran) -> float | None:
        self._looks = 0
        self.done.ran.append(ran)
        fault = is_environment_fault(ran.ending)
        self.done.later = self.done.later or fault or ran.ending.outcome is Outcome.DEFERRED
        return None if (fault and not ran.is_item) or self._once else 0.0

    def _busy(self, busy: IsBusy) -> float | None:
        self._looks += 1
        # without the kernel's lock it may be a keeper that has recorded the end and is still seen for an instant
        tries = _TRIES if busy.recovered else 0 if busy.by_lock else _SHORT_TRIES
        if self._once and self._looks > tries:
            self.done.busy = busy.holder
            return None
        if busy.recovered:
            # somebody let go while we looked; a small pause, so that two lookers do not meet again
            return 0.01 + 0.05 * self._parts.jitter()
        if self.memory.is_new("busy", busy.holder):
            emit(WaitsBusy(busy.holder))
        if busy.by_lock:
            self._waiter.begin()
        return AGAIN_S[min(self._looks, len(AGAIN_S)) - 1]
