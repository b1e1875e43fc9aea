"""The daemon as a unit starts it, beside a socket that stands for the service manager."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kranzq.service.shell import facts_here
from tests.laboratory import PATIENCE, Laboratory, is_alive, wait_for

INTERVAL_S = 4.0
SO_TIMESTAMP = 29
"""Of a socket: the kernel says when each thing came, however late it is read."""


def started(lab: Laboratory, address: str) -> subprocess.Popen[bytes]:
    """A daemon by the words of its unit, with nothing but the environment that the unit has and systemd adds."""
    facts = facts_here(str(lab.root), os.environ)
    told = {"HOME": os.environ["HOME"], "NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(INTERVAL_S * 1_000_000))}
    words = ["env", "-i", *(f"{name}={text}" for name, text in (dict(facts.environment) | told).items())]
    return lab.start([*words, *facts.words("daemon")])


def test_it_says_that_it_is_ready_that_it_lives_and_that_it_leaves(lab: Laboratory, tmp_path: Path) -> None:
    """READY once, then never longer silent than the interval, idle and beside a mission; STOPPING before it leaves."""
    address, said, came = str(tmp_path / "notify"), list[str](), list[float]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMP, 1)
        manager.bind(address)
        manager.settimeout(PATIENCE)
        daemon = started(lab, address)

        def hear(until: Callable[[], bool]) -> None:
            while not until():
                text, at = heard(manager)
                said.append(text)
                came.append(at)

        hear(lambda: said.count("WATCHDOG=1") >= 2)
        lab.enqueue("m1", *lab.alone("m1", 60))
        wait_for(lambda: lab.count("start", "m1"), "m1 runs")
        hear(lambda: said.count("WATCHDOG=1") >= 4)
        daemon.send_signal(signal.SIGTERM)
        hear(lambda: "STOPPING=1" in said)
        code = daemon.wait(PATIENCE)

    assert said[0].splitlines()[0] == "READY=1"
    assert set(said[1:]) == {"WATCHDOG=1", "STOPPING=1"}
    assert max(after - before for before, after in itertools.pairwise(came)) < INTERVAL_S
    assert code == 0
    assert is_alive(lab.keeper("m1"))


def heard(manager: socket.socket) -> tuple[str, float]:
    """What the daemon says next, and when it came."""
    data, [(_, _, stamp)], _, _ = manager.recvmsg(1000, socket.CMSG_SPACE(16))
    seconds, micros = struct.unpack("@ll", stamp)
    return data.decode(), seconds + micros / 1e6


@pytest.mark.parametrize("whom", ["its group", "all groups"])
def test_term_to_a_whole_group_never_makes_a_mission_failed(lab: Laboratory, tmp_path: Path, whom: str) -> None:
    """The daemon's group: the mission is in another and goes on. All: the entry is back in its place, uncounted."""
    lab.enqueue("m1", "sh", "-c", f"trap 'exit 9' TERM; setsid sleep 300 & echo start m1 >> {lab.notes}/told; wait $!")
    lab.enqueue("m2")
    before = lab.entries()
    daemon = started(lab, str(tmp_path / "nobody"))
    wait_for(lambda: lab.count("start", "m1"), "m1 runs")
    keeper = lab.keeper("m1")
    groups = {daemon.pid}
    for pid in lab.processes() if whom == "all groups" else ():
        with contextlib.suppress(ProcessLookupError):  # one that was about to leave
            groups.add(os.getpgid(pid))
    for group in sorted(groups - {os.getpgrp()}):
        with contextlib.suppress(ProcessLookupError):  # one that ended with the group before it
            os.killpg(group, signal.SIGTERM)
    code = daemon.wait(PATIENCE)
    if whom == "all groups":  # a daemon that did not hear of its keeper's end within a second has left before it
        wait_for(lambda: not is_alive(keeper), "its keeper leaves")
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
