"""Commits that callers share: those of one process that write in the same moment are committed together.

The first of them leads: it runs its own act and those that came meanwhile, commits once, and wakes them. So a lone
caller pays no hop between threads, and sixty-four pay one sync.
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


class Commits:
    """Hands the calls of all threads to `commit`, in order, one batch at a time and each by one of the callers."""

    def __init__(self, commit: Callable[[Sequence[Call]], None], where: str) -> None:
        self._commit, self._where = commit, where
        self._mutex = threading.Lock()
        self._pending: deque[Call] = deque()
        self._leading = False

    def run(self, act: Callable[[Transaction], R]) -> R:
        """Run the act in a transaction, alone or with others; what it gave. Raises its fault, or that of the commit."""
        call = Call(act)
        with self._mutex:
            self._pending.append(call)
            lead = not self._leading
            self._leading = True
        try:
            lead = lead or call.wait()
        except BaseException:  # interrupted while it waited: nobody would ever lead in its place
            self._give_up(call)
            raise
        if lead:
            self._lead()
        return call.result()  # type: ignore[no-any-return]  # what its own act gave

    def _lead(self) -> None:
        with self._mutex:
            batch = [self._pending.popleft() for _ in range(min(len(self._pending), _MOST_TOGETHER))]
        try:
            self._commit(batch)
        except Exception as fault:  # noqa: BLE001 - whatever it was, nobody may wait for ever
            for call in batch:
                call.fail(fault)
        except BaseException:
            for call in batch:
                call.fail(StoreUnreachable(self._where, "the writing thread was interrupted"))
            raise
        finally:
            with self._mutex:
                self._hand_over()
            for call in batch:
                call.wake()

    def _hand_over(self) -> None:
        if self._pending:
            self._pending[0].promote()
        else:
            self._leading = False

    def _give_up(self, call: Call) -> None:
        with self._mutex:
            if call in self._pending:
                self._pending.remove(call)
                if call.leads:
                    self._hand_over()


class Call:
    """One act that waits for its turn, and what came of it."""

    __slots__ = ("_act", "_fault", "_gate", "_result", "leads")

    def __init__(self, act: Callable[[Transaction], Any]) -> None:
        self._act = act
        self._gate = threading.Lock()
        self._gate.acquire()
        self.leads = False
        self._result: Any = None
        self._fault: BaseException | None = None

    def wait(self) -> bool:
        """Wait until it was run, or is to lead: whether it is to lead."""
        self._gate.acquire()
        return self.leads

    def promote(self) -> None:
        """Let it lead."""
        self.leads = True
        self._gate.release()

    def wake(self) -> None:
        """It was run. The one that led itself has nobody to wake."""
        if not self.leads:
            with contextlib.suppress(RuntimeError):
                self._gate.release()

    def run(self, transaction: Transaction) -> None:
        """Run the act."""
        self._result = self._act(transaction)

    def fail(self, fault: BaseException) -> None:
        """Nothing of it counts, for that reason; the first reason stays."""
        self._fault = self._fault or fault

    def result(self) -> Any:
        """What the act gave, or its fault."""
        if self._fault is not None:
            raise self._fault
        return self._result
