"""One item from its claim to its end: run the command under the lease, then hand in, give back, or let go.

What is claimed is settled by exactly one of four calls, or by none when the claim was lost. A crash at any point leaves
a lease that runs out: the command is ended before that, and the item may be claimed again after it.
"""

from __future__ import annotations

import contextlib
import random
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from kranzq.agents.item_command import CommandPlan, ItemCommand, why
from kranzq.agents.output_follower import OUTPUT_THREAD, OutputFollower
from kranzq.backend.items import WorkStore
from kranzq.daemon.stopping import Stopping
from kranzq.dispatch.output import Sink
from kranzq.errors import ClaimLost, KranzqError, NotFound, StoreUnavailable, TryLater
from kranzq.leases.kept import KeptLease
from kranzq.model.frozen import frozen
from kranzq.model.outcome import Ending, NotStarted, Outcome
from kranzq.model.policy import backoff_s
from kranzq.model.work import Held, ItemClaim

How = Literal["done", "failed", "released", "declined", "interrupted", "not started", "lost", "unsettled"]
_AGAIN_S = (0.1, 0.3, 1.0, 2.0)
_STOPPED_PATIENCE_S = 10.0
"""So long an agent that is told to stop tries to reach a store that is away; then the lease runs out by itself."""


class Wake(Protocol):
    """What a signal wakes."""

    def fileno(self) -> int:
        """Readable then."""
        ...

    def clear(self) -> None:
        """Forget it."""
        ...

    def wait(self, seconds: float | None) -> bool:
        """Wait for it, or the time."""
        ...


@frozen
class ItemEnd:
    """What became of one claim; `text` is half a sentence for people."""

    item: str
    how: How
    text: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether its command did, and that is recorded."""
        return self.how == "done"


@dataclass(frozen=True)
class ItemRunner:
    """Runs items, one at a time. `tell` says a sentence to people; it is never called while a command runs."""

    store: WorkStore
    plan: CommandPlan
    lease_s: float
    stopping: Stopping
    wake: Wake
    sink: Callable[[], Sink]
    tell: Callable[[str], None]
    fail_on_error: bool = False

    def run(self, claim: ItemClaim, won_at: float) -> ItemEnd:
        """Run the command with the item and settle it. `won_at` is the boot clock before the claim was asked for."""
        try:
            command = ItemCommand.start(self.plan, claim, self.lease_s, won_at + self.lease_s)
        except (KranzqError, OSError) as fault:
            text = fault.sentence if isinstance(fault, KranzqError) else _in_words(fault)
            return self._settle(claim, None, Ending(Outcome.NOT_STARTED, text), "")
        lease = KeptLease(
            self.store,
            claim,
            self.lease_s,
            won_at,
            confirmed=command.confirm,
            lost=lambda _: command.stop(),
        )
        with contextlib.ExitStack() as after:  # last begun, first ended
            after.callback(command.close)
            try:
                after.callback(OutputFollower(command.output, self.sink()).finish)
                lease.begin()
                after.callback(lease.close)
                self._watch(command)
                return self._settle(claim, lease, command.ending(), command.tail())
            except BaseException:
                command.stop()  # a fault of ours: nobody would settle what it does from here on
                raise

    def _watch(self, command: ItemCommand) -> None:
        """Wait for its end; a second signal ends it. Nothing is printed from here: whoever reads may stand still."""
        told = False
        poll = select.poll()
        poll.register(command.fileno(), select.POLLIN)
        poll.register(self.wake.fileno(), select.POLLIN)
        while not command.has_ended:
            self.wake.clear()
            if self.stopping.wanted and not told:
                told = True
                self._tell_apart("waiting for the command; once more ends it and gives its item back")
            if self.stopping.now:
                command.stop()
            poll.poll(1000)

    def _tell_apart(self, text: str) -> None:
        threading.Thread(target=self.tell, args=(text,), name=OUTPUT_THREAD, daemon=True).start()

    def _settle(self, claim: ItemClaim, lease: KeptLease | None, ending: Ending, tail: str) -> ItemEnd:
        """Hand in or give back, again and again while the store is away; the lease is kept meanwhile."""
        if lease is not None and lease.loss is not None:
            return ItemEnd(claim.id, "lost", lease.loss.sentence)
        began: float | None = None
        tries = 0
        while True:
            try:
                return self._settle_once(claim, ending, tail)
            except (ClaimLost, NotFound) as fault:
                return ItemEnd(claim.id, "lost", fault.sentence)
            except (TryLater, StoreUnavailable) as fault:
                if not tries:
                    self.tell(f"{claim.id} cannot be handed in yet: {fault.sentence}")
                if self.stopping.wanted:
                    began = time.monotonic() if began is None else began
                    if self.stopping.now or time.monotonic() - began > _STOPPED_PATIENCE_S:
                        return ItemEnd(claim.id, "unsettled", f"its lease runs out by itself: {fault.sentence}")
            self.wake.clear()
            self.wake.wait(_AGAIN_S[min(tries, len(_AGAIN_S) - 1)])
            tries += 1

    def _settle_once(self, claim: ItemClaim, ending: Ending, tail: str) -> ItemEnd:
        held, text = Held(claim.id, claim.attempt, claim.holder), why(ending, tail)
        match ending.outcome:
            case Outcome.SUCCEEDED:
                self.store.finish(held, Outcome.SUCCEEDED, tail)
                return ItemEnd(claim.id, "done")
            case Outcome.DEFERRED:
                delay = backoff_s(claim.item.declined, random.random())  # noqa: S311 - jitter, no secret
                self.store.release(held, text, declined=True, delay_ms=round(delay * 1000))
                return ItemEnd(claim.id, "declined", f"{text}; nobody gets it for {delay:.0f} s")
            case Outcome.FAILED | Outcome.TIMED_OUT if self.fail_on_error:
                self.store.finish(held, Outcome.FAILED, f"{text}\n\n{tail}".strip())
                return ItemEnd(claim.id, "failed", text)
            case Outcome.FAILED | Outcome.TIMED_OUT:
                state = self.store.release(held, text)
                return ItemEnd(claim.id, "released", f"{text}; it is {state.value}")
            case Outcome.NOT_STARTED:
                self.store.release(held, text or ending.reason, declined=True)
                how: How = "interrupted" if ending.not_started is NotStarted.REQUEST else "not started"
                return ItemEnd(claim.id, how, ending.reason)
            case _:  # ended from outside, by us, or by its lease: nobody can tell how far it was, and nothing counts
                text = "its agent was stopped" if self.stopping.now else ending.reason
                self.store.release(held, text, declined=True)
                return ItemEnd(claim.id, "interrupted", text)


def _in_words(fault: OSError) -> str:
    """Half a sentence; not every fault of the system names a file."""
    text = fault.strerror or str(fault)
    return f"{fault.filename}: {text}" if fault.filename is not None else text
