"""A clock that only moves when it is told to, so that no test ever sleeps."""

from __future__ import annotations


class FakeClock:
    """Satisfies `kranzq.model.clock.Clock`. A step of the wall clock leaves the other one alone, as in life."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._monotonic = 1000.0

    def now(self) -> float:
        """Wall time in seconds since 1970."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self._monotonic += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back without any time passing."""
        self._now += seconds
