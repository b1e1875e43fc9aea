"""The page of live events: all kinds and all fields stand there."""

from __future__ import annotations

import re

from kranzq.dispatch.mission_watch import _told
from kranzq.server import event_log, event_stream, observer, snapshots
from kranzq.server.health import READY_S
from tests.laboratory import REPO

PAGE = (REPO / "docs/reference/live-events.md").read_text()


def test_every_kind_is_told() -> None:
    """Those of streams and those of sources."""
    kinds = {event_log.RESYNC, snapshots.KIND, "bye", "item", "mission", "presence"}

    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == kinds


def test_every_field_of_a_mission_is_told() -> None:
    """In the row of its kind."""
    row = next(line for line in PAGE.splitlines() if line.startswith("| `mission` |"))

    assert set(_told(None, None, None, "")) <= set(re.findall(r"`(\w+)`", row))


def test_the_limits_are_those_of_the_code() -> None:
    """Numbers in the page are the numbers that hold."""
    assert f"{event_log.MOST:,}" in PAGE
    assert f"| {event_stream.MOST_WAITING}; then" in PAGE
    assert f"every {event_stream.ALIVE_S:.0f} s" in PAGE
    assert event_stream.LONGEST_S == 600
    assert observer.PAUSE_S <= 0.05
    assert f"last {READY_S:.0f} s" in (REPO / "docs/reference/metrics.md").read_text()
