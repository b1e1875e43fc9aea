"""What a tree of processes uses, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kranzq.liveness import usage
from kranzq.liveness.usage import Usage, usage_below
from tests.factories import gone_pid
from tests.laboratory import wait_for

BURNS = "import time\nwhile time.process_time() < 0.1: pass"


def test_a_tree_is_counted_with_those_that_have_ended() -> None:
    """Two sleepers live; the CPU time of a third, which burned some and was waited for, counts as well."""
    words = ["sh", "-c", '"$0" -I -S -c "$1"; sleep 3600 & sleep 3600 & wait', sys.executable, BURNS]
    process = subprocess.Popen(words, start_new_session=True)
    try:

        def both() -> Usage | None:
            found = usage_below(process.pid)
            return found if found is not None and found.processes == 2 else None

        found = wait_for(both, "both sleepers are seen")
        assert found is not None
        assert found.cpu_s > 0
        assert found.memory > 0
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_what_cannot_be_seen_is_nothing() -> None:
    """A process that is gone."""
    assert usage_below(gone_pid()) is None


def test_a_system_without_proc_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the screen leaves it out."""
    monkeypatch.setattr(usage, "HAS_PROC", False)

    assert usage_below(os.getpid()) is None
