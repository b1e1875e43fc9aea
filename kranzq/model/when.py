"""Due times as people and programs write them: one instant, whatever the time zone of the machine.

Either a length of time from now (`+90m`, `+2h30m`) or a time with its zone (RFC 3339). What could mean two instants is
refused: a time without a zone, and a bare number, which may be seconds or milliseconds.
"""

from __future__ import annotations

import datetime as dt
import re

from kranzq.errors import UsageFault
from kranzq.model.clock import EARLIEST_S, LATEST_S

_FROM_NOW = re.compile(
    r"\+(?=\d)(?:(\d{1,6})d)?(?:(\d{1,8})h)?(?:(\d{1,9})m)?(?:(\d{1,10})s)?", re.ASCII | re.IGNORECASE
)
_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d*)?", re.ASCII)
_UNITS = (86400, 3600, 60, 1)
_MOST_S = 3650 * 86400.0
FORMS = "Write +90m, +2h30m, or a time with its zone such as 2030-01-31T09:00:00Z or 2030-01-31T09:00+01:00."


def parse_when(text: str, now: float) -> float:
    """The wall time that `text` means at the time `now`, in seconds. Raises ValueError with half a sentence."""
    if found := _FROM_NOW.fullmatch(text):
        seconds = float(sum(int(count) * unit for count, unit in zip(found.groups(), _UNITS, strict=True) if count))
        if seconds > _MOST_S:
            raise ValueError("is more than 3650 days from now")
        return now + seconds
    if _NUMBER.fullmatch(text):
        raise ValueError("is a bare number, which may mean seconds, minutes or milliseconds")
    if text and _FROM_NOW.fullmatch(f"+{text}"):
        raise ValueError("lacks the + of a time from now")
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError("is no time")
    if found[8] is None:
        raise ValueError("has no time zone, so it is another instant on another machine")
    return _instant(found)


def due(name: str, text: str, now: float) -> float:
    """As `parse_when`, for what a caller gave under a name. Raises UsageFault with the forms that are understood."""
    try:
        return parse_when(text, now)
    except ValueError as fault:
        raise UsageFault(f"{name} {text[:140]!r} {fault}.", FORMS) from fault


def _instant(found: re.Match[str]) -> float:
    year, month, day, hour, minute = (int(found[at]) for at in range(1, 6))
    micros = int((found[7] or "0").ljust(6, "0")[:6])
    try:
        zone = _zone(found[8])
        seconds = dt.datetime(year, month, day, hour, minute, int(found[6] or 0), micros, zone).timestamp()
    except (ValueError, OverflowError) as fault:
        raise ValueError(f"is no time that exists ({fault})") from fault
    if not EARLIEST_S <= seconds <= LATEST_S:
        raise ValueError("is no time that exists in every zone")
    return seconds


def _zone(text: str) -> dt.timezone:
    if text in {"Z", "z"}:
        return dt.UTC
    hours, minutes = int(text[1:3]), int(text[4:6])
    if hours >= 24 or minutes >= 60:  # noqa: PLR2004 - what a clock shows
        raise ValueError(f"there is no zone {text}")
    return dt.timezone((-1 if text[0] == "-" else 1) * dt.timedelta(hours=hours, minutes=minutes))
