"""What `list` shows: entries in order and files that are none, as values and as JSON."""

from __future__ import annotations

from kranzq.model.clock import rfc3339
from kranzq.model.frozen import frozen
from kranzq.model.state import State

Signed = bool | str | None
"""True, False for an unsigned entry, or what is wrong with the signature; None where the content cannot be read."""


@frozen
class Listed:
    """One entry as `list` shows it. `note` says what holds it up and `advice` what to type, for people."""

    mission: str
    priority: int
    seq: int | None
    state: State
    due_ms: int | None = None
    waiting_for: tuple[str, ...] = ()
    signed: Signed = None
    note: str = ""
    advice: str = ""

    def to_json(self) -> dict[str, object]:
        """The entry with the documented keys."""
        return {
            "mission": self.mission,
            "priority": self.priority,
            "seq": self.seq,
            "state": self.state.value,
            "due": rfc3339(self.due_ms / 1000) if self.due_ms is not None else None,
            "waitingFor": list(self.waiting_for),
            "signed": self.signed,
            "note": self.note,
            "advice": self.advice,
        }


@frozen
class Listing:
    """All entries in order, and the files that are none, each with its reason; `quarantined` where it was asked for."""

    entries: tuple[Listed, ...] = ()
    bad: tuple[tuple[str, str], ...] = ()
    quarantined: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, object]:
        """The list with the documented keys."""
        return {
            "entries": [one.to_json() for one in self.entries],
            "bad": _reasons(self.bad),
            "quarantined": _reasons(self.quarantined),
        }


def _reasons(files: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"file": name, "why": why} for name, why in files]
