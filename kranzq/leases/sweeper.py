"""Sweeping on a timer, in a program that lives long: overdue leases lapse, what is due opens, what is old goes.

Whoever wakes up after a suspended host must not be the first to judge: the holders stood still as well, and could not
renew. So a sweeper that notices that it slept grants them one round to renew before it sweeps. Any number may sweep the
same store; each is killed at any point without harm.
"""

from __future__ import annotations

import time

from kranzq.backend.items import WorkStore
from kranzq.errors import KranzqError
from kranzq.events import ItemsPruned, Warned, emit
from kranzq.leases.asleep import Asleep, Seconds, boot_clock
from kranzq.model.work import Recovered

GRACE_S = 60.0
"""So long no lease lapses after a sleep: half of a lease that nobody named, and all who are awake have renewed."""
PRUNE_EVERY_S = 3600.0


class Sweeper:
    """Sweeps one store every `period_s` seconds, when asked. Not for threads.

    `retention_s`: remove items that ended longer ago, once an hour; None: keep them. `store_clock` is the clock by
    which the store's leases count, in seconds from any start.
    """

    def __init__(
        self,
        store: WorkStore,
        *,
        period_s: float,
        retention_s: float | None = None,
        monotonic: Seconds = time.monotonic,
        store_clock: Seconds = boot_clock,
    ) -> None:
        self._store, self._period, self._retention = store, period_s, retention_s
        self._monotonic = monotonic
        self._asleep = Asleep(monotonic=monotonic, other=store_clock)
        self._next = self._next_prune = monotonic()
        self._said = ""

    def due_in(self) -> float:
        """Seconds until the next sweep is due; 0 when it is."""
        return max(0.0, self._next - self._monotonic())

    def sweep_if_due(self) -> Recovered | None:
        """Sweep when it is time; what was done, None when it was not time or the store was not to be had.

        A store that fails is said once and tried again after a period. While it was gone nobody could renew either, so
        the first sweep after that grants the same grace as one after a sleep.
        """
        if self._monotonic() < self._next:
            return None
        self._next = self._monotonic() + self._period
        try:
            done = self._sweep()
        except KranzqError as fault:
            if fault.sentence != self._said:
                emit(Warned(f"items are not swept: {fault.sentence}"))
            self._said = fault.sentence
            return None
        self._said = ""
        return done

    def _sweep(self) -> Recovered:
        if self._asleep.seconds(self._period):
            self._store.grant_grace(GRACE_S)
        done = self._store.sweep()
        self._prune()
        self._asleep.begin_pause()  # last: a sweep that takes long is no sleep
        return done

    def _prune(self) -> None:
        if self._retention is None or self._monotonic() < self._next_prune:
            return
        self._next_prune = self._monotonic() + PRUNE_EVERY_S
        if (pruned := self._store.prune(self._retention)) > 0:
            emit(ItemsPruned(pruned))
