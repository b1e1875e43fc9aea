"""A thread that blocks on the busy lock and wakes the loop when it is free; waiting uses up nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kranzq.daemon.wake import Wake
from kranzq.errors import KranzqError

_AT_ONCE_S = 0.02
_LONGEST_PAUSE_S = 2.0


class LockWaiter:
    """Waits at most once at a time. The thread is a daemon thread: blocked in the kernel it must not delay an exit."""

    def __init__(self, wait_until_free: Callable[[], None], wake: Wake) -> None:
        self._wait_until_free = wait_until_free
        self._wake = wake
        self._waits = False
        self._pause_s = 0.0

    def begin(self) -> None:
        """Wait in the background, unless that is being done."""
        if not self._waits:
            self._waits = True
            threading.Thread(target=self._wait, name="busy-lock", daemon=True).start()

    def _wait(self) -> None:
        time.sleep(self._pause_s)
        began = time.monotonic()
        try:
            self._wait_until_free()
        except (OSError, KranzqError):
            self._waits = False
            return  # the timer looks again
        # granted at once, and yet it was busy: a reader's lock, or many waiters, which must not keep us spinning
        at_once = time.monotonic() - began < _AT_ONCE_S
        self._pause_s = min(self._pause_s * 2 + 0.01, _LONGEST_PAUSE_S) if at_once else 0.0
        self._waits = False  # before the wake-up: whoever is woken may begin anew at once
        self._wake.set()
