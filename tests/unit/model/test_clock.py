"""Times in records: what was written is read, and what has no zone is no time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.model.clock import SystemClock, rfc3339, seconds_of


@given(st.integers(0, 4_000_000_000_000))
def test_a_time_survives_a_record(milliseconds: int) -> None:
    """A wall time is kept to the millisecond."""
    kept = seconds_of(rfc3339(milliseconds / 1000))

    assert kept is not None
    assert abs(kept * 1000 - milliseconds) <= 1


@pytest.mark.parametrize("text", [None, 7, "", "now", "2026-12-01", "2026-12-01T10:00:00", "2026-02-30T00:00:00Z"])
def test_b77_what_is_no_instant_is_none(text: object) -> None:
    """A time without a zone, a date that does not exist, or no text at all is not guessed at."""
    assert seconds_of(text) is None


def test_b77_the_same_instant_in_two_zones_is_one_time() -> None:
    """An offset is part of the instant."""
    assert seconds_of("2026-12-01T10:00:00+02:00") == seconds_of("2026-12-01T08:00:00Z")


def test_the_systems_clocks_go_forward() -> None:
    """The monotonic clock never goes back."""
    clock = SystemClock()

    assert clock.monotonic() <= clock.monotonic()
    assert clock.now() > 1_700_000_000
