"""Editing an entry that nobody has claimed: its priority, its due time, its limit of time. One change of names.

The new content is put under the present name and then moved to the new one, so a kill leaves one whole entry in one
place; a repeat of the same edit completes it.
"""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterator
from dataclasses import replace

from kranzq.dispatch.amend import Amended, Amender, changing, not_ours, put, read, refuse_claimed, signed_anew
from kranzq.errors import NoSuchMission, UsageFault
from kranzq.events import Edited, emit
from kranzq.model.claim import Place
from kranzq.model.clock import rfc3339, seconds_of, to_ms
from kranzq.model.entry import MAX_PRIORITY, Entry, Own
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.trust.mac import Signature, verify


class Now(enum.Enum):
    """The due time of what is to run as soon as it can."""

    NOW = "now"


@frozen
class Edits:
    """What is to change; None leaves it. `not_before` is wall seconds; `timeout_s` 0 takes the limit away."""

    priority: int | None = None
    not_before: float | Now | None = None
    timeout_s: float | None = None

    def __str__(self) -> str:
        due = self.not_before
        parts = [f"priority {self.priority}"] if self.priority is not None else []
        parts += [f"not before {due.value if isinstance(due, Now) else rfc3339(due)}"] if due is not None else []
        if self.timeout_s is not None:
            parts.append(f"timeout {self.timeout_s:g} s" if self.timeout_s else "no timeout")
        return ", ".join(parts)


def edit(one: Amender, mission: MissionId, edits: Edits) -> Amended:
    """Change an entry that nobody has claimed, in its present state; a new priority puts it behind those that have it.

    Raises Conflict for a mission that runs, Refused where it would have to be signed for somebody else.
    """
    if edits == Edits():
        raise UsageFault("There is nothing to change.", "Give --priority, --not-before or --timeout.")
    if edits.priority is not None and not 0 <= edits.priority <= MAX_PRIORITY:
        raise UsageFault(f"Priority {edits.priority} is not in the range 0 to {MAX_PRIORITY}.")
    with changing(one, mission) as here:
        place = next((one for one in here if one.state is not State.CLAIMED), None)
        if place is None:
            refuse_claimed(
                here,
                f"Let it end and retry it, queue one more run with: kranzq enqueue --again {mission}; "
                f"or end it: kranzq cancel {mission}",
            )
            raise NoSuchMission(mission)
        edited = _edited(one, read(one, place), edits)
        to, due_ms = _place_after(one, place, edited, edits)
        with _number_for(one, place, edits) as number:
            named = replace(edited, priority=place.priority if edits.priority is None else edits.priority)
            place = put(one, place, replace(named, number=number), to, due_ms)
    emit(Edited(str(mission), str(edits)))
    runs_on = any(each.state is State.CLAIMED for each in here)
    return Amended(mission, place, changed=True, note="this is the one behind the running one" if runs_on else "")


def _edited(one: Amender, entry: Entry, edits: Edits) -> Entry:
    own = entry.own or Own(id=os.urandom(16).hex())
    if isinstance(edits.not_before, float):
        own = replace(own, not_before=rfc3339(edits.not_before))
    elif edits.not_before is Now.NOW:
        own = replace(own, not_before=None)
    if edits.timeout_s is not None and (edits.timeout_s or None) != own.timeout_seconds:
        return signed_anew(one, entry, replace(own, timeout_seconds=edits.timeout_s or None))
    if verify(entry, one.checkout.root, one.keys) is Signature.WRONG:
        raise not_ours(entry, Signature.WRONG)
    return replace(entry, own=own) if entry.own is not None or edits.not_before is not None else entry


def _place_after(one: Amender, place: Place, entry: Entry, edits: Edits) -> tuple[State, int | None]:
    """Where an edited entry belongs: what is parked stays so, and what waits for others waits for them first."""
    waits_for_others = place.state is State.WAITING and place.due_ms is None
    if edits.not_before is None or place.state is State.PARKED or waits_for_others:
        return place.state, place.due_ms
    if edits.not_before is Now.NOW:
        return State.QUEUED, None
    due = seconds_of(entry.own.not_before) if entry.own is not None else None
    return (State.WAITING, to_ms(due)) if due is not None and due > one.clock.now() else (State.QUEUED, None)


@contextlib.contextmanager
def _number_for(one: Amender, place: Place, edits: Edits) -> Iterator[int]:
    if edits.priority is None or edits.priority == place.priority:
        yield place.number
        return
    with one.queue.take_number(one.runs.last_number(place.mission)) as number:
        yield number
