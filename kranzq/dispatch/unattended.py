"""Ends that nobody settled: of a mission that ended while no dispatcher lived, and of a cancel that was killed.

The claim of the one and the entry of the other still lie in the queue. Whoever asks anything of that mission settles
it first, by the same rules as recovery: a claim only when its holder is proven gone, its end is recorded and nothing of
it is left. No process is ended here.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING, Protocol

from kranzq.backend import MissionQueue, Unclaimed
from kranzq.model.claim import Claimed
from kranzq.model.ids import MissionId

if TYPE_CHECKING:
    from kranzq.dispatch.parts import Parts
    from kranzq.dispatch.settle import Settled
    from kranzq.runs.folders import Runs
    from kranzq.runs.record import RunRecord

_LOOKS = 2


class ClaimQueue(MissionQueue, Protocol):
    """A queue whose run folders can be reached."""

    @property
    def kranz_fd(self) -> int:
        """The descriptor of `.kranz`."""
        ...

    def unclaimed(self, missions: Container[str]) -> list[Unclaimed]:
        """What lies in the queue and the inbox for these missions and is no claim."""
        ...

    def take_out(self, files: Iterable[Unclaimed]) -> list[Unclaimed]:
        """Remove files, durably; those that were still there."""
        ...


def settle_unattended(make_parts: Callable[[], Parts], queue: ClaimQueue, runs: Runs, mission: MissionId) -> None:
    """Settle all ends of a mission that nobody has settled. `change` must not be held."""
    finish_cancel(queue, runs, mission)
    settle_claims(make_parts, queue, mission)


def finish_cancel(queue: ClaimQueue, runs: Runs, mission: MissionId) -> None:
    """Take out the entries whose end a cancel has recorded, and that was killed before they were gone.

    Else whoever parks or queues one would call something approved that the next turn takes out.
    """
    if not _cancelled(runs, mission):
        return  # the usual case needs none of the imports below
    from kranzq.dispatch.take_back import ends_it  # noqa: PLC0415
    from kranzq.events import Cancelled, emit  # noqa: PLC0415

    with queue.change():
        ended = _cancelled(runs, mission)  # again: a cancel that found no room has taken its record back by now
        files = [one for one in queue.unclaimed((mission,)) if any(ends_it(record, one) for record in ended)]
        gone = queue.take_out(files)
    if gone:
        emit(Cancelled(str(mission), "removed"))


def _cancelled(runs: Runs, mission: MissionId) -> list[RunRecord]:
    return [record for record in runs.records(mission) if record.outcome is not None and not record.claim]


def settle_claims(make_parts: Callable[[], Parts], queue: ClaimQueue, mission: MissionId) -> list[Settled]:
    """Settle the recorded ends of a mission whose holders are gone; what was settled."""
    claims = [claimed for claimed in queue.claims() if claimed.place.mission == mission]
    if not claims:
        return []  # the usual case needs none of the imports below
    from kranzq.dispatch.settle import settle  # noqa: PLC0415
    from kranzq.runs.folders import Runs  # noqa: PLC0415

    parts, settled = make_parts(), []
    runs = Runs(parts.checkout, queue.kranz_fd)
    for claimed in claims:
        if is_gone(parts, runs, claimed) and (record := _ended_record(parts, runs, claimed)) is not None:
            done = settle(parts, queue, runs, claimed, record)
            settled += [done] if done is not None else []
    return settled


def is_gone(parts: Parts, runs: Runs, claimed: Claimed) -> bool:
    """Whether the holder of a claim is proven gone."""
    from kranzq.dispatch.evidence import Backstop, judge_holder  # noqa: PLC0415
    from kranzq.model.process import Liveness  # noqa: PLC0415

    record = runs.of_claim(claimed.place.mission, claimed.place.name)
    judged = judge_holder(claimed, record, Backstop(parts.clock, remembers=False), in_hand=False)
    return judged.verdict is Liveness.GONE


def _ended_record(parts: Parts, runs: Runs, claimed: Claimed) -> RunRecord | None:
    """The record of a gone holder, read after its death was proven, if the end is recorded and nothing is left."""
    record = runs.of_claim(claimed.place.mission, claimed.place.name)
    if record is None or record.state == "ended":
        return record
    folder = runs.open(record.mission, record.run)
    if folder is None:
        return None
    with folder:
        end = folder.read_exit(record.nonce)
    if end is None or not (end.complete or _nothing_left(parts, record)):
        return None
    return record


def _nothing_left(parts: Parts, record: RunRecord) -> bool:
    from kranzq.runs.leftovers import look  # noqa: PLC0415

    return not any(look(parts.checkout.root, nonces=(record.nonce,)).leftovers for _ in range(_LOOKS))
