"""The busy lock in the hands of a program that runs missions itself: taken before anything is claimed.

It is the same lock that a turn takes, with the same looks before it; a program that dies loses it to the kernel.
"""

from __future__ import annotations

import contextlib
import os

from kranzq.backend import Wanted
from kranzq.busy import foreign
from kranzq.busy import record as busy_record
from kranzq.dispatch.evidence import Backstop
from kranzq.dispatch.hold import Holding, take_hold
from kranzq.dispatch.library import MissionBackend, Nothing
from kranzq.dispatch.library_claim import LibraryQueue
from kranzq.dispatch.parts import IsBusy, Memory
from kranzq.errors import NotFound, RepoBusy
from kranzq.liveness import me
from kranzq.model.claim import Claim, Holder
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.runs.holders import Situation, judge_lock

UNKNOWN = "unknown"


class Guard:
    """The held lock. Only closing frees it, so a forked child that goes on keeps the checkout busy."""

    def __init__(self, stack: contextlib.ExitStack, holding: Holding, queue: LibraryQueue) -> None:
        self._stack = stack
        self._holding: Holding | None = holding
        self.queue = queue

    def name(self, mission: MissionId, run: int = 0, nonce: str = "") -> None:
        """Let the records say what the lock is held for."""
        if self._holding is not None:
            self._holding.name_keeper(me(), str(mission), run, nonce)

    def let_go(self) -> None:
        """Remove our records and close the lock; harmless when repeated."""
        holding, self._holding = self._holding, None
        if holding is not None:
            try:
                holding.let_go(unlock=False)
            finally:
                self._stack.close()


@frozen
class Guarded:
    """A claim and the busy lock that was taken before it."""

    claim: Claim
    guard: Guard


def try_guard(backend: MissionBackend) -> Guard | IsBusy:
    """Take the busy lock, if nobody works in the checkout. What gone holders left is put back on the way."""
    with contextlib.ExitStack() as stack:
        queue = stack.enter_context(backend.opener(True))
        taken = take_hold(backend.parts, queue, Memory(), Backstop(backend.parts.clock, remembers=False))
        if isinstance(taken, IsBusy):
            return taken
        return Guard(stack.pop_all(), taken[0], queue)


def hold_for(backend: MissionBackend, mission: MissionId) -> Guard:
    """Take the busy lock for a mission. Raises RepoBusy."""
    taken = try_guard(backend)
    if isinstance(taken, IsBusy):
        raise RepoBusy(backend.parts.checkout.root, taken.holder)
    taken.name(mission)
    return taken


def claim_when_free(backend: MissionBackend, holder: Holder, wanted: Wanted | None) -> Guarded | Nothing | IsBusy:
    """Take the lock first and then the front; nothing is claimed and put back only because the checkout is busy."""
    taken = try_guard(backend)
    if isinstance(taken, IsBusy):
        return taken
    with contextlib.ExitStack() as undo:
        undo.callback(taken.let_go)
        claim = backend.claim_in(taken.queue, holder, wanted)
        if isinstance(claim, Nothing):
            return claim
        undo.callback(backend.release, claim, "the busy lock's records could not be written")
        _, run, nonce = claim.token.split("/")
        taken.name(claim.entry.mission, int(run), nonce)
        undo.pop_all()
    return Guarded(claim, taken)


def busy_with(backend: MissionBackend) -> str | None:
    """The mission that makes the checkout busy (`unknown` where nothing tells), or None. A look: nothing is changed."""
    try:
        opened = backend.opener(False)
    except NotFound:
        return None
    with opened as queue:
        engine = backend.parts.engines.find(queue.kranz_fd)
        if engine is None and not _is_held(backend, queue) and foreign.look(queue.fd) is None:
            return None
        record = busy_record.read(queue.fd)
        named = record.mission if record is not None else None
        return named or foreign.read_mission(queue.fd) or (engine.mission if engine is not None else UNKNOWN)


def _is_held(backend: MissionBackend, queue: LibraryQueue) -> bool:
    locks = backend.parts.busy.open_unlocked(queue.fd)
    try:
        judged = judge_lock(locks)
        return judged.situation is Situation.KEEPER or bool(judged.holders)
    finally:
        for fd in locks:
            os.close(fd)
