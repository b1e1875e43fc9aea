"""The daemon as a unit starts it, beside a socket that stands for the service manager."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kranzq.service.shell import facts_here
from tests.laboratory import Laboratory, is_alive, wait_for

INTERVAL_S = 2.0


def started(lab: Laboratory, address: str) -> subprocess.Popen[bytes]:
    """A daemon by the words of its unit, with nothing but the environment that the unit has and systemd adds."""
    facts = facts_here(str(lab.root), os.environ)
    told = {"HOME": os.environ["HOME"], "NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(INTERVAL_S * 1_000_000))}
    words = ["env", "-i", *(f"{name}={text}" for name, text in (dict(facts.environment) | told).items())]
    return lab.start([*words, *facts.words("daemon")])


def test_it_says_that_it_is_ready_that_it_lives_and_that_it_leaves(lab: Laboratory, tmp_path: Path) -> None:
    """READY once, then never longer silent than the interval, idle and beside a mission; STOPPING before it leaves."""
    address, silent = str(tmp_path / "notify"), []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(20)
        daemon = started(lab, address)
        said = [manager.recv(1000).decode()]
        heard = time.monotonic()

        def hear(until: Callable[[], bool]) -> None:
            nonlocal heard
            while not until():
                said.append(manager.recv(1000).decode())
                silent.append(time.monotonic() - heard)
                heard = time.monotonic()

        hear(lambda: said.count("WATCHDOG=1") >= 2)
        lab.enqueue("m1", *lab.alone("m1", 60))
        wait_for(lambda: lab.count("start", "m1"), "m1 runs")
        hear(lambda: said.count("WATCHDOG=1") >= 4)
        daemon.send_signal(signal.SIGTERM)
        hear(lambda: "STOPPING=1" in said)
        code = daemon.wait(20)

    assert said[0].splitlines()[0] == "READY=1"
    assert set(said[1:]) == {"WATCHDOG=1", "STOPPING=1"}
    assert max(silent) < INTERVAL_S
    assert code == 0
    assert is_alive(lab.keeper("m1"))


@pytest.mark.parametrize("whom", ["its group", "all groups"])
def test_term_to_a_whole_group_never_makes_a_mission_failed(lab: Laboratory, tmp_path: Path, whom: str) -> None:
    """The daemon's group: the mission is in another and goes on. All: the entry is back in its place, uncounted."""
    lab.enqueue("m1", "sh", "-c", f"trap 'exit 9' TERM; setsid sleep 300 & echo start m1 >> {lab.notes}/told; wait $!")
    lab.enqueue("m2")
    before = lab.entries()
    daemon = started(lab, str(tmp_path / "nobody"))
    wait_for(lambda: lab.count("start", "m1"), "m1 runs")
    keeper = lab.keeper("m1")
    groups = {os.getpgid(pid) for pid in lab.processes()} if whom == "all groups" else {daemon.pid}
    for group in sorted(groups - {os.getpgrp()}):
        with contextlib.suppress(ProcessLookupError):  # one that ended with the group before it
            os.killpg(group, signal.SIGTERM)
    code = daemon.wait(20)
    told = lab.run("recover", code=None)

    assert code == 0
    assert is_alive(keeper) == (whom == "its group")
    if whom == "its group":
        assert (lab.outcomes("m1"), told.returncode) == ([], 0)
        os.kill(keeper, signal.SIGTERM)
        wait_for(lab.is_free, "its keeper has left")
        lab.run("recover")
    assert lab.outcomes("m1") == ["interrupted"]
    assert lab.records("m1")[-1].counted is False
    assert lab.entries() == before
