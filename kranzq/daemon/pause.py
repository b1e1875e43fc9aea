"""Waiting between two turns: for a wake-up, for the time, and where nothing is watched for a glance that tells."""

from __future__ import annotations

import time
from dataclasses import dataclass

from kranzq.daemon.notify import ServiceManager
from kranzq.daemon.wake import Wake
from kranzq.daemon.watch import GLANCE_S, Watcher

_MOST_IN_VAIN = 8


@dataclass(slots=True)
class Timing:
    """How often the daemon looks without being woken, in seconds."""

    scan_s: float = 10.0
    poll_s: float = 5.0


class Pause:
    """The pauses of one daemon; the service manager hears from it meanwhile."""

    def __init__(self, wake: Wake, watcher: Watcher, manager: ServiceManager, timing: Timing) -> None:
        self._wake = wake
        self._watcher = watcher
        self._manager = manager
        self._timing = timing
        self._in_vain = 0

    def wait(self, seconds: float) -> None:
        """Wait for something to do, but not longer than this."""
        polls = self._watcher.watching == "polling"
        until = time.monotonic() + (min(seconds, self._timing.poll_s) if polls else seconds)
        step = self._manager.ping_every_s
        while (left := until - time.monotonic()) > 0:
            left = left if step is None else min(left, step)
            if self._glances(left) if polls else self._wake.wait(left):
                return
            self.ping()

    def was_for_something(self) -> None:
        """The last pause ended with something to do: the next glances come as often as they can."""
        self._in_vain = 0

    def ping(self) -> None:
        """Tell the service manager that we live, if it wants to hear that."""
        if self._manager.ping_every_s is not None:
            self._manager.say("WATCHDOG=1")

    def _glances(self, seconds: float) -> bool:
        """Whether a wake-up or a glance tells of something to do.

        After looks that found nothing the next glance takes longer: a look may itself change what a glance sees.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self._wake.wait(min(left, GLANCE_S * 2**self._in_vain)):
                return True
            if self._watcher.has_changed():
                self._in_vain = min(self._in_vain + 1, _MOST_IN_VAIN)
                return True
        self._in_vain = 0
        return False
