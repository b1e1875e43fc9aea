"""What a person allows for a checkout, its settings and keys, and which entries wait for it. Below the verb `trust`.

A moved checkout's entries are signed anew one by one, each in one atomic step; whatever else is wrong with a signature
stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kranzq.backend import MissionQueue
from kranzq.model.claim import Place
from kranzq.model.clock import rfc3339
from kranzq.model.entry import Entry, render
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.trust.approval import Approvals
from kranzq.trust.key import Keyring
from kranzq.trust.mac import Signature, resign, verify
from kranzq.trust.may_run import Gate, PermitKind
from kranzq.trust.settings import SettingsSeen, look_at_settings


class TrustQueue(MissionQueue, Protocol):
    """What trusting asks of an open queue."""

    def places(self, mission: MissionId | None = None) -> Sequence[Place]:
        """Where entries are, all or one mission's."""
        ...

    def read(self, place: Place) -> Entry | None:
        """The entry at a place, or None when it is gone or bad."""
        ...

    def replace_content(self, place: Place, data: bytes) -> None:
        """New content under a present name; FileNotFoundError when it is gone."""
        ...


@frozen
class Waiting:
    """An entry that may not run, why, and what to type."""

    mission: str
    state: State
    command: tuple[str, ...]
    why: str
    advice: str

    def to_json(self) -> dict[str, object]:
        """The entry with the documented keys."""
        shown: dict[str, object] = {"mission": self.mission, "state": self.state.value}
        return shown | {"command": list(self.command), "why": self.why, "advice": self.advice}


@frozen
class Trust:
    """One checkout's approvals, keys and queue."""

    root: str
    queue: TrustQueue | None
    keys: Keyring
    approvals: Approvals

    def settings(self) -> SettingsSeen:
        """The settings file of the checkout, and whether it counts."""
        return look_at_settings(self.root, self.approvals)

    def to_json(self) -> dict[str, object]:
        """All that is allowed and what waits, with the documented keys."""
        seen = self.settings()
        keys = self.keys.seen()
        return {
            "repo": self.root,
            "unsigned": self.approvals.unsigned(self.root),
            "settings": {"state": seen.state, "digest": seen.digest or None, "why": seen.why},
            "keys": [{"id": key.id, "since": rfc3339(key.since), "current": key.current} for key in keys],
            "waiting": [each.to_json() for each in self.waiting()],
        }

    def waiting(self) -> list[Waiting]:
        """The entries that a person has to say something about."""
        if self.queue is None:
            return []
        gate = Gate(self.keys, self.approvals)
        found = []
        for place in self._places():
            entry = self.queue.read(place)
            permit = gate.may_run(entry, self.root) if entry is not None else None
            if entry is not None and permit is not None and permit.kind is not PermitKind.RUN:
                found.append(Waiting(str(entry.mission), place.state, _command(entry), permit.why, permit.advice))
        return found

    def sign_moved(self) -> list[Waiting]:
        """Sign the entries of a moved checkout for where it is now; those that were."""
        if self.queue is None:
            return []
        key = None
        signed = []
        for place in self._places():
            with self.queue.change():
                entry = self.queue.read(place)
                if entry is None or verify(entry, self.root, self.keys) is not Signature.MOVED:
                    continue
                key = key or self.keys.current()
                try:
                    self.queue.replace_content(place, render(resign(entry, self.root, key, self.keys)))
                except FileNotFoundError:
                    continue
            was = entry.own.repo if entry.own is not None else ""
            signed.append(Waiting(str(entry.mission), place.state, _command(entry), f"was signed for {was}", ""))
        return signed

    def _places(self) -> list[Place]:
        places = self.queue.places() if self.queue is not None else ()
        return [place for place in places if place.state is not State.CLAIMED]


def _command(entry: Entry) -> tuple[str, ...]:
    return entry.own.command if entry.own is not None else ()
