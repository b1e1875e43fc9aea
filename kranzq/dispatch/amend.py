"""Changing one's mind about a mission that nobody has claimed: park and unpark, and what edit and retry need as well.

Each is one change of names under the queue's lock, lasts over a power cut and emits one event. Whatever is rewritten
keeps its signature's worth: valid ones of this user are signed anew, unsigned ones stay so, others are left alone.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from typing import Protocol

from kranzq.disk import atomic
from kranzq.dispatch.parts import Parts
from kranzq.dispatch.unattended import ClaimQueue, settle_unattended
from kranzq.errors import Conflict, NoSuchMission, NotFound, Refused, StoreUnavailable
from kranzq.events import Unparked, emit
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Place
from kranzq.model.clock import Clock, SystemClock, rfc3339, seconds_of, to_ms
from kranzq.model.entry import Entry, Own
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.trust.key import Keyring
from kranzq.trust.mac import Signature, sign, verify


class AmendQueue(ClaimQueue, Protocol):
    """What changing one's mind asks of an open queue; `change` must be held for all but looking."""

    def places(self, mission: MissionId | None = None) -> Sequence[Place]:
        """Where entries are, all or one mission's."""
        ...

    def read(self, place: Place) -> Entry | None:
        """The entry at a place, or None when it is gone or bad."""
        ...

    def take_number(self, floor: int | None) -> AbstractContextManager[int]:
        """A new number, given out while the context lasts."""
        ...

    def set_aside(self, place: Place, why: str) -> None:
        """Park what is queued or waits."""
        ...

    def finish_moves(self) -> None:
        """Take the second step of every `rewrite` that was killed after its first; takes `change` itself."""
        ...

    def rewrite(self, place: Place, entry: Entry, to: State, due_ms: int | None) -> Place:
        """New content, then the name and place that go with it. FileExistsError: the place is taken."""
        ...


@frozen
class Amender:
    """Who changes his mind, and where. `parts` makes what settling needs, and is called only then."""

    checkout: Checkout
    queue: AmendQueue
    keys: Keyring
    who: str
    parts: Callable[[], Parts]
    clock: Clock = field(default_factory=SystemClock)

    @property
    def runs(self) -> Runs:
        """The run folders below the open `.kranz`."""
        return Runs(self.checkout, self.queue.kranz_fd)


@frozen
class Amended:
    """Where the entry is now, whether this call changed something, and what people should know besides."""

    mission: MissionId
    place: Place
    changed: bool
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """The answer with the documented keys."""
        place = self.place
        due = rfc3339(place.due_ms / 1000) if place.due_ms is not None else None
        shown: dict[str, object] = {"mission": self.mission, "state": place.state.value, "changed": self.changed}
        return shown | {"priority": place.priority, "seq": place.number, "due": due}


def park(one: Amender, mission: MissionId, reason: str) -> Amended:
    """Set what is queued or waits of a mission aside. Raises Conflict for one that runs, NotFound for one gone."""
    with changing(one, mission) as here:
        open_ = [place for place in here if place.state in {State.QUEUED, State.WAITING}]
        if not open_:
            refuse_claimed(here, f"To end it: kranzq cancel {mission}")
            return Amended(mission, here[0], changed=False, note="it was parked before")
        for done, place in enumerate(open_):
            _set_aside(one, place, reason, f"{done} of {len(open_)} entries of {mission} are parked." if done else None)
        parked = next(place for place in of_mission(one, mission) if place.state is State.PARKED)
    runs_on = any(place.state is State.CLAIMED for place in here)
    return Amended(mission, parked, changed=True, note="the run that is under way goes on" if runs_on else "")


def _set_aside(one: Amender, place: Place, reason: str, so_far: str | None) -> None:
    """Park one entry; where the disk refuses, whoever has parked others before it is told so."""
    try:
        one.queue.set_aside(place, reason)
    except OSError as fault:
        if so_far is None or isinstance(fault, FileNotFoundError):
            raise
        raise StoreUnavailable(one.checkout.queue, fault.strerror or str(fault), so_far) from fault


def unpark(one: Amender, mission: MissionId) -> Amended:
    """Let a parked entry back to its place, with new counters; one that is not parked is left as it is.

    Raises Refused for an entry whose signature is not this user's, Conflict when its place is taken.
    """
    with changing(one, mission) as here:
        return unpark_in(one, mission, here)


def unpark_in(one: Amender, mission: MissionId, here: Sequence[Place]) -> Amended:
    """As `unpark`, with the lock held and the places in hand."""
    parked = [place for place in here if place.state is State.PARKED]
    others = [place for place in here if place.state is not State.PARKED]
    if not parked:
        return Amended(mission, others[0], changed=False, note="it was not parked")
    entry = renewed(one, read(one, parked[0]))
    if others and entry.own is not None:
        # a second one beside the first is what this person asks for; without the mark it would be parked at once
        entry = replace(entry, own=replace(entry.own, again=True))
    place = put(one, parked[0], entry, *place_for(one, entry))
    emit(Unparked(str(mission), place.state.value))
    left = len(parked) - 1
    return Amended(mission, place, changed=True, note=f"{left} more of it are parked" if left else "")


@contextlib.contextmanager
def changing(one: Amender, mission: MissionId) -> Iterator[list[Place]]:
    """Hold the queue's lock, with the places of the mission. Raises NotFound when it is not in the queue.

    An end that nobody settled is settled first.
    """
    settle_unattended(one.parts, one.queue, one.runs, mission)
    one.queue.finish_moves()
    with one.queue.change():
        here = of_mission(one, mission)
        if not here:
            raise _absent(one, mission)
        with in_words(one, mission):
            yield here


@contextlib.contextmanager
def in_words(one: Amender, mission: MissionId) -> Iterator[None]:
    """Turn what the disk says into what people understand."""
    try:
        yield
    except FileNotFoundError as fault:
        raise Conflict(
            f"Mission {mission} was moved in this very moment by another program. Nothing was changed.",
            "Try again, or see where it is: kranzq list --all",
        ) from fault
    except OSError as fault:
        raise atomic.store_fault(one.checkout.queue, fault) from fault


def of_mission(one: Amender, mission: MissionId) -> list[Place]:
    """The places of exactly this mission, in order."""
    return [place for place in one.queue.places(mission) if place.mission == mission]


def read(one: Amender, place: Place) -> Entry:
    """The entry at a place; Conflict when nobody can read it."""
    entry = one.queue.read(place)
    if entry is None:
        raise Conflict(f"The file {place.name} cannot be read as an entry. Nothing was changed.", "See: kranzq check")
    return entry


def renewed(one: Amender, entry: Entry) -> Entry:
    """The entry with a new id, so with new counters, and with the worth that its signature had. Raises Refused."""
    own = entry.own
    if own is None:
        return entry
    return signed_anew(one, entry, replace(own, id=os.urandom(16).hex()))


def place_for(one: Amender, entry: Entry) -> tuple[State, int | None]:
    """Where an entry belongs that nobody holds up: its state, and its due time in milliseconds."""
    own = entry.own
    if own is not None and own.after:
        return State.WAITING, None
    due = seconds_of(own.not_before) if own is not None else None
    return (State.WAITING, to_ms(due)) if due is not None and due > one.clock.now() else (State.QUEUED, None)


def put(one: Amender, place: Place, entry: Entry, to: State, due_ms: int | None) -> Place:
    """Rewrite the entry and move it. Raises Conflict when the name to go to is taken: then it stays where it was."""
    try:
        return one.queue.rewrite(place, entry, to, due_ms)
    except FileExistsError as fault:
        raise Conflict(
            f"The place of mission {place.mission} is taken by another entry; it stays {place.state.value}.",
            f"See both: kranzq list --all; or give it another place: kranzq edit {place.mission} --priority N",
        ) from fault


def refuse_claimed(here: Sequence[Place], advice: str) -> None:
    """Raise Conflict when all that is left of the mission runs."""
    if all(place.state is State.CLAIMED for place in here):
        raise Conflict(f"Mission {here[0].mission} is running. Nothing was changed.", advice)


def _absent(one: Amender, mission: MissionId) -> NotFound:
    last = one.runs.last(mission)
    if last is None:
        return NoSuchMission(mission)
    how = last.outcome.value if last.outcome is not None else "without a recorded end"
    return NotFound(
        f"Mission {mission} is not in the queue; run {last.run} ended: {how}.",
        f"To run it once more: kranzq retry {mission}",
    )


def signed_anew(one: Amender, entry: Entry, own: Own) -> Entry:
    """The entry with other fields that a signature covers."""
    worth = verify(entry, one.checkout.root, one.keys)
    changed = replace(entry, own=own)
    if worth is Signature.UNSIGNED:
        return changed
    if worth is not Signature.VALID:
        raise not_ours(entry, worth)
    return sign(changed, one.checkout.root, one.keys.current())


def not_ours(entry: Entry, worth: Signature) -> Refused:
    """Why an entry is left alone whose signature is not a valid one of this user, and what to type."""
    sentence = f"Mission {entry.mission} is not changed: its signature is not a valid one of yours ({worth.value})."
    advice = f"See what it says: kranzq why {entry.mission}; to take it out: kranzq cancel {entry.mission}"
    if worth is Signature.MOVED:
        advice = "This checkout was moved or copied. If it is yours, type first: kranzq trust --here"
    return Refused(sentence, advice)
