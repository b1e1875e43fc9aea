"""What the fake does beyond the common suite: its own process is the holder unless another is named."""

from __future__ import annotations

import os

import pytest

from kranzq import events
from kranzq.backend import Backend
from kranzq.backends.memory import MemoryBackend
from kranzq.errors import Conflict
from kranzq.liveness import me
from kranzq.model.claim import Claim, Holder
from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.model.state import State
from kranzq.testing.clock import FakeClock
from kranzq.testing.store import claim_as_gone
from tests.factories import make_entry, make_holder


def test_the_fake_is_a_backend() -> None:
    """The type checker holds the fake against the contract."""
    backend: Backend[Entry, Entry, State, Claim] = MemoryBackend(FakeClock())

    assert backend.entries() == []


def test_a_named_process_is_judged_like_any_other() -> None:
    """A claim for a living process stays, one for nobody in particular is this process's."""
    backend = MemoryBackend()
    backend.enqueue(make_entry("m-1"))
    backend.enqueue(make_entry("m-2"))
    assert backend.claim(make_holder(os.getppid())) is not None
    assert backend.claim(Holder("us", me())) is not None

    assert backend.recover() == ()
    assert len(backend.entries(State.CLAIMED)) == 2


def test_a_parked_entry_can_be_cancelled_and_approved_anew() -> None:
    """After three gone holders the entry is parked; once cancelled its mission begins anew."""
    backend = MemoryBackend()
    backend.enqueue(make_entry("m-1"))
    for _ in range(3):
        claim_as_gone(backend)
        assert len(backend.recover()) == 1
    with pytest.raises(Conflict, match="parked"):
        backend.enqueue(make_entry("m-1"))

    assert backend.cancel(MissionId("m-1"))
    assert backend.enqueue(make_entry("m-1")).created


def test_each_transition_is_announced_once() -> None:
    """Enqueued, ended, put back and cancelled are events here as they are in the real ones."""
    heard: list[str] = []
    end = events.subscribe(lambda event: heard.append(event.name))
    try:
        backend = MemoryBackend()
        backend.enqueue(make_entry("m-1"))
        backend.enqueue(make_entry("m-1"))
        claim = backend.claim(Holder("us"))
        assert claim is not None
        backend.finish(claim, Outcome.SUCCEEDED)
        backend.enqueue(make_entry("m-2"))
        claim_as_gone(backend)
        backend.recover()
        backend.cancel(MissionId("m-2"))
    finally:
        end()

    assert heard == ["Enqueued", "Ended", "Enqueued", "PutBack", "Cancelled"]
