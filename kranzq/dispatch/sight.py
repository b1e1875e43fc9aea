"""What a look at the queue is made of: what it asks of a queue, with which keys, and how bad files are named.

Nothing on disk is changed by a look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from kranzq.errors import Refused
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claimed, Place
from kranzq.model.clock import Clock, SystemClock
from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.trust.key import Key
from kranzq.trust.mac import Keys, Signature, verify
from kranzq.trust.may_run import Gate, Permit


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


def distinct(places: Iterable[Place]) -> list[Place]:
    """Each entry once: for an instant it can have two names, and then the later state is the true one."""
    seen: dict[tuple[int, int, str], Place] = {}
    for place in places:
        key = place_key(place)
        if key not in seen or seen[key].state is State.QUEUED:
            seen[key] = place
    return list(seen.values())


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


def place_key(place: Place) -> tuple[int, int, str]:
    """What of a place stays the same wherever its entry goes."""
    return place.priority, place.number, place.mission
