"""Time as the rest of kranzq sees it: an injected clock, wall times as RFC 3339 in records, milliseconds in names."""

from __future__ import annotations

import datetime as dt
import time
from typing import Protocol

EARLIEST_S, LATEST_S = -62_135_596_800.0, 253_402_300_799.999
"""The years 1 to 9999 UTC, wall seconds: other times have no form. Those of strangers are shown as the nearest one."""


class Clock(Protocol):
    """What tells the time. Tests move a fake one; the system's is `SystemClock`."""

    def now(self) -> float:
        """Wall time in seconds since 1970, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, from an unspecified start; stops while the machine sleeps."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        """Wall time in seconds since 1970, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that only grow."""
        return time.monotonic()


def rfc3339(seconds: float) -> str:
    """A wall time as records keep it: UTC, milliseconds, `Z`."""
    moment = dt.datetime.fromtimestamp(min(max(seconds, EARLIEST_S), LATEST_S), tz=dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def to_ms(seconds: float) -> int:
    """A wall time as the names in the queue bear it."""
    return round(seconds * 1000)


def seconds_of(text: object) -> float | None:
    """The wall time in a record, or None when it is none (naive times are none)."""
    if not isinstance(text, str):
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
