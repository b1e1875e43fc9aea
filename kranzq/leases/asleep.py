"""Whether this process, or the host under it, stood still: two clocks ran apart, or a pause took too long."""

from __future__ import annotations

import time
from collections.abc import Callable

SLACK_S = 5.0
"""A pause may be so much longer than meant, and two clocks may run so far apart, before it counts as sleep."""
Seconds = Callable[[], float]


def boot_clock() -> float:
    """Seconds since boot, sleep included: it goes on while the host is suspended, and no one can set it."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Asleep:
    """Compares what passed on this process's clock with what was meant to pass, and with another clock.

    `monotonic` stops while the host is suspended; `other` is the clock by which leases count. Not for threads.
    """

    def __init__(self, *, monotonic: Seconds = time.monotonic, other: Seconds = boot_clock) -> None:
        self._monotonic, self._other = monotonic, other
        self._last: tuple[float, float] | None = None

    def begin_pause(self) -> None:
        """Note where both clocks stand; what passes from now on is the pause."""
        self._last = (self._monotonic(), self._other())

    def seconds(self, meant_s: float) -> float:
        """For how long it was asleep in a pause that was meant to take `meant_s`; 0 when it was awake."""
        if self._last is None:
            return 0.0
        mine, theirs = self._monotonic() - self._last[0], self._other() - self._last[1]
        late = max(mine - meant_s, theirs - mine)
        return late if late > SLACK_S else 0.0
