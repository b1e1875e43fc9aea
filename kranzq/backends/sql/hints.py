"""Hints that something may have changed, so that whoever waits for work need not ask all the time.

A hint is never a promise: whoever waits looks again now and then whatever it heard, for items come due in silence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FIRST_PAUSE_S, LAST_PAUSE_S = 0.02, 0.05
"""How often a file is looked at: a look costs microseconds, and twenty a second are not seen in any load."""


class Hints:
    """Counts hints. Each thread waits for those that came since its own last wait returned: none falls between."""

    def __init__(self) -> None:
        self._count = 0
        self._mutex = threading.Lock()
        """Not a Condition: a signal that raises while one is entered leaves it locked."""
        self._gates: set[threading.Lock] = set()
        self._seen = threading.local()

    def note(self) -> None:
        """Something may have changed: wake everybody who waits."""
        with self._mutex:
            self._count += 1
            while self._gates:
                self._gates.pop().release()

    def wait(self, seconds: float) -> bool:
        """Wait for one that this thread has not seen; its first call knows nothing yet and returns at once."""
        seen = getattr(self._seen, "count", -1)
        if self._count == seen and seconds > 0:
            self._pause(seen, seconds)
        now = self._seen.count = self._count
        return now != seen

    def _pause(self, seen: int, seconds: float) -> None:
        gate = threading.Lock()
        gate.acquire()
        try:
            with self._mutex:
                if self._count != seen:
                    return
                self._gates.add(gate)
            gate.acquire(timeout=seconds)
        finally:
            with self._mutex:
                self._gates.discard(gate)


class Glances:
    """Hints for a store that tells nobody anything: a number is looked at that any change makes another one."""

    def __init__(self, look: Callable[[], int]) -> None:
        self._look = look
        self._mutex = threading.Lock()
        self._hints = Hints()
        self._last: int | None = None

    def wait(self, seconds: float) -> bool:
        """As `Hints.wait`."""
        until = time.monotonic() + seconds
        pause = FIRST_PAUSE_S
        while True:
            with self._mutex:
                now = self._look()
                if now != self._last:
                    self._last = now
                    self._hints.note()
            left = until - time.monotonic()
            if self._hints.wait(0):
                return True
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(pause * 1.2, LAST_PAUSE_S)
