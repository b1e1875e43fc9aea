"""The pause after a mission that could not be started for everybody's reasons: it grows, and no entry pays for it.

What lies in the checkout itself (a lock of git's, a full disk) is looked at while it lasts: when it is gone nobody
waits any longer. Of other causes, such as a missing runner, only the next try tells.

The pause is not kept over a restart: a daemon never leaves because of an outage, so a restart is somebody's act, mostly
of one who has mended the cause, and costs one try.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from kranzq.dispatch.parts import Parts
from kranzq.events import StartsPaused, emit
from kranzq.model.policy import backoff_s


@dataclass(slots=True)
class Outage:
    """The outages of one daemon, one after another."""

    _until: float = 0.0
    _tries: int = 0
    _in_checkout: bool = False

    def begin(self, parts: Parts, reason: str) -> None:
        """A mission could not be started; the next try comes after a pause that doubles each time."""
        pause = backoff_s(self._tries, parts.jitter())
        self._tries += 1
        self._until = time.monotonic() + pause
        self._in_checkout = parts.obstacle() is not None
        emit(StartsPaused(pause, reason))

    def left(self, parts: Parts) -> float:
        """Seconds until the next try, 0 when there is nothing to wait for."""
        left = self._until - time.monotonic()
        if left > 0 and self._in_checkout and parts.obstacle() is None:
            self.end()
            return 0.0
        return max(0.0, left)

    def end(self) -> None:
        """A mission was started, or the cause may be mended."""
        self._until, self._tries, self._in_checkout = 0.0, 0, False
