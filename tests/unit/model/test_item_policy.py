"""What becomes of an item after its run, and under which name it runs."""

from __future__ import annotations

import pytest

from kranzq.model.item_policy import decide_item, mission_of_item
from kranzq.model.item_run import ItemOfRun
from kranzq.model.outcome import Ending, Fate, NotStarted, Outcome, Park, Retire, Return, Wait
from kranzq.model.policy import Counters, Limits

NOW = 1_000_000.0
LATER = Wait(int((NOW + 5) * 1000))


@pytest.mark.parametrize(
    ("ending", "fate"),
    [
        (Ending(Outcome.SUCCEEDED), Retire()),
        (Ending(Outcome.FAILED, exit_code=1), Retire()),
        (Ending(Outcome.TIMED_OUT), Retire()),
        (Ending(Outcome.CANCELLED, cancel_wished=True), Retire()),
        (Ending(Outcome.DEFERRED), LATER),
        (Ending(Outcome.INTERRUPTED), Return()),
        (Ending(Outcome.INTERRUPTED, counted=False), Return()),
        (Ending(Outcome.NOT_STARTED, not_started=NotStarted.ENVIRONMENT), LATER),
        (Ending(Outcome.NOT_STARTED, not_started=NotStarted.ENTRY), LATER),
        (Ending(Outcome.NOT_STARTED, not_started=NotStarted.REQUEST), Return()),
        (Ending(Outcome.NEVER_BEGAN), Return()),
    ],
)
def test_each_end_has_its_fate(ending: Ending, fate: Fate) -> None:
    """How often it may fail is the work queue's to count: here nothing is parked for interruptions."""
    found = decide_item(ending, Counters(interruptions=9), Limits(interruptions=1), now=NOW, jitter=lambda: 0.0)

    assert found == fate


def test_a_deferred_item_waits_until_the_time_that_it_asked_for() -> None:
    """And without one longer each time."""
    ending = Ending(Outcome.DEFERRED)
    asked = decide_item(ending, Counters(), Limits(), now=NOW, jitter=lambda: 0.0, not_before=NOW + 77)
    third = decide_item(ending, Counters(deferrals=2), Limits(), now=NOW, jitter=lambda: 0.0)

    assert asked == Wait(int((NOW + 77) * 1000))
    assert third == Wait(int((NOW + 20) * 1000))


def test_an_item_that_defers_itself_for_too_long_is_for_a_person() -> None:
    """The limit is that of missions."""
    counters = Counters(deferrals=50, first_deferred_at=NOW - 3601)
    found = decide_item(Ending(Outcome.DEFERRED), counters, Limits(deferral_s=3600.0), now=NOW, jitter=lambda: 0.0)

    assert found == Park("deferred for more than 60 minutes")


@pytest.mark.parametrize("item", ["c15e480f-e018-4859", "A.b_c-1", "7"])
def test_an_item_runs_under_its_own_id(item: str) -> None:
    """So people find it by what the work queue calls it."""
    assert mission_of_item(item) == f"item-{item}"


@pytest.mark.parametrize(
    "item", ["a b", "../../etc", "x.claimed.1", "a/b", "ü", "x" * 200, "x.json", "x.lock", "-", ""]
)
def test_an_id_that_no_mission_can_have_is_hashed(item: str) -> None:
    """Whatever stands in an item's id, it is no path and imitates no claim."""
    found = mission_of_item(item)

    assert found == mission_of_item(item)
    assert found.startswith("item-")
    assert set(found.removeprefix("item-")) <= set("0123456789abcdef-")


def test_the_item_in_a_record_is_read_back_or_is_none() -> None:
    """Nothing is believed in part."""
    item = ItemOfRun("i-1", 3, "kranzq@host:/r", "checkout:ab", "postgresql://host/work")

    assert ItemOfRun.from_json(item.to_json()) == item
    assert ItemOfRun.from_json(item.to_json() | {"attempt": "3"}) is None
    assert ItemOfRun.from_json({"id": "i-1"}) is None
    assert ItemOfRun.from_json(None) is None
