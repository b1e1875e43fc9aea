"""What the conformance suite works on, and the small acts it is made of. A backend's author needs `Store` only."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from kranzq.backend import Backend
from kranzq.liveness import identity_of
from kranzq.model.claim import Claim, Holder
from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId
from kranzq.model.state import State

HOLDER = Holder("a holder")
_DEADLINE_S = 30.0


class Store(Protocol):
    """What the suite works on: an empty store of one's own for each test."""

    def open(self) -> Backend[Entry, Entry, State, Claim]:
        """A backend on the store; each call may give another one, as another process would have it."""
        ...

    def claim_and_die(self) -> Claim:
        """Claim the front entry as a holder that is gone when this returns."""
        ...


def claim_as_gone(backend: Backend[Entry, Entry, State, Claim]) -> Claim:
    """`claim_and_die` for backends whose holders are processes: a process claims and is ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        claim = backend.claim(Holder("a process", identity_of(process.pid)))
        process.kill()
    assert claim is not None, "there was nothing to claim"
    return claim


def make(mission: str, priority: int = 2, *command: str, again: bool = False) -> Entry:
    """A new entry."""
    own = Own(id="0" * 32, command=command, again=again) if command or again else None
    return Entry(MissionId(mission), priority, own=own)


def missions(backend: Backend[Entry, Entry, State, Claim], state: State = State.QUEUED) -> list[str]:
    """The missions in a state, in order."""
    return [str(entry.mission) for entry in backend.entries(state)]


def take(backend: Backend[Entry, Entry, State, Claim]) -> Claim:
    """Claim the front entry, which must be there."""
    claim = backend.claim(HOLDER)
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
