"""What becomes of an item of the work queue after its run in a checkout, and under which name it runs there: pure.

The fate is one of a mission's words: *retire*, it is handed in for good; *wait* and *return*, it is given back, to be
claimed not before a time or at once; *park*, it is handed in as failed, for a person must look at it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from kranzq.errors import BadMissionId
from kranzq.model.claim import ITEM_PREFIX
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Ending, Fate, NotStarted, Outcome, Park, Retire, Return, Wait
from kranzq.model.policy import Counters, Limits, backoff_s, deferral, ms_of

_HASH = 32


def mission_of_item(item: str) -> MissionId:
    """The mission id under which an item runs: its own, where that can be one, else a hash of it."""
    try:
        return MissionId(f"{ITEM_PREFIX}{item}")
    except BadMissionId:
        import hashlib  # noqa: PLC0415 - only for ids that no mission can have

        return MissionId(f"{ITEM_PREFIX}{hashlib.sha256(item.encode()).hexdigest()[:_HASH]}")


def decide_item(
    ending: Ending,
    counters: Counters,
    limits: Limits,
    *,
    now: float,
    jitter: Callable[[], float],
    not_before: float | None = None,
) -> Fate:
    """The fate of an item whose run ended as `ending`. Times are wall seconds.

    How often it may fail or be interrupted is the work queue's to say, which counts attempts over all machines; here
    only the pauses are chosen, and how long it may put itself off.
    """
    match ending.outcome:
        case Outcome.SUCCEEDED | Outcome.FAILED | Outcome.TIMED_OUT | Outcome.CANCELLED:
            return Retire()
        case Outcome.DEFERRED:
            until = deferral(counters, limits, now, jitter, not_before)
            return until if isinstance(until, Park) else Wait(until)
        case Outcome.NOT_STARTED:
            if ending.not_started is NotStarted.REQUEST:
                return Return()
            return Wait(ms_of(now + backoff_s(0, jitter())))
        case Outcome.INTERRUPTED | Outcome.NEVER_BEGAN:
            return Return()
        case _:
            assert_never(ending.outcome)
