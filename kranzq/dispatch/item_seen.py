"""An item whose end is recorded and was not handed in yet: it holds up nothing here, and people are told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kranzq.model.claim import Place
    from kranzq.runs.folders import Runs
    from kranzq.runs.record import RunRecord

CLEAR = "It is handed in when the work queue answers: by a daemon, or with: kranzq recover"


def awaits_hand_in(place: Place, record: RunRecord | None) -> bool:
    """Whether a claim is only there until the work queue has heard of its end."""
    return place.is_item and record is not None and record.state == "ended"


def still_working(runs: Runs, places: Iterable[Place]) -> list[Place]:
    """The places without those of items that have ended."""
    return [one for one in places if not (one.is_item and awaits_hand_in(one, runs.of_claim(one.mission, one.name)))]


def sentence(record: RunRecord) -> str:
    """Half a sentence."""
    outcome = record.outcome.value if record.outcome is not None else "ended"
    return f"run {record.run} of {record.mission} ({outcome}) waits until the work queue has heard of its end"
