"""What lies in the queue, for whoever looks: entries in order, bad files, the inbox. Below `list`, `status` and `why`.

Nothing on disk is changed by a look. Order and state come from names; content is read only where a signature, a due
mission or a reason is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from kranzq.dispatch.aside_seen import inbox, inbox_names
from kranzq.dispatch.listed import Listed, Listing, Signed
from kranzq.dispatch.wait_seen import Waits
from kranzq.errors import Refused
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claimed, Place
from kranzq.model.clock import Clock, SystemClock
from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.trust.key import Key
from kranzq.trust.mac import Keys, Signature, verify
from kranzq.trust.may_run import Gate, Permit, PermitKind

_CAN_BE_BAD = frozenset({State.QUEUED, State.WAITING, State.PARKED})
_ORDER = {State.CLAIMED: 0, State.QUEUED: 1, State.WAITING: 2, State.INBOX: 3, State.PARKED: 4}


class BadFile(Protocol):
    """A file that asks to be an entry and is none."""

    @property
    def name(self) -> str:
        """Its name in the queue."""
        ...

    @property
    def why(self) -> str:
        """Half a sentence."""
        ...

    @property
    def fresh(self) -> bool:
        """Whether it may still be written."""
        ...


class LookQueue(Protocol):
    """What a look asks of a queue; none of it changes anything."""

    @property
    def fd(self) -> int:
        """The descriptor of `.kranz/queue`."""
        ...

    @property
    def kranz_fd(self) -> int:
        """The descriptor of `.kranz`."""
        ...

    def places(self, mission: MissionId | None = None) -> Sequence[Place]:
        """Where entries are, all or one mission's."""
        ...

    def read(self, place: Place) -> Entry | None:
        """The entry at a place, or None when it is gone or bad."""
        ...

    def bad(self) -> Sequence[BadFile]:
        """What lies in the queue as a candidate and is no entry; beside it with its folder in the name."""
        ...

    def has_bad_names(self) -> bool:
        """Whether a name alone tells that something is no entry."""
        ...

    def claims(self) -> Sequence[Claimed]:
        """All claims that lie in the queue."""
        ...

    def strange_claims(self) -> Sequence[str]:
        """Names with a claim's mark that are no claims."""
        ...

    def quarantined(self) -> Sequence[tuple[str, str]]:
        """Names in the quarantine with their reasons."""
        ...

    def why_parked(self, place: Place) -> str:
        """The reason of a parked entry."""
        ...

    def paused(self) -> str | None:
        """Why no new turns may be done, or None."""
        ...


OpenLook = Callable[[], AbstractContextManager[LookQueue | None]]
"""Opens the queue for one look; None where the checkout has none."""


class RememberedKeys:
    """Keys that are read from disk once a look, not once an entry."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys
        self._found: dict[str, Key | None] = {}

    def find(self, key_id: str) -> Key | None:
        """The key with this id, or None. Raises Refused when its file is not safe."""
        if key_id not in self._found:
            self._found[key_id] = self._keys.find(key_id)
        return self._found[key_id]


@dataclass(slots=True)
class Sight:
    """What one look is made of. `gate` must use `keys`."""

    checkout: Checkout
    queue: LookQueue
    gate: Gate
    keys: Keys
    clock: Clock = field(default_factory=SystemClock)
    notices: tuple[tuple[str, str], ...] = ()
    """What a person should know of the checkout itself, and what to do: settings that do not count, what git tracks."""

    def signature(self, entry: Entry) -> Signature | None:
        """What the signature is worth; None when the key's file is not safe to use."""
        try:
            return verify(entry, self.checkout.root, self.keys)
        except Refused:
            return None

    def permit(self, entry: Entry) -> Permit:
        """What the gate says."""
        return self.gate.may_run(entry, self.checkout.root)


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
    waits = Waits(Runs(sight.checkout, sight.queue.kranz_fd), sight.queue.places)
    read = [(place, sight.queue.read(place)) for place in places]
    return [_listed(sight, place, entry, waits) for place, entry in _followed(sight, read)]


def counts(queue: LookQueue) -> dict[str, int]:
    """How many entries are in each state, by names alone."""
    found = Counter(place.state for place in distinct(queue.places()))
    found[State.INBOX], found[State.QUARANTINED] = len(inbox_names(queue.fd)), len(queue.quarantined())
    return {state.value: found[state] for state in State if state is not State.GONE}


def distinct(places: Iterable[Place]) -> list[Place]:
    """Each entry once: for an instant it can have two names, and then the later state is the true one."""
    seen: dict[tuple[int, int, str], Place] = {}
    for place in places:
        key = _key(place)
        if key not in seen or seen[key].state is State.QUEUED:
            seen[key] = place
    return list(seen.values())


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
            again = {_key(one): one for one in sight.queue.places()}
        if (moved := again.get(_key(place))) is not None:
            yield moved, sight.queue.read(moved)


def _listed(sight: Sight, place: Place, entry: Entry | None, waits: Waits) -> Listed:
    note, advice = (sight.queue.why_parked(place), _unpark(place)) if place.state is State.PARKED else ("", "")
    if entry is None:
        return Listed(place.mission, place.priority, place.number, place.state, place.due_ms, note=note)
    signature = sight.signature(entry)
    permit = sight.permit(entry)
    if permit.kind is not PermitKind.RUN and place.state is not State.PARKED:
        note, advice = permit.why, permit.advice
    elif place.state is State.WAITING:
        note = waits.seen(place, entry).text
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


def name_of_bad(place: Place) -> str:
    """How a bad file is named whose name alone is good."""
    return place.name if place.state is State.QUEUED else f"{place.state.value}/{place.name}"


def state_of_bad(bad: BadFile) -> State:
    """The state in which a bad file would be, were it an entry: by the folder in its name."""
    folder, slash, _ = bad.name.partition("/")
    return State(folder) if slash else State.QUEUED


def fate_of_bad(bad: BadFile) -> str:
    """What becomes of a bad file, half a sentence."""
    return "perhaps it is still being written" if bad.fresh else "it will be quarantined at the next turn"


def _key(place: Place) -> tuple[int, int, str]:
    return place.priority, place.number, place.mission


def _unpark(place: Place) -> str:
    return f"When it may run again: kranzq unpark {place.mission}"


def _in_order(one: Listed) -> tuple[int, int, int, int]:
    due = one.due_ms or 0 if one.state is State.WAITING else 0
    return _ORDER.get(one.state, 9), due, one.priority, one.seq or 0
