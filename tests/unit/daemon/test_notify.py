"""Talking to a service manager: only what is said in its own form counts."""

from __future__ import annotations

import os

import pytest

from kranzq.daemon.notify import ServiceManager


@pytest.mark.parametrize(
    ("usec", "seconds"),
    [
        ("2000000", 1.0),
        ("", None),
        ("0", None),
        ("-5", None),
        ("+5", None),
        ("²", None),
        ("1_000", None),
        ("9" * 99, None),
    ],
)
def test_only_a_whole_number_of_microseconds_asks_for_pings(usec: str, seconds: float | None) -> None:
    """Half the time that the manager gives; what is no number asks for nothing, and breaks nothing."""
    assert ServiceManager({"WATCHDOG_USEC": usec}).ping_every_s == seconds


def test_pings_that_another_process_owes_are_not_ours() -> None:
    """The manager names the process from which it wants to hear."""
    environ = {"WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid() + 1)}

    assert ServiceManager(environ).ping_every_s is None
