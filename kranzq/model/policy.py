"""What becomes of an entry after a run: one pure function, every outcome in every state has exactly one fate."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from kranzq.model.frozen import frozen
from kranzq.model.outcome import Ending, Fate, NotStarted, Outcome, Park, Retire, Return, Rotate, Wait

BACKOFF_FIRST_S = 5.0
BACKOFF_MOST_S = 15 * 60.0
INTERRUPTION_LIMIT = 3
DEFERRAL_LIMIT_S = 24 * 3600.0


@frozen
class Counters:
    """Earlier runs of the same entry id. `first_deferred_at` is a wall time in seconds."""

    failures: int = 0
    deferrals: int = 0
    interruptions: int = 0
    first_deferred_at: float | None = None


@frozen
class Limits:
    """What the entry and the settings allow."""

    retries: int = 0
    park_interrupted: bool = False
    interruptions: int = INTERRUPTION_LIMIT
    deferral_s: float | None = DEFERRAL_LIMIT_S
    """None: a mission may defer itself for ever."""


def backoff_s(tries: int, jitter: float) -> float:
    """Seconds to wait after `tries` tries: 5 s doubling to 15 min; `jitter` in 0..1 takes off up to a quarter."""
    return min(BACKOFF_FIRST_S * float(2 ** min(tries, 20)), BACKOFF_MOST_S) * (1.0 - 0.25 * jitter)


def decide(
    ending: Ending,
    counters: Counters,
    limits: Limits,
    *,
    now: float,
    jitter: Callable[[], float],
    not_before: float | None = None,
) -> Fate:
    """The fate of an entry whose run ended as `ending`. Times are wall seconds.

    A wish to cancel makes every fate that would bring the entry back *retire*.
    """
    fate = _decide(ending, counters, limits, now, jitter, not_before)
    return Retire() if ending.cancel_wished and not isinstance(fate, Retire) else fate


def _decide(
    ending: Ending,
    counters: Counters,
    limits: Limits,
    now: float,
    jitter: Callable[[], float],
    not_before: float | None,
) -> Fate:
    match ending.outcome:
        case Outcome.SUCCEEDED | Outcome.CANCELLED:
            return Retire()
        case Outcome.FAILED | Outcome.TIMED_OUT:
            if counters.failures >= limits.retries:
                return Retire()
            return Wait(ms_of(now + backoff_s(counters.failures, jitter())))
        case Outcome.DEFERRED:
            until = deferral(counters, limits, now, jitter, not_before)
            return until if isinstance(until, Park) else Rotate(until)
        case Outcome.INTERRUPTED:
            return _interrupted(ending, counters, limits)
        case Outcome.NOT_STARTED:
            if ending.not_started is NotStarted.ENTRY:
                return Park(ending.reason or "its command could not be started")
            return Return()
        case Outcome.NEVER_BEGAN:
            return Return()
        case _:
            assert_never(ending.outcome)


def deferral(
    counters: Counters, limits: Limits, now: float, jitter: Callable[[], float], not_before: float | None
) -> Park | int:
    """Until when what deferred itself waits, in wall milliseconds; or that it has done so for too long."""
    first = counters.first_deferred_at
    if first is not None and limits.deferral_s is not None and now - first > limits.deferral_s:
        return Park(f"deferred for more than {span(limits.deferral_s)}")
    if not_before is not None and not_before >= now:
        return ms_of(not_before)
    return ms_of(now + backoff_s(counters.deferrals, jitter()))


def _interrupted(ending: Ending, counters: Counters, limits: Limits) -> Fate:
    if not ending.counted:
        return Return()
    if limits.park_interrupted:
        return Park('interrupted, and on_interrupted is "park"')
    if counters.interruptions + 1 >= limits.interruptions:
        return Park(f"interrupted {counters.interruptions + 1} times: it would be interrupted again")
    return Return()


def ms_of(seconds: float) -> int:
    """Wall milliseconds of wall seconds."""
    return int(seconds * 1000)


def span(seconds: float) -> str:
    """A length of time in the largest unit that it fills twice, so that a short limit reads as well as a day."""
    for unit, size in (("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} seconds"
