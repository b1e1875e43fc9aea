"""A mission of the storm: it checks that it is alone, writes down what it sees, and ends as its plan says.

    python -I -S storm_mission.py FOLDER MISSION PLAN SECONDS

Alone means: it holds a lock that only missions of this checkout take, and hands it down to all that it starts; what it
wrote into the lock's file, which tells whom others met, is there until its end. That end is one line, written just
before it leaves. Standard library only.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

PLANS = ("plain", "deaf", "unmarked", "unlocked", "fails", "defers", "slow", "vanishes")
LEFT = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.argv[1] == "deaf" else signal.SIG_DFL)
time.sleep(60)
"""
"""What is left behind: it lives for a minute, holds the missions' lock, and hears TERM or does not."""


def main() -> int:
    """Be the mission; its exit code."""
    folder, mission, plan, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
    said = os.open(f"{folder}/missions.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    me = {
        "mission": mission,
        "run": int(os.environ["KRANZ_RUN_NUMBER"]),
        "nonce": os.environ["KRANZ_CLAIM"].partition(":")[0],
        "pid": os.getpid(),
        "pidNs": os.readlink("/proc/self/ns/pid"),
        "ticks": _ticks("self"),
    }

    def say(what: str, **facts: object) -> None:
        line = {"what": what, "at": time.monotonic_ns(), **me, **facts}
        os.write(said, json.dumps(line).encode() + b"\n")

    if plan == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    alone = os.open(f"{folder}/alone", os.O_RDWR | os.O_CREAT, 0o600)
    held = _take(alone)
    say("start", plan=plan)
    marker = json.dumps(me | {"plan": plan}).encode()
    if held:
        os.ftruncate(alone, 0)
        os.pwrite(alone, marker, 0)
    else:
        say("overlap", whom=os.pread(alone, 4096, 0).decode(errors="replace"))
    if plan in {"unmarked", "unlocked", "deaf"}:
        _leave_somebody(plan, alone)
    time.sleep(seconds)
    if held and os.pread(alone, 4096, 0) != marker:
        say("overlap", whom=os.pread(alone, 4096, 0).decode(errors="replace"))
    if plan == "vanishes":
        os.kill(os.getpid(), signal.SIGKILL)
    code = 3 if plan == "fails" else 75 if plan == "defers" and me["run"] == 1 else 0
    say("end", code=code)
    return code


def _take(alone: int) -> bool:
    try:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _leave_somebody(plan: str, alone: int) -> None:
    """Start one that outlives us, in a session of its own: without our mark, or without the locks of our parents."""
    unmarked = plan != "unlocked"
    if unmarked:
        for name in os.listdir("/proc/self/fd"):
            fd = int(name)
            try:
                os.set_inheritable(fd, fd > 2 or os.get_inheritable(fd))
            except OSError:
                continue  # the one that listed them
    subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", LEFT, plan, "storm"],
        env={} if unmarked else None,
        close_fds=not unmarked,
        pass_fds=() if unmarked else (alone,),
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _ticks(pid: str) -> int:
    """The start of a process in ticks of the boot clock: its second name beside its pid."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[19])


if __name__ == "__main__":
    sys.exit(main())
