"""A dispatcher is held up at the worst moment, its keeper is killed, and somebody else settles the run meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laboratory import Laboratory, state_of, wait_for

pytestmark = [pytest.mark.crash, pytest.mark.slow]
STEPS = {
    "before state claiming is left": "before:kranzq.dispatch.launch:start:1",
    "before state starting": "before:kranzq.dispatch.launch:advance:1",
    "before go": "before:kranzq.runs.keepers:Keeper.go:1",
    "before the start is heard": "before:kranzq.dispatch.watch_over:_Watch._started:1",
}


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A checkout to experiment in."""
    with Laboratory(checkout) as one:
        yield one


def held(lab: Laboratory, point: str) -> subprocess.Popen[bytes]:
    """A dispatcher that is stopped at a point."""
    argv = [sys.executable, "-m", "tests.crash.killed", point, "-C", str(lab.root), "drain", "--once"]
    process = lab.start(argv, env={"LAB_SIGNAL": str(int(signal.SIGSTOP))})
    wait_for(lambda: state_of(process.pid) == "T", "the dispatcher is held")
    return process


@pytest.mark.parametrize("step", STEPS)
def test_an_end_that_others_recorded_is_not_written_over(lab: Laboratory, step: str) -> None:
    """The run keeps the end that recovery recorded, and the entry that went back runs again, once."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    dispatcher = held(lab, STEPS[step])
    record = lab.records("m1")[-1]
    os.kill(record.keeper.pid, signal.SIGKILL)
    wait_for(lambda: state_of(record.keeper.pid) in {"Z", None}, "the keeper is dead")
    lab.run("recover", "--yes", code=None)
    settled = lab.records("m1")[-1]
    os.kill(dispatcher.pid, signal.SIGCONT)
    dispatcher.wait(30)
    after = lab.records("m1")[-1]
    lab.release()
    lab.run("drain", code=None)

    assert settled.state == "ended"
    assert (after.run, after.state, after.outcome, after.fate) == (1, "ended", settled.outcome, settled.fate)
    assert lab.count("end", "m1") == 1
    assert lab.outcomes("m1")[-1] == "succeeded"
    lab.assert_nothing_left()
