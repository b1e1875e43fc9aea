"""The missions of one checkout for whoever serves them: the command line's verbs as calls, the same JSON as `--json`.

Each call opens the queue, does one thing and closes it; reading ones change nothing on disk. What they give has
`to_json`. May be shared by threads. Errors are those of the verbs: NoSuchMission, Conflict, UsageFault, TryLater,
StoreUnavailable, Refused.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from kranzq.errors import NoSuchMission, NotFound, QueueLocked
from kranzq.model.checkout import Checkout
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.wiring import looking, queues
from kranzq.wiring.checkouts import find_checkout

if TYPE_CHECKING:
    from kranzq.dispatch.amend import Amended
    from kranzq.dispatch.approve import Approved
    from kranzq.dispatch.cancel import Answer
    from kranzq.dispatch.edit import Edits
    from kranzq.dispatch.listed import Listing
    from kranzq.dispatch.one import OneMission
    from kranzq.dispatch.output import Piece
    from kranzq.dispatch.overview import Overview
    from kranzq.dispatch.past import Run
    from kranzq.dispatch.request import Request
    from kranzq.dispatch.status import Status
    from kranzq.dispatch.timeline import Timeline
    from kranzq.dispatch.why import Why
    from kranzq.runs.folders import Runs

MOST_LOG = 1024 * 1024
"""So many bytes of a log at a time, at most."""
MOST_RUNS = 1000
"""So many runs of a history at a time, at most, for whoever asks over a network."""
_PATIENCE_S = 10.0


@frozen
class Missions:
    """The missions of one checkout. `environ` is that of the process which serves them."""

    checkout: Checkout
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _changing: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)
    """One change at a time: a process has one outbox for hooks, and each change hands it over to the next one."""

    @classmethod
    def at(cls, start: str, environ: Mapping[str, str] = os.environ) -> Missions:
        """The missions of the checkout at or above a directory. Raises NoCheckout, BareRepository."""
        return cls(find_checkout(start, environ), environ)

    def listing(self, *, parked: bool = False, everything: bool = False) -> Listing:
        """As `kranzq list`: what waits, in order; only what is `parked`; with `everything` also parked, quarantined."""
        from kranzq.dispatch.listed import Listing
        from kranzq.dispatch.look import listing

        states = {State.PARKED} if parked else {State.CLAIMED, State.QUEUED, State.WAITING, State.INBOX}
        states |= {State.PARKED} if everything else set()
        with looking.open_sight(self.checkout, self.environ) as sight:
            return listing(sight, states, quarantined=everything) if sight is not None else Listing()

    def status(self) -> Status:
        """As `kranzq status`: what runs, what waits, whether a daemon is there, what needs a person."""
        from kranzq.dispatch.status import nothing_there, status

        with looking.open_sight(self.checkout, self.environ) as sight:
            if sight is None:
                return nothing_there(self.checkout.root)
            found = status(sight, lambda: looking.status_thresholds(self.checkout, self.environ))
        return self._with_hooks(found)

    def _with_hooks(self, found: Status) -> Status:
        """With what is to be said of hooks that take nothing."""
        from kranzq.trust.key import state_dir

        if not os.path.isdir(f"{state_dir(self.environ)}/hooks"):
            return found  # no hook was ever told anything, as with most users: nothing more is imported for it
        from dataclasses import replace

        from kranzq.dispatch.status import Notice
        from kranzq.wiring.hooks import hook_notices

        told = tuple(Notice(*one) for one in hook_notices(self.checkout, self.environ))
        return replace(found, warnings=(*found.warnings, *told))

    def overview(self) -> Overview:
        """All that a screen shows: the state, everything that lies there, and what the running mission does."""
        from kranzq.dispatch.overview import nothing_there, overview

        with looking.open_sight(self.checkout, self.environ) as sight:
            if sight is None:
                return nothing_there(self.checkout.root)
            found = overview(sight, lambda: looking.status_thresholds(self.checkout, self.environ))
        told = self._with_hooks(found.status)
        if told is found.status:
            return found
        from dataclasses import replace

        return replace(found, status=told)

    def upcoming(self) -> str | None:
        """The mission that is first by its name, if any is queued: cheap, and nothing is verified."""
        from kranzq.dispatch.look import first_queued

        with queues.open_look(self.checkout) as queue:
            return first_queued(queue) if queue is not None else None

    def counts(self) -> dict[str, int]:
        """How many entries are in each state, by names alone: cheap, and nothing is verified."""
        from kranzq.dispatch.look import counts

        with queues.open_look(self.checkout) as queue:
            return counts(queue) if queue is not None else {}

    def is_there(self) -> bool:
        """Whether the checkout has a queue that can be opened. Raises UnsafePath and what disks do."""
        with queues.open_look(self.checkout) as queue:
            return queue is not None

    def why(self, mission: str) -> Why:
        """As `kranzq why`: the reasons that it does not run, or how it ended. Raises NoSuchMission, BadMissionId."""
        from kranzq.dispatch.why import why

        known = MissionId(mission)
        with looking.open_sight(self.checkout, self.environ) as sight:
            if sight is None:
                raise NoSuchMission(known)
            return why(sight, known, no_command=looking.no_command(self.environ, sight.checkout))

    def one(self, mission: str) -> OneMission:
        """Where a mission is, and its runs, newest last, also those that have not ended. Raises NoSuchMission."""
        from kranzq.dispatch.one import one_mission

        known = MissionId(mission)
        with looking.open_sight(self.checkout, self.environ) as sight:
            if sight is None:
                raise NoSuchMission(known)
            return one_mission(sight, known)

    def history(self, mission: str | None = None, *, last: int | None = None, unended: bool = False) -> list[Run]:
        """As `kranzq history`: how runs of one mission or of all ended, newest last. Raises BadMissionId."""
        from kranzq.dispatch.past import history

        known = MissionId(mission) if mission is not None else None
        with queues.open_runs(self.checkout) as runs:
            return history(runs, known, last=last, unended=unended) if runs is not None else []

    def timeline(self, mission: str | None = None, *, last: int = MOST_RUNS) -> Timeline:
        """When runs of one mission or of all were enqueued, claimed, started and ended. Raises BadMissionId."""
        from kranzq.dispatch.timeline import Timeline, timeline

        known = MissionId(mission) if mission is not None else None
        with looking.open_sight(self.checkout, self.environ) as sight:
            return timeline(sight, known, last=last) if sight is not None else Timeline(())

    def park(self, mission: str, why: str = "") -> Amended:
        """As `kranzq park`: set it aside. Raises NoSuchMission, Conflict for one that runs."""
        from kranzq.dispatch.amend import park
        from kranzq.wiring import approving, trusting

        known, reason = MissionId(mission), why.strip() or f"by {trusting.user_name()}"
        with self._change(), queues.open_to_change(self.checkout, self.environ) as queue:
            return park(approving.amender(self.checkout, queue, self.environ), known, reason)

    def unpark(self, mission: str) -> Amended:
        """As `kranzq unpark`: let it back to its place. Raises NoSuchMission, Conflict, Refused."""
        from kranzq.dispatch.amend import unpark
        from kranzq.wiring import approving

        known = MissionId(mission)
        with self._change(), queues.open_to_change(self.checkout, self.environ) as queue:
            return unpark(approving.amender(self.checkout, queue, self.environ), known)

    def edit(self, mission: str, edits: Edits) -> Amended:
        """As `kranzq edit`: change when it runs, and how long it may take. Raises NoSuchMission, Conflict, Refused."""
        from kranzq.dispatch.edit import edit
        from kranzq.wiring import approving

        known = MissionId(mission)
        with self._change(), queues.open_to_change(self.checkout, self.environ) as queue:
            return edit(approving.amender(self.checkout, queue, self.environ), known, edits)

    def retry(self, mission: str) -> Amended:
        """As `kranzq retry`: run it once more. Raises NoSuchMission, Conflict for one that runs or has yet to."""
        from kranzq.dispatch.retry import retry
        from kranzq.wiring import approving

        known = MissionId(mission)
        with self._change(), queues.open_to_change(self.checkout, self.environ) as queue:
            return retry(approving.amender(self.checkout, queue, self.environ), queue, known)

    def enqueue(self, request: Request) -> Approved:
        """As `kranzq enqueue`, without waiting: approve a mission, in the name of this user. Makes a missing queue."""
        from kranzq.dispatch.approve import approve
        from kranzq.wiring import approving

        with self._change(), queues.make_queue(self.checkout, self.environ) as queue:
            return approve(approving.approver(self.checkout, queue, self.environ), request)

    def cancel(self, mission: str, why: str = "") -> Answer:
        """As `kranzq cancel`, without waiting: remove what waits, ask what runs to end. Raises NoSuchMission."""
        from kranzq.dispatch.cancel import cancel
        from kranzq.wiring import approving

        known = MissionId(mission)
        with self._change(), queues.open_to_change(self.checkout, self.environ) as queue:
            return cancel(approving.canceller(self.checkout, queue, self.environ), known, why, wait=False)

    def log(self, mission: str, *, run: int | None = None, offset: int = 0, most: int = MOST_LOG) -> Piece:
        """Bytes of a run's output (the last run's without `run`) from `offset` on, as they are; negative: from the end.

        Raises NoSuchMission, and NotFound for a run, or an output, that is not there.
        """
        from kranzq.dispatch.follow import read_piece

        known = MissionId(mission)
        with queues.open_runs(self.checkout) as runs:
            there, number = run_to_show(runs, known, run)
            piece = read_piece(there, known, number, offset, min(most, MOST_LOG))
        if piece is None:
            raise no_output(known, number)
        return piece

    @contextmanager
    def _change(self) -> Iterator[None]:
        from kranzq.wiring import hooks

        if not self._changing.acquire(timeout=_PATIENCE_S):
            raise QueueLocked(self.checkout.queue, _PATIENCE_S, "another request to this program")
        try:
            hooks.tell_hooks(self.checkout, self.environ)
            yield
        finally:
            self._changing.release()


def run_to_show(runs: Runs | None, mission: MissionId, run: int | None = None) -> tuple[Runs, int]:
    """The runs that are there, and the one whose output is meant: the last one, or the one that is named.

    Raises NoSuchMission, NotFound.
    """
    numbers = runs.numbers(mission) if runs is not None else []
    if runs is None or not (numbers or runs.knows(mission) or mission in queues.known_missions(runs.checkout)):
        raise NoSuchMission(mission)
    if not numbers:
        raise NotFound(f"Mission {mission} has not run yet.", f"See why: kranzq why {mission}")
    number = run if run is not None else numbers[-1]
    if number not in numbers:
        raise NotFound(f"Mission {mission} has no run {number}.", f"Its runs are {numbers[0]} to {numbers[-1]}")
    return runs, number


def no_output(mission: MissionId, run: int) -> NotFound:
    """What is wrong where a run has no output to show."""
    return NotFound(f"Run {run} of mission {mission} has no output.", f"See: kranzq history {mission}")
