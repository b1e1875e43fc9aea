"""The courier: hands events from one checkout's outbox to the user's programs, each at least once, then leaves.

A program of its own, run by path (`python -I -S -E courier.py OUTBOX CHECKOUT`) with the standard library alone, so it
outlives whoever started it, holds nothing of theirs, and starts fast. One at a time, by a lock in the outbox. Files of
a mission are handed over in order; one that fails is tried again later and holds up only its own mission.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

LIMIT_S = 60.0
GIVE_UP_S = 24 * 3600.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 900.0
LOOK_S = 1.0
BAD = ".bad"
LOG_LIMIT = 256 * 1024
LOCK_TRIES, LOCK_PAUSE_S = 20, 0.05
PR_SET_CHILD_SUBREAPER = 36
STDERR = 2


def main(outbox: str, root: str) -> None:
    """Hand over what lies there until nothing does."""
    leave_behind()
    os.chdir("/")
    while os.path.isdir(outbox) and waiting(outbox):
        lock = take_lock(outbox)
        if lock is None:
            return  # another one is at work
        try:
            work(outbox, root)
        finally:
            os.close(lock)
        # whoever wrote a file while we still held the lock has started nobody: so look once more


def leave_behind() -> None:
    """A session of its own, no descriptor of whoever started us, and what a hook leaves comes to us."""
    with contextlib.suppress(OSError):
        os.setsid()
    for name in os.listdir("/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"):
        if int(name) > STDERR:
            with contextlib.suppress(OSError):
                os.close(int(name))
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def take_lock(outbox: str) -> int | None:
    """The outbox for us alone. Whoever only asks whether it is free holds it for an instant: so several tries."""
    try:
        fd = os.open(f"{outbox}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    for _ in range(LOCK_TRIES):
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        time.sleep(LOCK_PAUSE_S)
    os.close(fd)
    return None


def waiting(outbox: str) -> list[str]:
    """The files to hand over, in order."""
    try:
        return sorted(name for name in os.listdir(outbox) if name.endswith(".json") and name[0] != ".")
    except OSError:
        return []


def work(outbox: str, root: str) -> None:
    """Hand over what is due, wait for what is not, until nothing is left."""
    while names := waiting(outbox):
        held_up: set[str] = set()
        done = False
        for name in names:
            record = read(outbox, name)
            if record is None or record["mission"] in held_up:
                continue
            if record["due"] > time.time() or not hand_over(outbox, name, record, root):
                held_up.add(record["mission"])
            else:
                done = True
        if not done:
            time.sleep(LOOK_S)


def read(outbox: str, name: str) -> dict[str, Any] | None:
    """One file; what is none of ours is set aside under another name, with its bytes, and the log says why."""
    try:
        with open(f"{outbox}/{name}", "rb") as file:
            record = json.loads(file.read())
        command, event = record["command"], record["event"]
        if not (command and all(isinstance(part, str) for part in command) and isinstance(event, dict)):
            raise ValueError("it names no command, or no event")
        known: dict[str, Any] = {"mission": "", "due": 0.0, "tries": 0, "since": time.time()}
        known.update(record)
        return known
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as fault:
        say(outbox, f"{name} is set aside as {name}{BAD}, for it cannot be understood: {fault!r}")
        with contextlib.suppress(OSError):
            os.rename(f"{outbox}/{name}", f"{outbox}/{name}{BAD}")
        return None


def hand_over(outbox: str, name: str, record: dict[str, Any], root: str) -> bool:
    """One try; False when the file stays for another one."""
    why = run(outbox, record, root)
    if why is None:
        remove(outbox, name)
        return True
    what = f"hook {record['event'].get('event')} ({record['command'][0]}) for {record['mission'] or root}"
    if time.time() - record["since"] >= GIVE_UP_S:
        say(outbox, f"{what}: {why}; given up after {record['tries'] + 1} tries")
        remove(outbox, name)
        return True
    pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(record["tries"], 16)) * random.uniform(0.75, 1.0)  # noqa: S311
    say(outbox, f"{what}: {why}; again in {pause:.0f} s")
    later = record | {"tries": record["tries"] + 1, "due": time.time() + pause}
    with contextlib.suppress(OSError):
        with open(f"{outbox}/.{name}.{os.getpid()}.tmp", "w", encoding="utf-8") as file:
            json.dump(later, file)
        os.replace(f"{outbox}/.{name}.{os.getpid()}.tmp", f"{outbox}/{name}")
    return False


def run(outbox: str, record: dict[str, Any], root: str) -> str | None:
    """Run the program with the event on its input; None when it has taken it, else why not."""
    log = open_log(outbox)
    try:
        child = subprocess.Popen(
            record["command"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=root,
            env=os.environ | {"PWD": root},
            start_new_session=True,
        )
    except (OSError, ValueError) as fault:
        return f"it could not be started: {getattr(fault, 'strerror', None) or fault}"
    finally:
        os.close(log)
    assert child.stdin is not None
    with contextlib.suppress(OSError):  # one that reads nothing need not
        child.stdin.write(json.dumps(record["event"]).encode() + b"\n")
    with contextlib.suppress(OSError):
        child.stdin.close()
    in_time = has_ended(child.pid)
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)  # not buried yet, so the number is still its own; what it left goes too
    code = child.wait()
    bury_others()
    if not in_time:
        return f"it did not end within {LIMIT_S:.0f} s"
    return None if code == 0 else f"it ended with {code}"


def has_ended(pid: int) -> bool:
    """Wait for a child without burying it; False when its time is over."""
    deadline, pause = time.monotonic() + LIMIT_S, 0.001
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(0.05, pause * 2)
    return True


def bury_others() -> None:
    """What hooks left behind and has ended since."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def open_log(outbox: str) -> int:
    """The log of hooks; a long one begins anew."""
    path = f"{outbox}/log"
    with contextlib.suppress(OSError):
        if os.stat(path).st_size > LOG_LIMIT:
            os.replace(path, f"{path}.1")
    try:
        return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def say(outbox: str, text: str) -> None:
    """One line in the log, whatever names are in it."""
    text = "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)
    fd = open_log(outbox)
    with contextlib.suppress(OSError):
        os.write(fd, f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n".encode("utf-8", "replace"))
    os.close(fd)


def remove(outbox: str, name: str) -> None:
    """Take a file out of the outbox."""
    with contextlib.suppress(OSError):
        os.unlink(f"{outbox}/{name}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
