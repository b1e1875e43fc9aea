"""The agent's loop: wait for an item, run it, go on; until there is nothing, enough was done, or somebody says stop."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from kranzq.agents.item_run import ItemEnd, ItemRunner
from kranzq.agents.waiting import until_there_is_one
from kranzq.backend import Wanted
from kranzq.errors import KranzqError, StoreUnavailable, TryLater
from kranzq.leases.asleep import Asleep, boot_clock
from kranzq.leases.sweeper import GRACE_S
from kranzq.model.claim import Holder
from kranzq.model.work import ItemClaim

PACE_FIRST_S, PACE_MOST_S = 1.0, 60.0
"""After a command that did not succeed the loop waits, longer each time: a broken command must not use up the attempts
of everything that waits."""


@dataclass
class Worker:
    """One agent. `seconds` is how long to wait for an item, None: for ever; `most` how many to run, None: no bound."""

    runner: ItemRunner
    holder: Holder
    wanted: Wanted
    seconds: float | None
    most: int | None
    request_id: str = ""
    heard: Callable[[ItemClaim], None] = lambda _: None
    """Called with each claim before its command starts."""
    ends: list[ItemEnd] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing was asked for yet."""
        self._asleep, self._slept, self._meant_s = Asleep(), False, math.inf
        self._asked_at = 0.0
        self._request = self.request_id
        self._said = ""

    def work(self) -> None:
        """Run items. Raises what the store raises, unless the loop goes on for ever; then that is said, and waited."""
        stopping, pace = self.runner.stopping, PACE_FIRST_S
        while not stopping.wanted and (self.most is None or len(self.ends) < self.most):
            claim = until_there_is_one(self._take, self.seconds, self._wait)
            if claim is None:
                return
            self._request = ""
            self.heard(claim)
            self._note(math.inf)
            end = self.runner.run(claim, self._asked_at)
            self.ends.append(end)
            self.runner.tell(_sentence(end))
            if end.how == "not started":
                return  # no other item would fare better
            if end.succeeded:
                pace = PACE_FIRST_S
            elif self.most is None:
                self._pause(pace)
                pace = min(pace * 2, PACE_MOST_S)

    def _take(self) -> ItemClaim | None:
        """Claim. The same request id until there was an answer: a claim whose answer was lost is not lost with it."""
        self._request = self._request or str(uuid.uuid4())
        self._asked_at = boot_clock()
        lease_ms = round(self.runner.lease_s * 1000)
        self._slept = self._slept or self._asleep.seconds(self._meant_s) > 0
        try:
            if self._slept:
                self.runner.store.grant_grace(GRACE_S)  # all holders slept, too: they renew before we take over
                self._slept = False
            found = self.runner.store.claim(self.holder, self.wanted, lease_ms=lease_ms, request_id=self._request)
        except (TryLater, StoreUnavailable) as fault:
            if self.seconds is not None:
                raise
            self._tell_once(fault)
            return None
        self._said = ""
        return found

    def _wait(self, seconds: float) -> bool:
        self._note(seconds)
        try:
            self.runner.store.wait_for_work(seconds)
        except (TryLater, StoreUnavailable):
            self._pause(seconds)
        return not self.runner.stopping.wanted

    def _note(self, meant_s: float) -> None:
        """What begins now is meant to take so long. A run may take any time: there only two clocks tell of sleep."""
        self._meant_s = meant_s
        self._asleep.begin_pause()

    def _pause(self, seconds: float) -> None:
        if not self.runner.stopping.wanted:
            self.runner.wake.clear()
            self.runner.wake.wait(seconds)

    def _tell_once(self, fault: KranzqError) -> None:
        if fault.sentence != self._said:
            self.runner.tell(f"{fault.sentence} Trying again.")
        self._said = fault.sentence


def _sentence(end: ItemEnd) -> str:
    return f"{end.item}: {end.how}" + (f" ({end.text})" if end.text else "")
