"""Approval: from a request to a durable, signed entry, or to the news that nothing had to change.

Before it, an end of the same mission that nobody settled is settled, so that a new approval is not taken for the old
one. What belongs to an entry (its files, its producer's binding) is on disk before it is, and only if it comes to be.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING, Protocol

from kranzq.backend import Accepted, Unsettled
from kranzq.disk.read import ENTRY_LIMIT
from kranzq.dispatch.admission import InboxQueue, admit_inbox
from kranzq.dispatch.inputs import Inputs
from kranzq.dispatch.request import Request, check
from kranzq.dispatch.unattended import finish_cancel, settle_claims
from kranzq.errors import Conflict, KranzqError, StoreUnavailable, UsageFault
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Place
from kranzq.model.clock import Clock, SystemClock, rfc3339
from kranzq.model.entry import Entry, Own, render
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.trust.key import Key
from kranzq.trust.mac import sign

if TYPE_CHECKING:
    from kranzq.dispatch.parts import Parts
    from kranzq.runs.folders import Runs
    from kranzq.runs.record import RunRecord

_TRIES = 20


@frozen
class Approved:
    """The answer: the entry that is there, and whether this call made it. `last` is the end that `once` met.

    `after_run` is the mission's last run before an entry that was made: whatever comes after it is the entry's.
    """

    entry: Entry
    created: bool
    state: State
    last: RunRecord | None = None
    after_run: int | None = None

    def to_json(self) -> dict[str, object]:
        """The answer with the documented keys; `outcome` only where an earlier end is the answer."""
        shown: dict[str, object] = {
            "mission": self.entry.mission,
            "seq": self.entry.number,
            "priority": self.entry.priority,
            "created": self.created,
            "state": self.state.value,
        }
        if self.last is not None and self.last.outcome is not None:
            shown["outcome"] = self.last.outcome.value
        return shown


class Signer(Protocol):
    """Where the key to sign with comes from."""

    def current(self) -> Key:
        """The user's current key, made on first use."""
        ...


class ApprovalQueue(InboxQueue, Protocol):
    """What an approval asks of an open queue."""

    def enqueue(
        self, new: Entry, floor: Callable[[MissionId], int | None], *, looked: bool = True
    ) -> Accepted[Entry, State]:
        """Make an entry or say what is there; `floor` is called just before one is made, with the lock held.

        Raises Unsettled for what must be looked at before, if nobody has `looked`.
        """
        ...

    def lies_in_inbox(self) -> bool:
        """Whether anything asks to be admitted that nobody has taken in hand."""
        ...

    def read(self, place: Place) -> Entry | None:
        """The entry at a place, or None when it is gone or bad."""
        ...

    def bind(self, mission: MissionId, producer: str, reference: str) -> None:
        """Bind a mission to a producer's item, durably."""
        ...

    def binding(self, mission: MissionId) -> tuple[str, str] | None:
        """The producer and reference that a mission is bound to."""
        ...

    def unbind(self, mission: MissionId) -> bool:
        """Take a binding back."""
        ...


@frozen
class Approver:
    """Who approves, and where. `parts` makes what settling needs; it is called only if there is something to settle."""

    checkout: Checkout
    queue: ApprovalQueue
    keys: Signer
    who: str
    parts: Callable[[], Parts]
    clock: Clock = field(default_factory=SystemClock)


def approve(approver: Approver, request: Request) -> Approved:
    """Queue the mission, durably, or say what is there already. Raises Conflict, UsageFault and what disks do."""
    check(request)
    key = approver.keys.current()
    if approver.queue.lies_in_inbox():
        admit_inbox(approver.checkout, approver.parts, approver.queue)  # what came before it goes before it
    if request.mission is None:
        return _approve_unnamed(approver, request, key)
    _finish_cancel(approver, request.mission)
    return _Approval(approver, request, request.mission, key).enqueue()


def _finish_cancel(approver: Approver, mission: MissionId) -> None:
    if (runs := _runs(approver, mission)) is not None:
        finish_cancel(approver.queue, runs, mission)


def _approve_unnamed(approver: Approver, request: Request, key: Key) -> Approved:
    for _ in range(_TRIES):
        mission = MissionId(f"m-{os.urandom(3).hex()}")
        if _runs(approver, mission) is not None or approver.queue.places(mission):
            continue
        with contextlib.suppress(Conflict):  # another process made the same id in this instant
            approved = _Approval(approver, request, mission, key).enqueue()
            if approved.created:
                return approved
    raise StoreUnavailable(approver.checkout.missions, "no free mission id was found")


class _HasEnded(Exception):
    """Breaks off an enqueue: with `once` the recorded end is the answer."""

    def __init__(self, record: RunRecord) -> None:
        super().__init__(record.mission)
        self.record = record


class _Approval:
    """One enqueue, with what belongs to the entry put on disk at the last moment before it, and taken back with it."""

    def __init__(self, approver: Approver, request: Request, mission: MissionId, key: Key) -> None:
        self._approver = approver
        self._queue = approver.queue
        self._request = request
        self._mission = mission
        self._key = key
        self._after_run: int | None = None
        self._undo = contextlib.ExitStack()
        self._inputs = Inputs(approver.checkout, approver.queue.kranz_fd, mission)

    def enqueue(self) -> Approved:
        """Make the entry, or say what is there."""
        entry, stays = self._signed(), True  # until it is known that there is no entry: interrupts come in storms
        try:
            accepted = self._enqueued(entry)
            stays = accepted.created
            if accepted.created:
                self._inputs.forget_old()
            else:
                self._refuse_other_files(accepted.state.value)
        except _HasEnded as ended:
            stays = False
            there = replace(entry, number=ended.record.number)
            return Approved(there, created=False, state=State.GONE, last=ended.record)
        except BaseException:
            stays = self._is_made(entry)
            raise
        finally:
            if not stays:
                self._undo.close()
        return Approved(accepted.entry, accepted.created, accepted.state, after_run=self._after_run)

    def _is_made(self, entry: Entry) -> bool:
        """Whether the entry is there, or was: whoever makes it can be interrupted between any two lines.

        Where nobody can tell, what belongs to it stays: a mission without its input is worse than input without one.
        """
        assert entry.own is not None
        try:
            there = filter(None, map(self._queue.read, self._queue.places(self._mission)))
            if any(one.own is not None and one.own.id == entry.own.id for one in there):
                return True
            runs = _runs(self._approver, self._mission)
            records = runs.records(self._mission) if runs is not None else ()
            return any(record.entry.id == entry.own.id for record in records)
        except (KranzqError, OSError):
            return True

    def _enqueued(self, entry: Entry) -> Accepted[Entry, State]:
        """The queue tells when there is something to settle first; that there mostly is none, one look finds out."""
        approver = self._approver
        try:
            return self._queue.enqueue(entry, self._prepare, looked=False)
        except Unsettled:
            admit_inbox(approver.checkout, approver.parts, self._queue)
            _finish_cancel(approver, self._mission)
            settle_claims(approver.parts, self._queue, self._mission)
            return self._queue.enqueue(entry, self._prepare)

    def _prepare(self, mission: MissionId) -> int | None:
        """What must be true or on disk before the entry; the queue's lock is held, and nothing is in the way of it."""
        runs = _runs(self._approver, mission)
        last = runs.last(mission) if runs is not None and self._request.once else None
        if last is not None and last.state == "ended":
            from kranzq.model.outcome import Retire  # noqa: PLC0415

            if isinstance(last.fate, Retire):
                raise _HasEnded(last)
        if self._request.after:
            self._check_predecessors(runs)
        if self._request.again and self._queue.places(mission):  # nothing else gets here beside another entry
            self._refuse_other_files("running")
        self._undo.callback(self._inputs.remove_empty)
        if self._request.files:
            self._undo.callback(self._inputs.undo)
            self._inputs.put(self._request.files)
        if self._request.source is not None:
            self._bind(*self._request.source)
        self._after_run = max(runs.numbers(mission), default=0) if runs is not None else 0
        return runs.last_number(mission) if runs is not None else None

    def _check_predecessors(self, runs: Runs | None) -> None:
        from kranzq.dispatch.predecessors import refuse_endless, refuse_unknown  # noqa: PLC0415
        from kranzq.runs.folders import Runs  # noqa: PLC0415

        after, queue = self._request.after, self._queue
        refuse_endless(self._mission, after, queue.places, queue.read)
        if not self._request.future:
            refuse_unknown(runs or Runs(self._approver.checkout, queue.kranz_fd), after, queue.places)

    def _bind(self, producer: str, reference: str) -> None:
        earlier = self._queue.binding(self._mission)
        if earlier is not None:
            self._undo.callback(self._queue.bind, self._mission, *earlier)
        else:
            self._undo.callback(self._queue.unbind, self._mission)
        self._queue.bind(self._mission, producer, reference)

    def _refuse_other_files(self, state: str) -> None:
        for name, data in self._request.files.items():
            if not self._inputs.holds(name, data):
                raise Conflict(
                    f"Mission {self._mission} is {state} with another input file {name}. Nothing was changed.",
                    f"Cancel it first (kranzq cancel {self._mission}), or give the file another name.",
                )

    def _signed(self) -> Entry:
        request = self._request
        own = Own(
            id=os.urandom(16).hex(),
            command=request.command,
            not_before=rfc3339(request.not_before) if request.not_before is not None else None,
            after=tuple(dict.fromkeys(request.after)),
            again=request.again,
            timeout_seconds=request.timeout_s,
            retries=request.retries,
            env=dict(request.env),
            cwd=request.cwd,
            enqueued_at=rfc3339(self._approver.clock.now()),
            enqueued_by=self._approver.who,
        )
        entry = Entry(self._mission, request.priority, 0, request.ticket, own)
        signed = sign(entry, self._approver.checkout.root, self._key)
        if len(render(signed)) > ENTRY_LIMIT - 64:
            raise UsageFault("The command is too long for an entry (1 MiB).", "Hand long texts over with --file.")
        return signed


def _runs(approver: Approver, mission: MissionId) -> Runs | None:
    """The records of runs, None for a mission without a folder: most have none yet, and need not pay for a look."""
    try:
        os.stat(f"missions/{mission}", dir_fd=approver.queue.kranz_fd, follow_symlinks=False)
    except OSError:
        return None
    from kranzq.runs.folders import Runs  # noqa: PLC0415

    return Runs(approver.checkout, approver.queue.kranz_fd)
