"""The outbox in a program that lives long."""

from __future__ import annotations

from pathlib import Path

from kranzq.events import Enqueued
from kranzq.hooks.outbox import Outbox
from tests.laboratory import state_of, wait_for


def test_couriers_that_have_ended_are_buried(tmp_path: Path) -> None:
    """The next event finds the one before it dead and lets it go, whichever outbox had started it."""
    state, trouble = tmp_path / "state", list[str]()
    state.mkdir(0o700)

    def tell(number: int) -> int:
        outbox = Outbox(str(tmp_path), str(state), lambda: ({"enqueued": ("true",)}, 0.0), {}, trouble.append)
        before = outbox.couriers()
        outbox.hear(Enqueued(f"m{number}", number, 2))
        (pid,) = outbox.couriers().keys() - before.keys()
        wait_for(lambda: state_of(pid) == "Z", "it has handed over all that there was")
        return pid

    first, second, third = (tell(number) for number in range(3))

    assert (state_of(first), state_of(second), state_of(third)) == (None, None, "Z")
    assert trouble == []
