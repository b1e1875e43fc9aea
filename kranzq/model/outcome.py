"""How a run ended, and what becomes of its entry.

An Outcome says that the mission ran; NOT_STARTED and NEVER_BEGAN say that it did not and count nothing. A Fate is
recorded before it is carried out, so whoever comes after a crash carries out the same one.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from kranzq.model.frozen import frozen


class Outcome(enum.Enum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    CANCELLED = "cancelled"
    DEFERRED = "deferred"
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not started"
    """The mission could not be started; see the reason."""
    NEVER_BEGAN = "never began"
    """The dispatcher died before it told the keeper to go."""

    @property
    def ran(self) -> bool:
        """Whether anything of the mission ran."""
        return self not in {Outcome.NOT_STARTED, Outcome.NEVER_BEGAN}


class NotStarted(enum.Enum):
    """Why a mission could not be started: what is to blame decides what happens next."""

    ENTRY = "entry"
    """Its own command is not found or not executable: parked, nobody else waits."""
    ENVIRONMENT = "environment"
    """Checkout, disk, locks or the configured runner: everybody waits, no try is used."""
    REQUEST = "request"
    """A stop or TERM came first: back to its place."""


@frozen
class Ending:
    """What is known of one run's end. `counted` is false when the interruption was asked for."""

    outcome: Outcome
    reason: str = ""
    exit_code: int | None = None
    signal: int | None = None
    not_started: NotStarted | None = None
    counted: bool = True
    cancel_wished: bool = False


@frozen
class Retire:
    """The entry has done its work and goes."""


@frozen
class Return:
    """Back to its old place, under its old name."""


@frozen
class Wait:
    """Not due until `until_ms` (wall milliseconds); keeps its name and so its place."""

    until_ms: int


@frozen
class Rotate:
    """Not due until `until_ms`, then behind its priority under the new `number` (None until one is taken)."""

    until_ms: int
    number: int | None = None


@frozen
class Park:
    """Set aside for a person."""

    reason: str


Fate = Retire | Return | Wait | Rotate | Park


def fate_name(fate: Fate) -> str:
    """The word for a fate in records and events."""
    return type(fate).__name__.lower()


def fate_to_json(fate: Fate) -> dict[str, object]:
    """A fate as run.json keeps it."""
    shown: dict[str, object] = {"fate": fate_name(fate)}
    match fate:
        case Wait(until):
            shown["untilMs"] = until
        case Rotate(until, number):
            shown |= {"untilMs": until, "number": number}
        case Park(reason):
            shown["reason"] = reason
        case _:
            pass
    return shown


def fate_from_json(value: object) -> Fate | None:
    """The fate in a record, or None when there is none that can be carried out."""
    if not isinstance(value, Mapping):
        return None
    until, number, reason = value.get("untilMs"), value.get("number"), value.get("reason")
    match value.get("fate"):
        case "retire":
            return Retire()
        case "return":
            return Return()
        case "wait" if type(until) is int:
            return Wait(until)
        case "rotate" if type(until) is int and type(number) is int:
            return Rotate(until, number)
        case "park":
            return Park(reason if isinstance(reason, str) else "no reason was recorded")
        case _:
            return None
