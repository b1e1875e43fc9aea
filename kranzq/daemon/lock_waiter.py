"""A thread that blocks on the busy lock and wakes the loop when it is free; waiting uses up nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kranzq.daemon.wake import Wake

_AT_ONCE_S = 0.02
_LONGEST_PAUSE_S = 2.0


class LockWaiter:
    """Waits at most once at a time. The thread is a daemon thread: blocked in the kernel it must not delay an exit."""

    def __init__(self, wait_until_free: Callable[[], None], wake: Wake) -> None:
        self._wait_until_free = wait_until_free
        self._wake = wake
        self._thread: threading.Thread | None = None
        self._pause_s = 0.0

    def begin(self) -> None:
        """Wait in the background, unless that is being done."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._wait, name="busy-lock", daemon=True)
            self._thread.start()

    def _wait(self) -> None:
        time.sleep(self._pause_s)
        began = time.monotonic()
        try:
            self._wait_until_free()
        except OSError:
            return  # the timer looks again
        # granted at once, and yet it was busy: a reader's lock, or many waiters, which must not keep us spinning
        at_once = time.monotonic() - began < _AT_ONCE_S
        self._pause_s = min(self._pause_s * 2 + 0.01, _LONGEST_PAUSE_S) if at_once else 0.0
        self._wake.set()
