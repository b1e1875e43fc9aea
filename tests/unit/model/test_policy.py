"""What becomes of an entry: every outcome in every state has exactly one fate."""

from __future__ import annotations

import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.model.outcome import (
    Ending,
    Fate,
    NotStarted,
    Outcome,
    Park,
    Retire,
    Return,
    Rotate,
    Wait,
    fate_from_json,
    fate_name,
    fate_to_json,
)
from kranzq.model.policy import (
    BACKOFF_FIRST_S,
    BACKOFF_MOST_S,
    DEFERRAL_LIMIT_S,
    INTERRUPTION_LIMIT,
    Counters,
    Limits,
    backoff_s,
    decide,
)

NOW = 1_800_000_000.0
FATES = typing.get_args(Fate)
endings = st.builds(
    Ending,
    outcome=st.sampled_from(Outcome),
    reason=st.text(max_size=5),
    not_started=st.none() | st.sampled_from(NotStarted),
    counted=st.booleans(),
    cancel_wished=st.booleans(),
)
counters = st.builds(
    Counters,
    failures=st.integers(0, 2000),
    deferrals=st.integers(0, 2000),
    interruptions=st.integers(0, 10),
    first_deferred_at=st.none() | st.floats(NOW - 10 * DEFERRAL_LIMIT_S, NOW),
)
limits = st.builds(
    Limits,
    retries=st.integers(0, 1000),
    park_interrupted=st.booleans(),
    interruptions=st.integers(1, 1000),
    deferral_s=st.none() | st.floats(1, 10 * DEFERRAL_LIMIT_S),
)


def fate_of(ending: Ending, counted: Counters = Counters(), limit: Limits = Limits(), **rest: float) -> Fate:  # noqa: B008
    """The fate, without jitter."""
    return decide(ending, counted, limit, now=NOW, jitter=lambda: 0.0, not_before=rest.get("not_before"))


@given(endings, counters, limits, st.none() | st.floats(0, 2 * NOW))
def test_every_outcome_has_exactly_one_fate(
    ending: Ending, counted: Counters, limit: Limits, not_before: float | None
) -> None:
    """Whatever happened, whatever the counters and settings, one of the five fates comes out, and a record keeps it."""
    fate = decide(ending, counted, limit, now=NOW, jitter=lambda: 0.5, not_before=not_before)

    assert type(fate) in FATES
    numbered = Rotate(fate.until_ms, 7) if isinstance(fate, Rotate) else fate
    assert fate_from_json(fate_to_json(numbered)) == numbered


@given(endings, counters, limits)
def test_a_wish_to_cancel_never_brings_an_entry_back(ending: Ending, counted: Counters, limit: Limits) -> None:
    """What a person cancelled is retired, however its run ended."""
    cancelled = Ending(ending.outcome, ending.reason, not_started=ending.not_started, cancel_wished=True)

    assert fate_of(cancelled, counted, limit) == Retire()


@given(endings, counters, limits, st.none() | st.floats(0, 2 * NOW))
def test_each_fate_has_its_grounds(ending: Ending, counted: Counters, limit: Limits, not_before: float | None) -> None:
    """Nothing waits without a try left, nothing is parked without a limit reached, nothing is lost that did not end."""
    fate = decide(ending, counted, limit, now=NOW, jitter=lambda: 0.5, not_before=not_before)
    failed = ending.outcome in {Outcome.FAILED, Outcome.TIMED_OUT}
    used_up = counted.failures >= limit.retries
    since = None if counted.first_deferred_at is None else NOW - counted.first_deferred_at
    too_long = since is not None and limit.deferral_s is not None and since > limit.deferral_s
    too_often = ending.counted and (limit.park_interrupted or counted.interruptions + 1 >= limit.interruptions)

    over = ending.cancel_wished or ending.outcome in {Outcome.SUCCEEDED, Outcome.CANCELLED} or (failed and used_up)
    assert isinstance(fate, Retire) == over
    if not over:
        assert isinstance(fate, Wait) == failed
        assert isinstance(fate, Rotate) == (ending.outcome is Outcome.DEFERRED and not too_long)
        parked = {
            Outcome.DEFERRED: too_long,
            Outcome.INTERRUPTED: too_often,
            Outcome.NOT_STARTED: ending.not_started is NotStarted.ENTRY,
        }
        assert isinstance(fate, Park) == parked.get(ending.outcome, False)


@given(counters, limits)
def test_counters_are_separate(counted: Counters, limit: Limits) -> None:
    """A try that was deferred or interrupted uses up no retry, and a failure no patience with deferrals."""
    others = Counters(counted.failures)
    assert fate_of(Ending(Outcome.FAILED), counted, limit) == fate_of(Ending(Outcome.FAILED), others, limit)
    only = Counters(deferrals=counted.deferrals, first_deferred_at=counted.first_deferred_at)
    assert fate_of(Ending(Outcome.DEFERRED), counted, limit) == fate_of(Ending(Outcome.DEFERRED), only, limit)


@given(endings, counters, limits)
def test_a_wait_is_never_in_the_past_nor_longer_than_its_ceiling(
    ending: Ending, counted: Counters, limit: Limits
) -> None:
    """Backoff begins with seconds and ends at a quarter of an hour, whatever the number of tries."""
    fate = fate_of(ending, counted, limit)
    if isinstance(fate, Wait | Rotate):
        assert NOW * 1000 < fate.until_ms <= (NOW + BACKOFF_MOST_S) * 1000


@given(st.integers(0, 10**6), st.floats(0, 1))
def test_backoff_grows_and_is_bounded(tries: int, jitter: float) -> None:
    """Each try waits at least as long as the one before it (without jitter), and jitter takes off at most a quarter."""
    assert backoff_s(tries, 0.0) <= backoff_s(tries + 1, 0.0) <= BACKOFF_MOST_S
    assert 0.75 * backoff_s(tries, 0.0) <= backoff_s(tries, jitter) <= backoff_s(tries, 0.0)
    assert backoff_s(0, 0.0) == BACKOFF_FIRST_S


@pytest.mark.parametrize(
    ("ending", "counted", "limit", "word"),
    [
        (Ending(Outcome.SUCCEEDED), Counters(), Limits(), "retire"),
        (Ending(Outcome.CANCELLED), Counters(), Limits(retries=5), "retire"),
        (Ending(Outcome.FAILED), Counters(), Limits(), "retire"),
        (Ending(Outcome.FAILED), Counters(), Limits(retries=1), "wait"),
        (Ending(Outcome.FAILED), Counters(failures=1), Limits(retries=1), "retire"),
        (Ending(Outcome.TIMED_OUT), Counters(), Limits(retries=1), "wait"),
        (Ending(Outcome.DEFERRED), Counters(deferrals=50), Limits(), "rotate"),
        (Ending(Outcome.DEFERRED), Counters(first_deferred_at=NOW - DEFERRAL_LIMIT_S - 1), Limits(), "park"),
        (Ending(Outcome.DEFERRED), Counters(first_deferred_at=NOW - 10**9), Limits(deferral_s=None), "rotate"),
        (Ending(Outcome.DEFERRED), Counters(first_deferred_at=NOW - 61), Limits(deferral_s=60), "park"),
        (Ending(Outcome.INTERRUPTED), Counters(), Limits(), "return"),
        (Ending(Outcome.INTERRUPTED), Counters(), Limits(interruptions=1), "park"),
        (Ending(Outcome.INTERRUPTED), Counters(interruptions=INTERRUPTION_LIMIT), Limits(interruptions=9), "return"),
        (Ending(Outcome.INTERRUPTED), Counters(interruptions=INTERRUPTION_LIMIT - 1), Limits(), "park"),
        (Ending(Outcome.INTERRUPTED, counted=False), Counters(interruptions=99), Limits(), "return"),
        (Ending(Outcome.INTERRUPTED), Counters(), Limits(park_interrupted=True), "park"),
        (Ending(Outcome.INTERRUPTED, counted=False), Counters(), Limits(park_interrupted=True), "return"),
        (Ending(Outcome.NOT_STARTED, not_started=NotStarted.ENTRY), Counters(), Limits(), "park"),
        (Ending(Outcome.NOT_STARTED, not_started=NotStarted.ENVIRONMENT), Counters(), Limits(), "return"),
        (Ending(Outcome.NEVER_BEGAN), Counters(interruptions=99), Limits(), "return"),
    ],
)
def test_the_table_of_fates(ending: Ending, counted: Counters, limit: Limits, word: str) -> None:
    """The table of the reference page, row by row."""
    assert fate_name(fate_of(ending, counted, limit)) == word


def test_a_mission_that_names_its_time_waits_until_then() -> None:
    """A deferred mission with a time of its own waits exactly so long; a time in the past counts as none."""
    assert fate_of(Ending(Outcome.DEFERRED), not_before=NOW + 7200) == Rotate(int((NOW + 7200) * 1000))
    assert fate_of(Ending(Outcome.DEFERRED), not_before=NOW) == Rotate(int(NOW * 1000))
    assert fate_of(Ending(Outcome.DEFERRED), not_before=NOW - 1) == Rotate(int((NOW + BACKOFF_FIRST_S) * 1000))


@pytest.mark.parametrize(
    "value",
    [None, 7, "retire", {}, {"fate": "burn"}, {"fate": "wait"}, {"fate": "wait", "untilMs": True}, {"fate": "rotate"},
     {"fate": "rotate", "untilMs": 1, "number": None}],
)  # fmt: skip
def test_a_fate_that_cannot_be_carried_out_is_none(value: object) -> None:
    """A damaged record is decided anew instead of being half believed."""
    assert fate_from_json(value) is None


def test_a_return_and_a_park_are_kept_with_what_they_need() -> None:
    """A park without its reason still is one: the entry is not run again for want of words."""
    assert fate_from_json({"fate": "park"}) == Park("no reason was recorded")
    assert fate_from_json({"fate": "return"}) == Return()


@pytest.mark.parametrize(
    ("limit", "told"),
    [(0.4, "0.4 seconds"), (90.0, "90 seconds"), (300.0, "5 minutes"), (86_400.0, "24 hours")],
)
def test_a_limit_is_told_in_a_unit_that_it_fills(limit: float, told: str) -> None:
    """A person reads how long it was deferred, however short or long the limit is."""
    counters = Counters(first_deferred_at=NOW - 2 * limit)
    fate = decide(Ending(Outcome.DEFERRED), counters, Limits(deferral_s=limit), now=NOW, jitter=lambda: 0.0)

    assert fate == Park(f"deferred for more than {told}")
