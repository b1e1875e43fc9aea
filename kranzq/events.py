# Longer than 300 lines: a list, and one place to look for every event.
"""Every event that can happen. A transition emits exactly one; logs, metrics and streams listen.

Fields are plain values, so a listener can write them as JSON. The reference page lists each class; a test holds it
against this file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True)
class Event:
    """Something that happened to one mission or to the checkout.

    A subclass only lists its fields, and is made with them like a dataclass. It is none, since making two dozen of
    those costs each start of the command line more than all the rest of this module.
    """

    field_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Take the fields from the annotations."""
        cls.field_names = tuple(cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        given = dict(zip(self.field_names, values, strict=False)) | named
        if len(values) > len(self.field_names) or given.keys() != set(self.field_names):
            raise TypeError(f"{self.name} has the fields {', '.join(self.field_names)}")
        vars(self).update(given)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name}: an event that happened does not change")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    @property
    def name(self) -> str:
        """The event's name as listeners see it."""
        return type(self).__name__

    def to_json(self) -> dict[str, object]:
        """The event with its fields."""
        return {"event": self.name} | vars(self)


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


def afterwards(act: Callable[[], None]) -> None:
    """Do what a listener need not do at once: now, or when the lock is free under which the event happened."""
    if (later := _later.get()) is None:
        act()
    elif act not in later:
        later.append(act)


@contextlib.contextmanager
def with_afterwards() -> Iterator[None]:
    """Put off what is to be done afterwards until this is over, each thing once."""
    later: list[Callable[[], None]] = []
    before = _later.get()
    _later.set(later)
    try:
        yield
    finally:
        _later.set(before)
        for act in later:
            afterwards(act)


_later: ContextVar[list[Callable[[], None]] | None] = ContextVar("_later", default=None)


class Enqueued(Event):
    """An approved mission became an entry."""

    mission: str
    seq: int
    priority: int


class Repeated(Event):
    """A file in the inbox asked for what an entry that is still to run will do; it was removed."""

    mission: str
    file: str
    state: str


class Claimed(Event):
    """An entry was taken for one keeper."""

    mission: str
    run: int
    claim: str


class Started(Event):
    """The mission's own process runs."""

    mission: str
    run: int
    pid: int


class Ended(Event):
    """A run has an outcome, and the entry a fate."""

    mission: str
    run: int
    outcome: str
    fate: str
    reason: str


class Adopted(Event):
    """A running mission of an earlier dispatcher was found."""

    mission: str
    run: int
    keeper: int


class PutBack(Event):
    """A claim of a gone holder went back to its place."""

    mission: str
    claim: str
    evidence: str


class LeftoversEnded(Event):
    """Processes that a killed keeper left were ended."""

    mission: str
    pids: tuple[int, ...]


class Quarantined(Event):
    """A file that is no valid entry was set aside with its bytes."""

    file: str
    why: str


class Parked(Event):
    """An entry was set aside for a person."""

    mission: str
    why: str


class Due(Event):
    """An entry that waited for its time or for other missions may run now."""

    mission: str


class Unparked(Event):
    """A person took an entry out of what is parked."""

    mission: str
    state: str


class Edited(Event):
    """A person changed an entry that was not running."""

    mission: str
    changes: str


class PassedOver(Event):
    """An entry may not run yet; said once for each reason. `person`: only a person can change that."""

    mission: str
    why: str
    person: bool


class Cancelled(Event):
    """An entry was removed, or a wish to cancel written for a running one."""

    mission: str
    how: str


class ItemEnqueued(Event):
    """An item came into the work queue."""

    item: str
    target: str
    kind: str
    priority: int


class ItemClaimed(Event):
    """An item was given to a holder under an attempt; how long it had waited, for its first one."""

    item: str
    attempt: int
    holder: str
    waited_ms: int | None


class LeaseRenewed(Event):
    """A holder said that it works on."""

    item: str
    attempt: int


class ItemEnded(Event):
    """A holder ended its item for good."""

    item: str
    attempt: int
    state: str


class ItemReleased(Event):
    """A holder gave its item back."""

    item: str
    attempt: int
    state: str
    why: str


class ItemCancelled(Event):
    """An item was ended from outside."""

    item: str
    why: str


class WorkSwept(Event):
    """Leases of items lapsed, some for the last time; items that waited came due."""

    lapsed: tuple[str, ...]
    failed: tuple[str, ...]
    opened: int


class PresenceClaimed(Event):
    """An agent said that it works on something, or that it still does."""

    claim: str
    agent: str
    renewed: bool


class PresenceReleased(Event):
    """An agent said that it works on something no more."""

    claims: tuple[str, ...]
    agent: str


class AgentAdded(Event):
    """An agent may call a server from now on; its token is in no event."""

    uid: str
    agent: str


class AgentRotated(Event):
    """An agent has another token; its old one opens nothing any more."""

    uid: str
    agent: str


class AgentRevoked(Event):
    """An agent and its token are gone."""

    uid: str
    agent: str


class ItemsPruned(Event):
    """Items that ended long ago were removed."""

    items: int


class Drained(Event):
    """A dispatcher that has run missions finds nothing more that may run now."""

    ran: int


class WaitsBusy(Event):
    """The checkout is busy; said once for each holder."""

    holder: str


class WatchLost(Event):
    """Watching a directory stopped or is impossible; what is done instead."""

    why: str


class Swept(Event):
    """Old runs, old quarantined files and files that killed writers left were removed."""

    runs: int
    quarantined: int
    leavings: int


class StartsPaused(Event):
    """A mission could not be started for reasons that concern all; nothing is started for some seconds."""

    seconds: float
    why: str


class Vanished(Event):
    """Entries that were known are gone without an act of ours."""

    missions: tuple[str, ...]
    why: str


class Warned(Event):
    """Something a person should look at; the work goes on."""

    text: str
