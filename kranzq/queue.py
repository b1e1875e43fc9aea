"""The mission queue as a library, usable without the daemon and beside it: the functions of kranz's own queue.

`repo` is a path inside the checkout or a `Checkout`. A claim belongs to the process that made it: while that lives
nobody takes it, once it is gone `recover_dead_claims` puts the entry back. Forgetting a claim changes nothing on disk.
Reading functions change nothing either; what is reported as done survives a power cut.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import field

from kranzq.backend import Accepted, Wanted
from kranzq.dispatch.guard import UNKNOWN, Guard, Guarded, busy_with, claim_when_free, hold_for
from kranzq.dispatch.library import MissionBackend, Nothing
from kranzq.dispatch.library_claim import marks
from kranzq.dispatch.parts import IsBusy
from kranzq.errors import BadMissionId, ClaimLost, Conflict, KranzqError, NotFound, RepoBusy
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claim, Holder
from kranzq.model.entry import DEFAULT_PRIORITY, Entry
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.model.source import Source
from kranzq.model.state import State
from kranzq.wiring import checkouts, library, queues

__all__ = [
    "Accepted",
    "BadMissionId",
    "Busy",
    "Checkout",
    "ClaimLost",
    "Claimed",
    "Conflict",
    "Empty",
    "Entry",
    "KranzqError",
    "LostRace",
    "MissionId",
    "Outcome",
    "QueueClaim",
    "RepoBusy",
    "Source",
    "State",
    "acquire_repo_busy",
    "cancel_enqueue_source",
    "claim_front",
    "claim_front_when_repo_free",
    "contains",
    "enqueue",
    "entries",
    "finish_claim",
    "is_repo_busy",
    "peek",
    "queue_dir",
    "read_enqueue_source",
    "recover_dead_claims",
    "release_claim",
    "remove",
    "remove_enqueue_source",
    "return_enqueue_source",
    "write_enqueue_source",
]

Repo = Checkout | str | os.PathLike[str]


@frozen
class QueueClaim:
    """An entry taken for this process, with the busy lock if it was taken before it."""

    repo: Checkout
    claim: Claim
    guard: Guard | None = None

    @property
    def entry(self) -> Entry:
        """The entry, without what its signature does not cover."""
        return self.claim.entry

    @property
    def mission(self) -> MissionId:
        """The mission."""
        return self.claim.entry.mission

    @property
    def environment(self) -> dict[str, str]:
        """Variables for every process that is started for the mission.

        By them recovery finds and ends what a killed holder left, before the entry goes back to the queue.
        """
        return marks(self.repo, self.claim)


@frozen
class Empty:
    """Nothing may run now; `passed_over` maps missions that wait to the reason."""

    passed_over: Mapping[str, str] = field(default_factory=dict)


@frozen
class LostRace:
    """There was something, but others were faster each time: look again in a moment."""


@frozen
class Busy:
    """Somebody works in the checkout; nothing was claimed. `mission` is `unknown` where nothing tells."""

    mission: str
    holder: str


@frozen
class Claimed:
    """The front entry is this process's, and so is the checkout, until the claim is finished or released."""

    claim: QueueClaim


def queue_dir(repo: Repo) -> str:
    """The directory of the queue; it may not exist yet. Raises NoCheckout."""
    return _checkout(repo).queue


def enqueue(repo: Repo, mission: str | Entry, *, priority: int = DEFAULT_PRIORITY) -> Accepted[Entry, State]:
    """Queue a mission, signed with the user's key and durable; or say, unchanged, what is there of it already.

    An `Entry` carries its own priority, command and limits; its number, id and signature are made here. Raises
    BadMissionId, Conflict (another command, or parked), QueueLocked after 5 s, StoreUnavailable.
    """
    new = mission if isinstance(mission, Entry) else Entry(MissionId(mission), priority)
    return _backend(repo).enqueue(new)


def entries(repo: Repo, state: State = State.QUEUED) -> list[Entry]:
    """The entries in a state, in the order in which they are claimed. Bad files are left out."""
    return _backend(repo).entries(state)


def peek(repo: Repo) -> Entry | None:
    """The first entry in order, whether it may run or not."""
    return next(iter(_backend(repo).entries(limit=1)), None)


def contains(repo: Repo, mission: str) -> bool:
    """Whether a mission waits for its turn or is claimed: what runs counts as queued, so nobody queues it twice."""
    wanted = MissionId(mission)
    backend = _backend(repo)
    states = (State.QUEUED, State.WAITING, State.CLAIMED)
    return any(entry.mission == wanted for state in states for entry in backend.entries(state))


def remove(repo: Repo, mission: str) -> bool:
    """Remove what waits or is parked of a mission; a claim is left alone. False when there was nothing."""
    return _backend(repo).cancel(MissionId(mission), "through the library")


def claim_front(repo: Repo, *, mission: str | None = None) -> QueueClaim | None:
    """Take the front entry for this process (of one mission, if named), or None. The busy lock is not asked.

    Whoever works in the tree itself uses `claim_front_when_repo_free`.
    """
    checkout = _checkout(repo)
    claim = _backend(checkout).claim(_holder(), _wanted(mission))
    return QueueClaim(checkout, claim) if claim is not None else None


def claim_front_when_repo_free(repo: Repo, *, mission: str | None = None) -> Empty | LostRace | Busy | Claimed:
    """Take the busy lock, then the front entry. Busy is found out first: nothing is claimed and put back for it.

    On the way, what gone holders left is put back, and processes that a killed keeper left are ended.
    """
    checkout = _checkout(repo)
    backend = _backend(checkout)
    taken = claim_when_free(backend, _holder(), _wanted(mission))
    match taken:
        case Guarded(claim, guard):
            return Claimed(QueueClaim(checkout, claim, guard))
        case Nothing(passed_over, lost):
            return LostRace() if lost else Empty(passed_over)
        case IsBusy(holder):
            return Busy(busy_with(backend) or UNKNOWN, holder)


def finish_claim(claim: QueueClaim, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    """Record how it ended, retire the entry, free the checkout. Raises ClaimLost when it is no longer ours.

    If the disk refuses, claim and busy lock stay, and the call can be repeated.
    """
    with _frees(claim):
        _backend(claim.repo).finish(claim.claim, outcome)


def release_claim(claim: QueueClaim, why: str = "") -> State:
    """Put the entry back in its old place, uncounted, and free the checkout; says where it is now. Raises ClaimLost."""
    with _frees(claim):
        return _backend(claim.repo).release(claim.claim, why)


def recover_dead_claims(repo: Repo, *, end_leftovers: bool = True) -> int:
    """Put every claim of a gone holder where it belongs; how many were moved. Safe at any time, for anybody.

    A claim whose run left processes stays until they are gone; with `end_leftovers` they are ended.
    """
    return len(_backend(repo, end_leftovers=end_leftovers).recover())


def is_repo_busy(repo: Repo) -> str | None:
    """The mission that makes the checkout busy (`unknown` where nothing tells), or None. Takes and deletes nothing."""
    return busy_with(_backend(repo))


@contextlib.contextmanager
def acquire_repo_busy(repo: Repo, mission: str) -> Iterator[None]:
    """Hold the busy lock of the checkout, kranz's beside ours, for work outside the queue. Raises RepoBusy."""
    guard = hold_for(_backend(repo), MissionId(mission))
    try:
        yield
    finally:
        guard.let_go()


def write_enqueue_source(repo: Repo, mission: str, producer: str, reference: str) -> Source:
    """Bind a mission to a producer's item, durably, before it is enqueued. Raises UsageFault when one is blank."""
    wanted = MissionId(mission)
    with queues.make_queue(_checkout(repo)) as queue:
        queue.bind(wanted, producer, reference)
        return queue.bindings(wanted)["bound"]


def read_enqueue_source(repo: Repo, mission: str) -> Source | None:
    """The binding of a mission, or None when there is none that counts."""
    checkout, wanted = _checkout(repo), MissionId(mission)
    with contextlib.suppress(NotFound), queues.open_queue(checkout) as queue:
        return queue.bindings(wanted).get("bound")
    return None


def remove_enqueue_source(repo: Repo, mission: str) -> bool:
    """Take a binding back, as after a failed enqueue. False when there was none."""
    checkout, wanted = _checkout(repo), MissionId(mission)
    with contextlib.suppress(NotFound), queues.open_to_change(checkout) as queue:
        return queue.unbind(wanted)
    return False


def return_enqueue_source(repo: Repo, mission: str) -> bool:
    """Mark a binding as returned: its producer has seen its own transition. False when there was none."""
    checkout, wanted = _checkout(repo), MissionId(mission)
    with contextlib.suppress(NotFound), queues.open_to_change(checkout) as queue:
        return queue.return_source(wanted)
    return False


def cancel_enqueue_source(repo: Repo, mission: str) -> bool:
    """Mark a binding as cancelled. False when there was none."""
    checkout, wanted = _checkout(repo), MissionId(mission)
    with contextlib.suppress(NotFound), queues.open_to_change(checkout) as queue:
        return queue.cancel_source(wanted)
    return False


def _checkout(repo: Repo) -> Checkout:
    return repo if isinstance(repo, Checkout) else checkouts.find_checkout(os.fspath(repo), os.environ)


def _backend(repo: Repo, *, end_leftovers: bool = True) -> MissionBackend:
    return library.mission_backend(_checkout(repo), os.environ, end_leftovers=end_leftovers)


def _holder() -> Holder:
    return Holder(f"process {os.getpid()}")


def _wanted(mission: str | None) -> Wanted | None:
    return None if mission is None else Wanted(frozenset({MissionId(mission)}))


@contextlib.contextmanager
def _frees(claim: QueueClaim) -> Iterator[None]:
    """Free the checkout after the claim was ended or found lost; any other fault keeps it for another try."""
    try:
        yield
    except ClaimLost:
        _let_go(claim)
        raise
    _let_go(claim)


def _let_go(claim: QueueClaim) -> None:
    if claim.guard is not None:
        claim.guard.let_go()
