"""Letting go of a checkout: whatever goes wrong with the records, nobody is locked out."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kranzq.busy.foreign import LOCK, MISSION, KranzLock
from kranzq.busy.lock import BusyLock
from kranzq.busy.record import BUSY_JSON
from kranzq.disk import atomic
from kranzq.dispatch.hold import Holding
from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.wiring import queues


@pytest.mark.parametrize("unlock", [True, False])
@pytest.mark.parametrize("kept", [BUSY_JSON, MISSION, LOCK])
def test_a_record_that_cannot_be_removed_locks_nobody_out(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, kept: str, *, unlock: bool
) -> None:
    """The lock is free all the same, and the next holder, of the same process too, replaces what was left."""
    remove = atomic.remove

    def refusing(dir_fd: int, name: str) -> bool:
        if name == kept:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)
        return remove(dir_fd, name)

    one = Checkout(str(checkout), has_git=True)
    lock = BusyLock(one)
    with queues.make_queue(one) as queue:
        hold, kranz = lock.try_hold(queue.fd), KranzLock(queue.fd)
        assert hold is not None
        assert kranz.take() is None
        holding = Holding(queue, hold, kranz, me(), "2026-01-01T00:00:00Z")
        holding.name_dispatcher()
        holding.name_keeper(me(), "m-1", 1, "0" * 32)
        monkeypatch.setattr(atomic, "remove", refusing)
        with pytest.raises(PermissionError):
            holding.let_go(unlock=unlock)
        monkeypatch.undo()

        assert lock.is_free(queue.fd)
        again = KranzLock(queue.fd)
        assert again.take() is None
        again.let_go()
