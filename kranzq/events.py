"""Every event that can happen. A transition emits exactly one; logs, metrics and streams listen.

Fields are plain values, so a listener can write them as JSON. The reference page lists each class; a test holds it
against this file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to one mission or to the checkout."""

    @property
    def name(self) -> str:
        """The event's name as listeners see it."""
        return type(self).__name__

    def to_json(self) -> dict[str, object]:
        """The event with its fields."""
        return {"event": self.name} | {field.name: getattr(self, field.name) for field in fields(self)}


Listener = Callable[[Event], None]
_listeners: list[Listener] = []


def subscribe(listener: Listener) -> Callable[[], None]:
    """Call `listener` for each event from now on; returns what ends that."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener) if listener in _listeners else None


def emit(event: Event) -> None:
    """Announce `event` to all listeners."""
    for listener in tuple(_listeners):
        listener(event)


@dataclass(frozen=True, slots=True)
class Enqueued(Event):
    """An approved mission became an entry."""

    mission: str
    seq: int
    priority: int


@dataclass(frozen=True, slots=True)
class Claimed(Event):
    """An entry was taken for one keeper."""

    mission: str
    run: int
    claim: str


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The mission's own process runs."""

    mission: str
    run: int
    pid: int


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """A run has an outcome, and the entry a fate."""

    mission: str
    run: int
    outcome: str
    fate: str
    reason: str


@dataclass(frozen=True, slots=True)
class Adopted(Event):
    """A running mission of an earlier dispatcher was found."""

    mission: str
    run: int
    keeper: int


@dataclass(frozen=True, slots=True)
class PutBack(Event):
    """A claim of a gone holder went back to its place."""

    mission: str
    claim: str
    evidence: str


@dataclass(frozen=True, slots=True)
class LeftoversEnded(Event):
    """Processes that a killed keeper left were ended."""

    mission: str
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Quarantined(Event):
    """A file that is no valid entry was set aside with its bytes."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class Parked(Event):
    """An entry was set aside for a person."""

    mission: str
    why: str


@dataclass(frozen=True, slots=True)
class PassedOver(Event):
    """An entry may not run yet; said once for each reason."""

    mission: str
    why: str


@dataclass(frozen=True, slots=True)
class Cancelled(Event):
    """An entry was removed, or a wish to cancel written for a running one."""

    mission: str
    how: str


@dataclass(frozen=True, slots=True)
class WaitsBusy(Event):
    """The checkout is busy; said once for each holder."""

    holder: str


@dataclass(frozen=True, slots=True)
class WatchLost(Event):
    """Watching a directory stopped or is impossible; what is done instead."""

    why: str


@dataclass(frozen=True, slots=True)
class Vanished(Event):
    """Entries that were known are gone without an act of ours."""

    missions: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Warned(Event):
    """Something a person should look at; the work goes on."""

    text: str
