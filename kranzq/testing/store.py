"""What the conformance suites work on, and the small acts they are made of. A backend's author needs `Store` only."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from kranzq.backend import Backend
from kranzq.liveness import identity_of
from kranzq.model.claim import Claim, Holder
from kranzq.model.entry import Entry
from kranzq.model.state import State

HOLDER = Holder("a holder")
_DEADLINE_S = 30.0

N = TypeVar("N")
T = TypeVar("T")
S = TypeVar("S")
C = TypeVar("C")


class Store(Protocol[N, T, S, C]):
    """An empty store of one's own for each test, and what its work, its states and its claims are called."""

    @property
    def waiting(self) -> S:
        """The state of what may be claimed."""
        ...

    @property
    def claimed(self) -> S:
        """The state of what has a holder."""
        ...

    @property
    def aside(self) -> S:
        """The state of what nobody claims any more because it lost its holders too often."""
        ...

    def open(self) -> Backend[N, T, S, C]:
        """A backend on the store; each call may give another one, as another process would have it."""
        ...

    def make(self, name: str, urgency: int = 100, content: str = "") -> N:
        """New work under that name; `urgency` from 0 to 255, the highest first. Three losses set it aside."""
        ...

    def names(self, state: S) -> list[str]:
        """The names of all work in a state, in order; what waits is all that the next claimers may get."""
        ...

    def named(self, kept: T) -> str:
        """The name under which it was made."""
        ...

    def given(self, claim: C) -> str:
        """The name of what a claim gave."""
        ...

    def claim_and_die(self, count: int = 1) -> list[C]:
        """Claim so many as holders that are gone when this returns: their processes ended, or their leases are over."""
        ...


def claim_as_gone(backend: Backend[Entry, Entry, State, Claim]) -> Claim:
    """Claim the front where holders are processes: one claims and is ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        claim = backend.claim(Holder("a process", identity_of(process.pid)))
        process.kill()
    assert claim is not None, "there was nothing to claim"
    return claim


def take(store: Store[N, T, S, C]) -> C:
    """Claim the front, which must be there."""
    claim = store.open().claim(HOLDER)
    assert claim is not None, "there was nothing to claim"
    return claim


@contextlib.contextmanager
def refused(kind: type[Exception]) -> Iterator[None]:
    """Fail unless the block is refused with an error of this kind."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"not refused with {kind.__name__}")


def together(count: int, act: Callable[[int], None]) -> None:
    """Do something in many threads that begin in the same instant; the first fault of one is raised."""
    begin, faults = threading.Barrier(count), list[BaseException]()

    def run(number: int) -> None:
        try:
            begin.wait(_DEADLINE_S)
            act(number)
        except BaseException as fault:  # noqa: BLE001 - raised again where the test can see it
            faults.append(fault)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_DEADLINE_S)
        assert not thread.is_alive(), "it hangs"
    if faults:
        raise faults[0]
