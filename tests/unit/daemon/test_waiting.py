"""What waiting costs, whom a refused daemon names, and what a missing interpreter does to a dispatcher."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kranzq.daemon import lock_waiter, single
from kranzq.daemon.lock_waiter import LockWaiter
from kranzq.daemon.single import FLOCK, RECORD, Single
from kranzq.daemon.wake import Wake
from kranzq.errors import DaemonRuns
from kranzq.liveness import identity_of
from kranzq.model.checkout import Checkout
from kranzq.runs.keepers import KeeperLost, WarmKeepers
from tests.laboratory import PATIENCE, wait_for


def test_a_lock_that_is_granted_at_once_again_and_again_does_not_make_its_waiter_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Busy for a reason that waiting for the lock cannot outlast: the looks become rare."""
    monkeypatch.setattr(lock_waiter, "_AT_ONCE_S", 60.0)  # a machine that stands still is no wait for the lock
    granted: list[float] = []
    waiter = LockWaiter(lambda: granted.append(time.monotonic()), Wake())
    began = time.monotonic()

    def waits_on() -> bool:
        waiter.begin()
        return time.monotonic() - began >= 1.0 and len(granted) >= 2

    wait_for(waits_on, "a second and two looks are over")

    assert len(granted) <= 10 * max(1.0, granted[-1] - began)


def test_a_lock_that_was_waited_for_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a real wait there is no pause before the next one."""
    free, wake, pauses, now = threading.Event(), Wake(), list[float](), [0.0]
    monkeypatch.setattr(lock_waiter, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=pauses.append))

    def until_free() -> None:
        free.wait(60)
        now[0] += 1.0

    waiter = LockWaiter(until_free, wake)
    for _ in range(3):
        waiter.begin()
        assert not wake.wait(0.05)
        free.set()
        assert wake.wait(PATIENCE)
        wake.clear()
        free.clear()

    assert pauses == [0.0] * 3


def test_a_refused_daemon_names_the_one_that_lives_and_not_the_one_before(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of a killed daemon is not taken for the living one's, which may be just about to write its own."""
    queue = checkout / ".kranz" / "queue"
    queue.mkdir(parents=True)
    other = subprocess.Popen(["sleep", "60"])
    there = identity_of(other.pid)
    other.kill()
    other.wait()
    assert there is not None
    (queue / RECORD).write_text(json.dumps({"process": there.to_json(), "since": "before"}))
    first, second = Single(Checkout(str(checkout), has_git=True)), Single(Checkout(str(checkout), has_git=True))
    first.take()
    between_two_looks = SimpleNamespace(sleep=lambda _: first.write(since="2026-01-15T12:00:00.000Z"))
    monkeypatch.setattr(single, "time", between_two_looks)
    with pytest.raises(DaemonRuns, match=rf"pid {os.getpid()}, since 2026-01-1[56] [0-9:]{{8}}\."):
        second.take()
    first.let_go()

    assert not (queue / RECORD).exists()
    assert (queue / FLOCK).exists()


def test_without_an_interpreter_warming_is_quiet_and_taking_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon whose interpreter was removed goes on watching; the turn that needs a keeper says what is wrong."""
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    keepers = WarmKeepers()
    keepers.warm()

    assert keepers.started() == {}
    with pytest.raises(KeeperLost, match="No such file"):
        keepers.take()
