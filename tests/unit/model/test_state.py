"""States and the moves between them."""

from __future__ import annotations

from kranzq.model.state import MOVES, State


def test_every_state_has_its_moves() -> None:
    """The table names each state, and nothing leads back from being gone or to the inbox."""
    assert set(MOVES) == set(State)
    assert MOVES[State.GONE] == frozenset()
    assert all(State.INBOX not in moves for moves in MOVES.values())


def test_only_what_is_queued_can_be_claimed() -> None:
    """A claim is taken from the queue and from nowhere else."""
    assert [state for state, moves in MOVES.items() if State.CLAIMED in moves] == [State.QUEUED]
