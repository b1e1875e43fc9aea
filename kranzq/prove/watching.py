"""A trial of the watch: does the daemon hear of a new entry here, and how soon? It decides speed, no promise."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator

from kranzq.daemon.wake import Wake
from kranzq.daemon.watch import Watcher
from kranzq.disk.atomic import publish
from kranzq.model.trial import Trial, Verdict
from kranzq.prove.racing import start
from kranzq.prove.scratch import Scratch
from kranzq.prove.trying import each

_TIMES = 20
_PATIENCE_S = 1.0
_NAME = "heard of"


def of_watching(scratch: Scratch, _seconds: float) -> Iterator[Trial]:
    """Another process makes entries one by one; each must wake the daemon."""
    return each(((_NAME, (), lambda: _watched(scratch)),), "entries cannot be made here: ", "See the trials before it")


def _watched(scratch: Scratch) -> Trial:
    wake = Wake()
    watcher = Watcher(scratch.checkout.queue, wake)
    try:
        watcher.start()
        if watcher.why_polling is not None:
            return Trial(_NAME, (), Verdict.WEAKER, 0, watcher.why_polling, "The daemon looks by itself instead")
        return _heard(scratch, wake)
    finally:
        watcher.stop()
        wake.close()


def _heard(scratch: Scratch, wake: Wake) -> Trial:
    took, lost = [], 0
    queue = os.open(scratch.checkout.queue, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number in range(_TIMES):
            wake.clear()
            began = time.perf_counter()
            maker = start(lambda name=f"heard-{number}": publish(queue, name, b"x").st_size)  # type: ignore[misc]
            if wake.wait(_PATIENCE_S):
                took.append(time.perf_counter() - began)
            else:
                lost += 1
            maker.answer()
            os.unlink(f"heard-{number}", dir_fd=queue)
    finally:
        os.close(queue)
    if lost:
        text = f"{lost} of {_TIMES} new entries were not told within {_PATIENCE_S:g} s"
        return Trial(_NAME, (), Verdict.WEAKER, _TIMES, text, "The daemon looks by itself, and finds them later")
    text = f"{_TIMES} entries of another process, each after {1000 * statistics.median(took):.1f} ms (median)"
    return Trial(_NAME, (), Verdict.HOLDS, _TIMES, text)
