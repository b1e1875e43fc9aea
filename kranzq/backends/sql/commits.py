"""Commits that callers share: those of one process that write in the same moment are committed together.

The first of them leads: it runs its own act and those that came meanwhile, commits once, and wakes them. So a lone
caller pays no hop between threads, and sixty-four pay one sync.

Who leads is whoever holds a lock, and nothing else says so: a signal may raise an exception at any line of a leader,
and what it has not done yet the next caller finds undone.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kranzq.backends.sql.database import Transaction
from kranzq.errors import StoreUnreachable

R = TypeVar("R")
_MOST_TOGETHER = 64
_LOOK_AGAIN_S = 0.1
"""Only a leader that was interrupted wakes nobody; so long its followers wait for it."""


class Commits:
    """Hands the calls of all threads to `commit`, in order, one batch at a time and each by one of the callers."""

    def __init__(self, commit: Callable[[Sequence[Call]], None], where: str) -> None:
        self._commit, self._where = commit, where
        self._pending: deque[Call] = deque()
        self._lead = threading.Lock()

    def run(self, act: Callable[[Transaction], R]) -> R:
        """Run the act in a transaction, alone or with others; what it gave. Raises its fault, or that of the commit."""
        call = Call(act)
        try:
            self._pending.append(call)
            while not call.is_over:
                if not self._may_lead(call):
                    call.wait(_LOOK_AGAIN_S)
                if not call.is_over:
                    self._take_lead(call)
        finally:
            if not call.is_over:  # interrupted: nobody is to run it any more
                with contextlib.suppress(ValueError):
                    self._pending.remove(call)
            self._hand_over()
        return call.result()  # type: ignore[no-any-return]  # what its own act gave

    def _may_lead(self, call: Call) -> bool:
        """Nobody leads, and nobody came earlier: whoever pushed in would only let others wait for one more batch."""
        try:
            return not self._lead.locked() and self._pending[0] is call
        except IndexError:  # another leader has just taken it
            return False

    def between(self, act: Callable[[], None]) -> None:
        """Run this while nothing is committed; not at all when something is just now."""
        if not self._lead.locked():
            with self._lead:
                act()

    def _take_lead(self, call: Call) -> None:
        """Commit the next calls, unless another leader has ended this one meanwhile."""
        with self._lead:
            if call.is_over:
                return
            if call not in self._pending:
                call.end(self._interrupted())
                return
            batch = [self._pending.popleft() for _ in range(min(len(self._pending), _MOST_TOGETHER))]
            try:
                self._commit(batch)
            except BaseException as fault:
                told = fault if isinstance(fault, Exception) else self._interrupted()
                for each in batch:  # whatever it was, nobody may wait for ever
                    each.fail(told)
                if told is not fault:
                    raise
            finally:
                for each in batch:
                    each.end()

    def _interrupted(self) -> StoreUnreachable:
        return StoreUnreachable(self._where, "the writing thread was interrupted")

    def _hand_over(self) -> None:
        """Wake the next one: whoever came while another led may have waited for its end."""
        if not self._lead.locked():
            with contextlib.suppress(IndexError):
                self._pending[0].wake()


class Call:
    """One act that waits for its turn, and what came of it."""

    __slots__ = ("_act", "_fault", "_gate", "_result", "is_over")

    def __init__(self, act: Callable[[Transaction], Any]) -> None:
        self._act = act
        self._gate = threading.Lock()
        self._gate.acquire()
        self.is_over = False
        """Whether its result is what it will be."""
        self._result: Any = None
        self._fault: BaseException | None = None

    def wait(self, seconds: float) -> None:
        """Wait until somebody wakes it, for so long at most."""
        self._gate.acquire(timeout=seconds)

    def wake(self) -> None:
        """Let it look: it was run, or may lead."""
        with contextlib.suppress(RuntimeError):
            self._gate.release()

    def run(self, transaction: Transaction) -> None:
        """Run the act."""
        self._result = self._act(transaction)

    def fail(self, fault: BaseException) -> None:
        """Nothing of it counts, for that reason; the first reason stays."""
        self._fault = self._fault or fault

    def end(self, fault: BaseException | None = None) -> None:
        """It was run, or never will be for that reason."""
        if fault is not None:
            self.fail(fault)
        self.is_over = True
        self.wake()

    def result(self) -> Any:
        """What the act gave, or its fault."""
        if self._fault is not None:
            raise self._fault
        return self._result
