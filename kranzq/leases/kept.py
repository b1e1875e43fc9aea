"""A claim that is kept: renewed from a thread of its own, which neither its command nor a slow reader can hold up.

The thread does nothing but renew. It prints nothing and waits for nobody: what it learns it tells by two calls that
return at once. A lease counts from the moment *before* the call that won it, on a clock that goes on while the host
sleeps, so it is over here no later than where the store counts it.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Protocol

from kranzq.errors import ClaimLost, KranzqError, NotFound
from kranzq.leases.asleep import Seconds, boot_clock
from kranzq.model.work import Held, ItemClaim

RENEW_AT = 1 / 3
"""Renewals begin after a third of the lease: two of them may fail before it is over."""
_TRY_AGAIN_AT, _FIRST_AGAIN_S = 1 / 30, 1.0
_SHARE_OF_LEASE = 1 / 4
_TICK_S = 1.0  # the wait of a thread does not go on while the host sleeps; so it looks once a second


def grace_in(lease_s: float, grace_s: float) -> float:
    """So long before its lease is over a run is ended: the time between TERM and KILL, at most a quarter of it."""
    return min(grace_s, lease_s * _SHARE_OF_LEASE)


class Renews(Protocol):
    """What renews a lease: the part of the work queue that this module needs."""

    def heartbeat(self, held: Held, lease_ms: int | None = None) -> ItemClaim:
        """A lease of that length from now on."""
        ...


class KeptLease:
    """The lease of one claim, from `begin` to `close`. `won_at` is the boot clock before the claim was asked for.

    `confirmed` is called with the end of the lease on the boot clock, `lost` with the sentence that tells why the claim
    is not ours any more; both from the renewing thread. `longest_s`: renew at least that often, however long the lease.
    """

    def __init__(  # noqa: PLR0913 - what is kept, and whom it tells of it; each of them once
        self,
        store: Renews,
        claim: Held,
        lease_s: float,
        won_at: float,
        *,
        confirmed: Callable[[float], None],
        lost: Callable[[KranzqError], None],
        longest_s: float = math.inf,
        clock: Seconds = boot_clock,
    ) -> None:
        self._store, self._claim, self._lease = store, claim, lease_s
        self._confirmed, self._lost, self._clock = confirmed, lost, clock
        self._held_from = won_at
        self._period = min(lease_s * RENEW_AT, longest_s)
        self._due = won_at + self._period
        self._again = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease of {claim.id}", daemon=True)
        self.loss: KranzqError | None = None
        """Why the claim is not ours any more."""
        self.trouble: str | None = None
        """Why the last renewal did not succeed; None when it did."""

    @property
    def ends(self) -> float:
        """When the lease is over, on the boot clock."""
        return self._held_from + self._lease

    def begin(self) -> None:
        """Renew from now on."""
        self._thread.start()

    def close(self) -> None:
        """Renew no more. A renewal that is under way is not waited for: its store may not answer."""
        self._over.set()

    def renew_if_due(self) -> float:
        """Renew when it is time; seconds until it is time again. The thread's one step; after a loss it is never time.

        A renewal that failed is tried again soon, then less often, but after a thirtieth of the lease at the latest: so
        about twenty times before it is over.
        """
        if self.loss is not None:
            return _TICK_S
        if (left := self._due - self._clock()) > 0:
            return left
        began = self._clock()
        try:
            self._store.heartbeat(self._claim, round(self._lease * 1000))
        except (ClaimLost, NotFound) as fault:
            self.loss = fault
            if not self._over.is_set():
                self._lost(fault)
        except Exception as fault:  # noqa: BLE001 - whatever it was, the thread must live to try again
            self.trouble = fault.sentence if isinstance(fault, KranzqError) else repr(fault)
            self._again = min(max(_FIRST_AGAIN_S, self._again * 2), self._lease * _TRY_AGAIN_AT)
            self._due = self._clock() + self._again
        else:
            self.trouble = None
            self._held_from = began
            self._due, self._again = began + self._period, 0.0
            self._confirmed(self.ends)
        return max(0.0, self._due - self._clock())

    def _keep(self) -> None:
        while not self._over.is_set():
            self._over.wait(min(self.renew_if_due(), _TICK_S))
