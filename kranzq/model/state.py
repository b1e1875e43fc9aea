"""The states of an entry and the moves between them. State is where the file is; this table is what moves exist."""

from __future__ import annotations

import enum


class State(enum.Enum):
    """Where an entry is. The word is the same in `list`, `status`, `why` and JSON."""

    INBOX = "inbox"
    QUEUED = "queued"
    WAITING = "waiting"
    CLAIMED = "claimed"
    PARKED = "parked"
    QUARANTINED = "quarantined"
    GONE = "gone"
    """Not a place: it was retired or cancelled; its runs tell how."""


MOVES: dict[State, frozenset[State]] = {
    State.INBOX: frozenset({State.QUEUED, State.WAITING, State.PARKED, State.QUARANTINED, State.GONE}),
    State.QUEUED: frozenset({State.CLAIMED, State.WAITING, State.PARKED, State.QUARANTINED, State.GONE}),
    State.WAITING: frozenset({State.QUEUED, State.PARKED, State.QUARANTINED, State.GONE}),
    State.CLAIMED: frozenset({State.QUEUED, State.WAITING, State.PARKED, State.GONE}),
    State.PARKED: frozenset({State.QUEUED, State.WAITING, State.QUARANTINED, State.GONE}),
    State.QUARANTINED: frozenset(),
    State.GONE: frozenset(),
}
"""From each state, where one atomic move may lead. A person empties the quarantine by hand."""
