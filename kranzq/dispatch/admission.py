"""The inbox as dispatchers and approvals see it: what other programs dropped becomes entries before anything is chosen.

An end of the same mission that nobody settled is settled first, so that a file is not taken for a repeat of what is
over. Nothing here keeps a turn or an approval from its own work: what cannot be admitted is said and left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kranzq.backend import Past
from kranzq.dispatch.unattended import ClaimQueue, settle_unattended
from kranzq.model.ids import MissionId

if TYPE_CHECKING:
    from kranzq.dispatch.parts import Memory, Parts
    from kranzq.model.checkout import Checkout


class InboxQueue(ClaimQueue, Protocol):
    """A queue with an inbox."""

    def has_dropped(self) -> bool:
        """Whether anything asks to be admitted."""
        ...

    def dropped_missions(self) -> set[MissionId]:
        """The missions that lie in the inbox."""
        ...

    def admit_dropped(self, recall: Callable[[MissionId], Past]) -> list[tuple[str, str]]:
        """Make entries of what was dropped; what could not be moved, each with the reason."""
        ...


def admit_inbox(
    checkout: Checkout, make_parts: Callable[[], Parts], queue: InboxQueue, memory: Memory | None = None
) -> None:
    """Admit what lies in the inbox. What stays there is said once to whoever has a memory."""
    if not queue.has_dropped():
        return  # the usual case needs none of the imports below
    from kranzq.dispatch.parts import Memory  # noqa: PLC0415
    from kranzq.errors import KranzqError  # noqa: PLC0415
    from kranzq.events import Warned, emit  # noqa: PLC0415
    from kranzq.runs.folders import Runs  # noqa: PLC0415

    memory, runs = memory or Memory(), Runs(checkout, queue.kranz_fd)
    try:
        for mission in queue.dropped_missions():
            settle_unattended(make_parts, queue, runs, mission)
        problems = queue.admit_dropped(lambda mission: _past_of(runs, mission))
    except (KranzqError, OSError) as fault:
        problems = [("the inbox", f"nothing was admitted: {fault}")]
    for name, why in problems:
        if memory.is_new(name, why):
            emit(Warned(f"{name} stays where it is: {why}"))


def _past_of(runs: object, mission: MissionId) -> Past:
    from kranzq.model.clock import seconds_of  # noqa: PLC0415
    from kranzq.runs.folders import Runs  # noqa: PLC0415

    assert isinstance(runs, Runs)
    last = runs.last(mission)
    if last is None:
        return Past()
    began = seconds_of(last.started_at) or seconds_of(last.created_at)
    return Past(runs.last_number(mission), last.run, began, seconds_of(last.ended_at))
