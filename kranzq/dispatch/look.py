"""What lies in the queue, for whoever looks: entries in order, bad files, the inbox. Below `list`, `status` and `why`.

Nothing on disk is changed by a look. Order and state come from names; content is read only where a signature, a due
mission or a reason is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kranzq.dispatch.aside_seen import inbox, inbox_names
from kranzq.dispatch.listed import Listed, Listing, Signed
from kranzq.dispatch.sight import (
    LookQueue,
    Sight,
    distinct,
    fate_of_bad,
    place_key,
    state_of_bad,
)
from kranzq.model.claim import Place
from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.trust.mac import Signature
from kranzq.trust.may_run import PermitKind

if TYPE_CHECKING:
    from kranzq.dispatch.wait_seen import Waits

_CAN_BE_BAD = frozenset({State.QUEUED, State.WAITING, State.PARKED})
_ORDER = {State.CLAIMED: 0, State.QUEUED: 1, State.WAITING: 2, State.INBOX: 3, State.PARKED: 4}


def listing(sight: Sight, states: Iterable[State], *, quarantined: bool = False) -> Listing:
    """The entries in these states, in order: what was claimed, what may run now, what waits, the rest."""
    wanted = set(states)
    bad: dict[str, str] = {}
    found = _read(sight, [place for place in distinct(sight.queue.places()) if place.state in wanted])
    if wanted & _CAN_BE_BAD and _any_bad(sight, found):
        bad |= {one.name: f"{one.why}; {fate_of_bad(one)}" for one in sight.queue.bad() if state_of_bad(one) in wanted}
        found = [one for one in found if one.signed is not None or one.state not in _CAN_BE_BAD]
    if State.INBOX in wanted:
        entries, unreadable = inbox_listed(sight)
        found += entries
        bad |= unreadable
    found.sort(key=_in_order)
    aside = tuple(sight.queue.quarantined()) if quarantined else ()
    return Listing(tuple(found), tuple(sorted(bad.items())), aside)


def entries_of(sight: Sight, mission: MissionId) -> tuple[Listed, ...]:
    """The entries of one mission, also parked ones and those in the inbox, in order."""
    found = _read(sight, [place for place in distinct(sight.queue.places(mission)) if place.mission == mission])
    found += [one for one in inbox_listed(sight)[0] if one.mission == mission]
    return tuple(sorted(found, key=_in_order))


def _read(sight: Sight, places: Sequence[Place]) -> list[Listed]:
    waits = _waits(sight) if any(place.state is State.WAITING for place in places) else None
    read = [(place, sight.queue.read(place)) for place in places]
    return [_listed(sight, place, entry, waits) for place, entry in _followed(sight, read)]


def counts(queue: LookQueue) -> dict[str, int]:
    """How many entries are in each state, by names alone."""
    found = Counter(place.state for place in distinct(queue.places()))
    found[State.INBOX], found[State.QUARANTINED] = len(inbox_names(queue.fd)), len(queue.quarantined())
    return {state.value: found[state] for state in State if state is not State.GONE}


def first_queued(queue: LookQueue) -> str | None:
    """The mission that is first among what is queued, by names alone."""
    queued = (place for place in distinct(queue.places()) if place.state is State.QUEUED)
    first = min(queued, key=lambda place: (place.priority, place.number), default=None)
    return str(first.mission) if first is not None else None


def inbox_listed(sight: Sight) -> tuple[list[Listed], dict[str, str]]:
    """What lies in the inbox, as `list` shows it."""
    entries, bad = inbox(sight.queue.fd)
    note = "admitted by whoever looks next: a daemon, drain or enqueue"
    listed = [Listed(one.mission, one.priority, None, State.INBOX, signed=False, note=note) for one in entries]
    return listed, {name: f"{why}; it cannot be admitted" for name, why in bad.items()}


def _followed(sight: Sight, read: Iterable[tuple[Place, Entry | None]]) -> Iterator[tuple[Place, Entry | None]]:
    """What was read; what could not be has moved since its name was read, or is bad. One more look finds the moved."""
    again: dict[tuple[int, int, str], Place] | None = None
    for place, entry in read:
        if entry is not None:
            yield place, entry
            continue
        if again is None:
            again = {place_key(one): one for one in sight.queue.places()}
        if (moved := again.get(place_key(place))) is not None:
            yield moved, sight.queue.read(moved)


def _waits(sight: Sight) -> Waits:
    from kranzq.dispatch.wait_seen import Waits  # noqa: PLC0415 - rarely does anything wait

    return Waits(Runs(sight.checkout, sight.queue.kranz_fd), sight.queue.places)


def _listed(sight: Sight, place: Place, entry: Entry | None, waits: Waits | None) -> Listed:
    note, advice = (sight.queue.why_parked(place), _unpark(place)) if place.state is State.PARKED else ("", "")
    if entry is None:
        return Listed(place.mission, place.priority, place.number, place.state, place.due_ms, note=note)
    signature = sight.signature(entry)
    permit = sight.permit(entry)
    if permit.kind is not PermitKind.RUN and place.state is not State.PARKED:
        note, advice = permit.why, permit.advice
    elif place.state is State.WAITING:
        note = (waits or _waits(sight)).seen(place, entry).text
    after = tuple(entry.own.after) if entry.own is not None and place.state is State.WAITING else ()
    return Listed(
        place.mission,
        place.priority,
        place.number,
        place.state,
        place.due_ms,
        after if place.due_ms is None else (),
        signed_word(signature),
        note,
        advice,
    )


def signed_word(signature: Signature | None) -> Signed:
    """How `list` says what a signature is worth. A key that may not be used is one that this user does not have."""
    match signature:
        case Signature.VALID:
            return True
        case Signature.UNSIGNED:
            return False
        case None:
            return "unknown key"
        case _:
            return str(signature.value)


def _any_bad(sight: Sight, found: Iterable[Listed]) -> bool:
    """Whether a second look for reasons is worth its price: a name or a content that could not be read."""
    return any(one.signed is None and one.state in _CAN_BE_BAD for one in found) or sight.queue.has_bad_names()


def _unpark(place: Place) -> str:
    return f"When it may run again: kranzq unpark {place.mission}"


def _in_order(one: Listed) -> tuple[int, int, int, int]:
    due = one.due_ms or 0 if one.state is State.WAITING else 0
    return _ORDER.get(one.state, 9), due, one.priority, one.seq or 0
