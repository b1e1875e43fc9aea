"""What `work stats` warns of, and how numbers and lines are put."""

from __future__ import annotations

import time

import pytest

from kranzq.cli.work_showing import LOG_WARNS_AT, stats_text, warnings
from kranzq.model.work import Stats

NOW_MS = round(time.time() * 1000)
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("stats", "said", "advice"),
    [
        (Stats({}, 0, 3, None, 0, 0), "3 leases are over", "kranzq work recover"),
        (Stats({}, 2, 0, None, 0, 0), "2 open items", "kranzq work list --unseen"),
        (Stats({}, 0, 0, None, 1000, LOG_WARNS_AT + 1), "log has grown to 256.0 MiB", "fuser -v"),
        (Stats({}, 0, 0, NOW_MS - 2 * DAY_MS, 0, 0), "more than a day", "kranzq work list --state open"),
    ],
)
def test_what_needs_a_person_is_named_with_what_to_type(stats: Stats, said: str, advice: str) -> None:
    """One line each, and nothing else is warned of."""
    ((text, hint),) = warnings(stats)

    assert said in text
    assert advice in hint


@pytest.mark.parametrize(
    "stats", [Stats({}, 0, 0, None, 0, LOG_WARNS_AT), Stats({}, 0, 0, NOW_MS - DAY_MS // 2, 2**40, 2**39)]
)
def test_what_is_usual_is_no_warning(stats: Stats) -> None:
    """A log that a busy database needs, and an item that waits for its turn."""
    assert warnings(stats) == []


def test_the_oldest_open_item_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Since when, and for how long."""
    stats_text(Stats({"open": 2, "done": 0}, 0, 0, NOW_MS - 3_600_000, 2048, 0))
    out = capsys.readouterr().out

    assert "items     2 open\n" in out
    assert "1 h" in out
    assert "2.0 KiB" in out
