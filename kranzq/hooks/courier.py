# Longer than 300 lines: it stands alone, since it is run by path and can import nothing of ours.
"""The courier: hands events from one checkout's outbox to the user's programs, each at least once, then leaves.

A program of its own, run by path (`python -I -S -E courier.py OUTBOX CHECKOUT`) with the standard library alone, so it
outlives whoever started it, holds nothing of theirs, and starts fast. One at a time, by a lock in the outbox. Files of
a mission are handed over in order; one that fails is tried again later and holds up only its own mission. A receiver
that hangs, or that cannot be reached, gets nothing else meanwhile. Many events of one hook become one summary.

With `--once` it makes one try at the record on its standard input, and says on the standard output how that went.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
import zlib
from typing import Any

LIMIT_S = 60.0
GIVE_UP_S = 24 * 3600.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 900.0
LOOK_S = 1.0
BURST = 3
"""So many events of a hook are told one by one within a window; what comes on top is told as one when it is over."""
MOST_IN_SUMMARY = 50
MISSED, TELLING, WINDOWS, TAKEN, DROP = "missed", "missed.telling", ".windows", ".taken.", ".drop."
POST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "post.py")
UNREACHABLE = 4
"""Exit code of `post.py`: it would be no better for another event. Of a program it says nothing but that it failed."""
READ: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {}
"""What was read, by path, with what tells whether the file is still the same."""
DONE: set[str] = set()
"""Paths of files that are told or given up and cannot be removed: they are over all the same."""
NOT_OURS: set[str] = set()
"""Paths of what is no event and cannot be renamed: the log has it once."""
BAD = ".bad"
ABANDONED_S = 3600.0
"""To write a file takes an instant: a temporary one of this age was left by a writer that was killed."""
LOG_LIMIT = 256 * 1024
LOCK_TRIES, LOCK_PAUSE_S = 20, 0.05
PR_SET_CHILD_SUBREAPER = 36
STDERR = 2


def main(outbox: str, root: str) -> None:
    """Hand over what lies there until nothing does."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
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
    sweep(outbox)
    resting: dict[str, float] = {}
    while names := waiting(outbox):
        if not a_round(outbox, names, root, resting):
            time.sleep(LOOK_S)


def a_round(outbox: str, names: list[str], root: str, resting: dict[str, float]) -> bool:
    """Look at each file once; whether anything was taken. `resting`: receivers that get nothing before that time."""
    held_up: dict[str, str] = {}
    gathered: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    ripe: set[str] = set()
    windows = read_windows(outbox)
    done = False
    drop(outbox, names)
    end_pauses(outbox, names, resting)
    for name in names:
        record = None if is_over(outbox, name) else read(outbox, name)
        if record is None:
            continue
        key, mission, now = receiver(record), record["mission"], time.time()
        if is_ahead(record["due"], now) or is_ahead(resting.get(whom(record), 0.0), now):
            held_up.setdefault(mission, "")
        elif held_up.get(mission, key) != key:
            continue
        elif (when := place_in(windows, key, record["window"], now)) != "now" or key in gathered:
            gathered.setdefault(key, []).append((name, record))
            held_up[mission] = key
            if when == "over":
                ripe.add(key)
        elif hand_over(outbox, name, record, root, resting):
            done = True
            begun, count = windows.get(key, (time.time(), 0))  # behind the try: a slow one is no pause
            windows[key] = (begun, count + 1)
            write_windows(outbox, windows, record["window"])
        else:
            held_up[mission] = ""
    for key in ripe:
        many = gathered[key]
        if hand_over_together(outbox, many, root, resting):
            done = True
            windows[key] = (time.time(), BURST if len(many) > 1 else 1)
            write_windows(outbox, windows, many[0][1]["window"])
    return done


def is_ahead(due: float, now: float) -> bool:
    """Whether a try is still to be waited for; one further off than any pause is a clock's that was set back."""
    return now < due <= now + LONGEST_PAUSE_S


def receiver(record: dict[str, Any]) -> str:
    """One word for a hook and whom it tells."""
    return f"{record['event'].get('event')}.{whom(record)}"


def whom(record: dict[str, Any]) -> str:
    """One word for whom a hook tells, which several hooks may share."""
    return f"{zlib.crc32(json.dumps(record['command']).encode()):08x}"


def end_pauses(outbox: str, names: list[str], resting: dict[str, float]) -> None:
    """What waits for a receiver that has taken a test is due now, for good: a person has mended it.

    Only in memory: it may be thousands, and the next courier after a kill waits a quarter of an hour at most.
    """
    mended = {name.removeprefix(TAKEN) for name in marks(outbox, TAKEN)}
    for name in names if mended else ():
        record = read(outbox, name)
        if record is not None and whom(record) in mended:
            path = f"{outbox}/{name}"
            READ[path] = READ[path][0], record | {"due": 0.0}
    for one in mended:
        resting.pop(one, None)
        remove(outbox, TAKEN + one)


def drop(outbox: str, names: list[str]) -> None:
    """Give up what a person wants nobody to be told. What came after the mark is not meant: it may be old itself."""
    for mark in marks(outbox, DROP):
        with contextlib.suppress(OSError):
            at = os.stat(f"{outbox}/{mark}").st_mtime
            meant = [name for name in names if not is_over(outbox, name) and is_meant(read(outbox, name), mark, at)]
            if meant:
                say(outbox, f"{shown(READ[f'{outbox}/{meant[0]}'][1]['command'])}: {len(meant)} dropped by hand")
            for name in meant:
                remove(outbox, name)
        remove(outbox, mark)


def is_meant(record: dict[str, Any] | None, mark: str, at: float) -> bool:
    """Whether a mark that was put at that time is about this event."""
    return record is not None and DROP + whom(record) == mark and record["since"] <= at


def marks(outbox: str, head: str) -> list[str]:
    """The marks that others have put for the courier and that it has not obeyed yet."""
    try:
        return [name for name in os.listdir(outbox) if name.startswith(head) and not is_over(outbox, name)]
    except OSError:
        return []


def place_in(windows: dict[str, tuple[float, int]], key: str, length: float, now: float) -> str:
    """Whether an event is told `now`, kept for `later`, or, a full window being `over`, told with all of its kind."""
    begun, count = windows.get(key, (now, 0))
    if length <= 0 or not 0 <= now - begun < 2 * length:
        windows.pop(key, None)
        return "now"
    if now - begun < length:
        return "now" if count < BURST else "later"
    if count >= BURST:
        return "over"
    windows.pop(key, None)
    return "now"


def read_windows(outbox: str) -> dict[str, tuple[float, int]]:
    """When the present window of each receiver began, and how much it was told since. Lost, they begin anew."""
    try:
        with open(f"{outbox}/{WINDOWS}", "rb") as file:
            return {str(key): (float(begun), int(count)) for key, (begun, count) in json.loads(file.read()).items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def write_windows(outbox: str, windows: dict[str, tuple[float, int]], length: float) -> None:
    """Keep them for the next courier: this one leaves when nothing waits, perhaps between two events of a storm."""
    if length > 0:
        put(outbox, WINDOWS, windows)


def read(outbox: str, name: str) -> dict[str, Any] | None:
    """One file; what is none of ours is set aside under another name, with its bytes, and the log says why.

    What was read before is not read again while its stat is the same: a receiver that is away for a day leaves
    thousands of them, and each is looked at once a second.
    """
    path = f"{outbox}/{name}"
    try:
        seen = os.stat(path)
        key = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
        kept = READ.get(path)
        if kept is None or kept[0] != key:
            with open(path, "rb") as file:
                kept = key, parsed(file.read())
            READ[path] = kept
        return kept[1]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as fault:
        if path not in NOT_OURS:
            say(outbox, f"{name} is set aside as {name}{BAD}, for it cannot be understood: {fault!r}")
        NOT_OURS.add(path)
        with contextlib.suppress(OSError):
            os.rename(path, f"{path}{BAD}")
        return None


def parsed(data: bytes) -> dict[str, Any]:
    """The record in a file's bytes, with what it leaves out. Raises ValueError, TypeError, KeyError for another one."""
    record = json.loads(data)
    command, event = record["command"], record["event"]
    if not (command and all(isinstance(part, str) for part in command) and isinstance(event, dict)):
        raise ValueError("it names no command, or no event")
    known: dict[str, Any] = {"mission": "", "due": 0.0, "tries": 0, "since": time.time(), "window": 0.0, **record}
    for field in ("due", "tries", "since", "window"):
        if not isinstance(known[field], int | float) or not math.isfinite(known[field]):
            raise TypeError(f"{field} is no number")
    if not isinstance(known["mission"], str):
        raise TypeError("mission is no text")
    return known


def sweep(outbox: str) -> None:
    """Remove what writers that were killed have left."""
    with contextlib.suppress(OSError):
        for name in os.listdir(outbox):
            path = f"{outbox}/{name}"
            if name.startswith(".") and name.endswith(".tmp"):
                with contextlib.suppress(OSError):
                    if time.time() - os.stat(path, follow_symlinks=False).st_mtime > ABANDONED_S:
                        os.unlink(path)


def hand_over(outbox: str, name: str, record: dict[str, Any], root: str, resting: dict[str, float]) -> bool:
    """One try; False when the file stays for another one."""
    return hand_over_together(outbox, [(name, record)], root, resting)


def hand_over_together(
    outbox: str, many: list[tuple[str, dict[str, Any]]], root: str, resting: dict[str, float]
) -> bool:
    """One try with one event, or with a summary of several; False when the files stay for another one."""
    first = many[0][1]
    event = dict(first["event"]) if len(many) == 1 else summary([record["event"] for _, record in many])
    missed = missed_so_far(outbox)
    why, is_wide = run(outbox, first["command"], event | ({"missed": missed} if missed else {}), root)
    if why is None:
        for name, _ in many:
            remove(outbox, name)
        if missed:
            remove(outbox, TELLING)
        return True
    what = f"hook {event.get('event')} ({shown(first['command'])}) for {event.get('mission') or root}"
    pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(first["tries"], 16)) * random.uniform(0.75, 1.0)  # noqa: S311
    if is_wide:
        resting[whom(first)] = time.time() + pause
    left = [postponed(outbox, name, record, why, pause) for name, record in many]
    end = f"again in {pause:.0f} s" if any(left) else f"given up after {first['tries'] + 1} tries"
    say(outbox, f"{what}: {why}; {end}")
    return not any(left)


def postponed(outbox: str, name: str, record: dict[str, Any], why: str, pause: float) -> bool:
    """Keep a file for another try; False when it was given up, which counts as missed."""
    if time.time() - record["since"] >= GIVE_UP_S:
        with contextlib.suppress(OSError):
            fd = os.open(f"{outbox}/{MISSED}", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(fd, b".")
            os.close(fd)
        remove(outbox, name)
        return False
    later = record | {"tries": record["tries"] + 1, "due": time.time() + pause, "why": why}
    path = f"{outbox}/{name}"
    if not put(outbox, name, later, sync=True) and path in READ:  # a full disk is no reason to try once a second
        READ[path] = READ[path][0], later
    return True


def summary(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Several events of one hook as one, with the first of them; each keeps its id, by which one knows it again."""
    first, last = events[0], events[-1]
    outcomes: dict[str, int] = {}
    for event in events:
        if isinstance(word := event.get("outcome"), str):
            outcomes[word] = outcomes.get(word, 0) + 1
    told = ", ".join(f"{count} {word}" for word, count in outcomes.items())
    what = str(first.get("event")).replace("_", " ")
    return {
        "event": first.get("event"),
        "id": f"{first.get('id')}+{len(events) - 1}",
        "at": last.get("at"),
        "repo": first.get("repo"),
        "text": f"{len(events)} times {what} in {first.get('repo')}" + (f": {told}" if told else ""),
        "count": len(events),
        "since": first.get("at"),
        "outcomes": outcomes,
        "events": events[:MOST_IN_SUMMARY],
    }


def missed_so_far(outbox: str) -> int:
    """How many events could not be kept. One byte each, so that writers need no lock; told with the next event."""
    if is_over(outbox, TELLING):
        return 0
    with contextlib.suppress(OSError):
        if not os.path.exists(f"{outbox}/{TELLING}"):
            os.rename(f"{outbox}/{MISSED}", f"{outbox}/{TELLING}")
    try:
        return os.stat(f"{outbox}/{TELLING}").st_size
    except OSError:
        return 0


def shown(command: list[str]) -> str:
    """A program, or the host of a URL: the rest of it is often a secret."""
    return "/".join(command[0].split("/", 3)[:3]) + "/…" if is_url(command) else command[0]


def is_url(command: list[str]) -> bool:
    """Whether a hook is a webhook."""
    return command[0].startswith(("http://", "https://"))


def run(outbox: str, command: list[str], event: dict[str, Any], root: str) -> tuple[str | None, bool]:
    """Run the program with the event on its input; None when it has taken it, else why not.

    And whether another event would fare no better: it hangs, cannot be started, cannot be reached.
    """
    is_web = is_url(command)
    order = {"url": command[0], "event": event, "key": f"{os.path.dirname(outbox)}/key"} if is_web else event
    log = open_log(outbox)
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-E", POST] if is_web else command,
            stdin=(given := as_file(json.dumps(order).encode() + b"\n")),
            stdout=subprocess.PIPE if is_web else log,
            stderr=log,
            cwd=root if os.path.isdir(root) else "/",
            env=os.environ | {"PWD": root},
            start_new_session=True,
        )
        os.close(given)
    except (OSError, ValueError) as fault:
        return f"it could not be started: {getattr(fault, 'strerror', None) or fault}", True
    finally:
        os.close(log)
    in_time = has_ended(child.pid)
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)  # not buried yet, so the number is still its own; what it left goes too
    code = child.wait()
    said = b""
    if child.stdout is not None:
        said = os.read(child.stdout.fileno(), 1000)
        child.stdout.close()
    bury_others()
    if not in_time:
        return f"it did not end within {LIMIT_S:.0f} s", True
    why = said.decode("utf-8", "replace").strip() or f"it ended with {code}"
    return (None if code == 0 else why), is_web and code == UNREACHABLE


def as_file(text: bytes) -> int:
    """A descriptor from which a program reads the text. No pipe: one that reads nothing would hold us up."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("event", os.MFD_CLOEXEC)
    else:
        import tempfile  # noqa: PLC0415 - only where there is no memory file

        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    left = memoryview(text)
    while left:
        left = left[os.write(fd, left) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


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


def put(outbox: str, name: str, value: object, *, sync: bool = False) -> bool:
    """Replace a file of ours as a whole; False when it stays as it was. With `sync` also over a power cut."""
    temporary = f"{outbox}/.{name}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(value, file)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, f"{outbox}/{name}")
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    return True


def remove(outbox: str, name: str) -> None:
    """Take a file out of the outbox. One that cannot be removed is remembered: what is told is not told again."""
    path = f"{outbox}/{name}"
    READ.pop(path, None)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as fault:
        if path not in DONE:
            say(outbox, f"{name} is over and cannot be removed: {fault.strerror}")
        DONE.add(path)
        return
    DONE.discard(path)


def is_over(outbox: str, name: str) -> bool:
    """Whether a file was told or given up, though it is still there; it is tried to remove it again."""
    path = f"{outbox}/{name}"
    if path in DONE:
        remove(outbox, name)
    return path in DONE


def once(outbox: str, root: str) -> None:
    """One try at the record on the standard input; why it failed, or null, goes to the standard output.

    A receiver that has taken it is marked for the courier, where something waits.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    record = json.loads(sys.stdin.read())
    why, _ = run(outbox, record["command"], record["event"], root)
    if why is None and waiting(outbox):
        with contextlib.suppress(OSError):
            os.close(os.open(f"{outbox}/{TAKEN}{whom(record)}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    print(json.dumps(why))  # noqa: T201 - the answer


if __name__ == "__main__":
    (once if sys.argv[1] == "--once" else main)(*sys.argv[-2:])
