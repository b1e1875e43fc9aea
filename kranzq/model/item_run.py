"""A run that is made for an item of the work queue: whose claim it is, under which name it runs, what becomes of it.

The item's fate is one of a mission's words: *retire*, it is handed in for good; *wait* and *return*, it is given back,
to be claimed not before a time or at once; *park*, it is handed in as failed, for a person must look at it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from kranzq.errors import BadMissionId
from kranzq.model.claim import ITEM_PREFIX, Holder
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Ending, Fate, NotStarted, Outcome, Park, Retire, Return, Wait
from kranzq.model.policy import Counters, Limits, backoff_s
from kranzq.model.work import Held

_HASH = 32


@dataclass(frozen=True, slots=True)
class ItemOfRun:
    """Which item a run was made for, and who holds it: `url` is the database's, without a password."""

    id: str
    attempt: int
    holder: str
    holder_uid: str
    url: str

    @property
    def held(self) -> Held:
        """What the work queue is shown with every call."""
        return Held(self.id, self.attempt, Holder(self.holder, uid=self.holder_uid))

    @property
    def entry_id(self) -> str:
        """What stands for an entry's id: earlier runs of the same item are counted by it."""
        return f"item:{self.id}"

    def to_json(self) -> dict[str, object]:
        """As `run.json` and the claim's file keep it."""
        return {
            "id": self.id,
            "attempt": self.attempt,
            "holder": self.holder,
            "holderUid": self.holder_uid,
            "url": self.url,
        }

    @classmethod
    def from_json(cls, value: object) -> ItemOfRun | None:
        """The item in a record, or None when it is none."""
        if not isinstance(value, Mapping):
            return None
        texts = [value.get(name) for name in ("id", "holder", "holderUid", "url")]
        attempt = value.get("attempt")
        if type(attempt) is not int or not all(isinstance(text, str) for text in texts):
            return None
        item, holder, uid, url = (str(text) for text in texts)
        return cls(item, attempt, holder, uid, url)


def mission_of_item(item: str) -> MissionId:
    """The mission id under which an item runs: its own, where that can be one, else a hash of it."""
    try:
        return MissionId(f"{ITEM_PREFIX}{item}")
    except BadMissionId:
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
            return _deferred(counters, limits, now, jitter, not_before)
        case Outcome.NOT_STARTED:
            if ending.not_started is NotStarted.REQUEST:
                return Return()
            return Wait(_ms(now + backoff_s(0, jitter())))
        case Outcome.INTERRUPTED | Outcome.NEVER_BEGAN:
            return Return()
        case _:
            assert_never(ending.outcome)


def _deferred(
    counters: Counters, limits: Limits, now: float, jitter: Callable[[], float], not_before: float | None
) -> Fate:
    first = counters.first_deferred_at
    if first is not None and limits.deferral_s is not None and now - first > limits.deferral_s:
        return Park(f"deferred for more than {limits.deferral_s / 3600:g} hours")
    if not_before is not None and not_before > now:
        return Wait(_ms(not_before))
    return Wait(_ms(now + backoff_s(counters.deferrals, jitter())))


def _ms(seconds: float) -> int:
    return int(seconds * 1000)
