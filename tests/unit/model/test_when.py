"""Due times: one instant whatever the machine, and nothing that could mean two."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.model.clock import rfc3339, seconds_of, to_ms
from kranzq.model.when import parse_when

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("+90m", 5400), ("+2h30m", 9000), ("+1d", 86400), ("+1d2h3m4s", 93784), ("+0s", 0), ("+45S", 45)],
)
def test_a_length_of_time_counts_from_now(text: str, seconds: float) -> None:
    """Days, hours, minutes and seconds, in this order, each at most once."""
    assert parse_when(text, NOW) == NOW + seconds


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "Europe/Berlin"])
@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2027-01-15T08:00:00Z", 1_800_000_000.0),
        ("2027-01-15t08:00z", 1_800_000_000.0),
        ("2027-01-15 09:00:00.250+01:00", 1_800_000_000.25),
        ("2027-03-28T02:30:00+01:00", 1_806_197_400.0),
        ("2027-03-28T02:30:00+02:00", 1_806_193_800.0),
        ("2027-10-31T02:30:00+01:00", 1_824_946_200.0),
        ("1969-12-31T23:00:00Z", -3600.0),
        ("9999-12-31T23:59:59Z", 253_402_300_799.0),
    ],
)
def test_b77_a_time_is_the_same_instant_in_every_zone(
    text: str, instant: float, zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the machine's clock shows has no part in it, also on the days on which clocks change."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert parse_when(text, NOW) == instant
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2027-01-15T08:00:00", "no time zone"),
        ("2027-03-28 02:30", "no time zone"),
        ("1800000000", "bare number"),
        ("1800000000000", "bare number"),
        ("0", "bare number"),
        ("-5", "bare number"),
        ("1.5", "bare number"),
        ("+90", "bare number"),
        ("2026-02-30T00:00:00Z", "no time that exists"),
        ("2027-01-15T24:00:00Z", "no time that exists"),
        ("2027-01-15T08:00:60Z", "no time that exists"),
        ("2027-01-15T08:00:00+24:00", "no time that exists"),
        ("2027-01-15T08:00:00+00:60", "no time that exists"),
        ("0000-01-01T00:00:00Z", "no time that exists"),
        ("10000-01-01T00:00:00Z", "is no time"),
        ("2027-01-15", "is no time"),
        ("tomorrow", "is no time"),
        ("+", "is no time"),
        ("2h", "lacks the \\+"),
        ("1h30m", "lacks the \\+"),
        ("+2m1h", "is no time"),
        ("+1h 30m", "is no time"),
        ("+3651d", "more than 3650 days"),
        ("", "is no time"),
        ("\uff12027-01-15T08:00:00Z", "is no time"),
    ],
)
def test_b77_what_could_mean_two_instants_is_refused(text: str, why: str) -> None:
    """A naive time, a bare number and a day that does not exist are refused with the reason, never guessed."""
    with pytest.raises(ValueError, match=why):
        parse_when(text, NOW)


@given(st.integers(0, 253_402_300_799_999))
def test_an_instant_survives_names_and_records(instant_ms: int) -> None:
    """What a record keeps is to the millisecond what a name bears."""
    text = rfc3339(instant_ms / 1000)

    seconds = seconds_of(text)
    assert seconds is not None
    assert abs(to_ms(seconds) - instant_ms) <= 1
    assert parse_when(text, NOW) == seconds
