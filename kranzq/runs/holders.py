"""Who holds the busy lock: asked of the kernel, without taking anything.

Used when the lock was found busy, before a word is said to anybody about leftovers. Two facts decide: whether a keeper
holds its own lock beside the busy lock, and whether the dispatcher that took the busy lock is itself among its holders.
What cannot be seen is *cannot see*, never *nobody*.
"""

from __future__ import annotations

import enum
import fcntl
import os
import struct
import sys
from collections.abc import Collection, Iterable, Sequence

from kranzq.liveness import ProcessStat, proc_is_ours, read_stat
from kranzq.model.frozen import frozen

Lock = int | str
"""A lock file: its path, or a descriptor of it (read-only is enough)."""
Key = tuple[int, int]
"""Device and inode of a lock file, as stat shows them."""

_LINUX = sys.platform == "linux"
# struct flock: type, whence, start, length, pid; the BSDs have the last one third
_ASK = struct.Struct("hhqqi4x" if _LINUX else "qqihh")


@frozen
class Holder:
    """A process with a descriptor that holds the lock `key`, which the dispatcher `taker` once took.

    In a private pid namespace a taker that is gone is 0; in the first one it keeps its number for ever.
    """

    pid: int
    taker: int
    start_ticks: int
    key: Key


@frozen
class HoldersSeen:
    """One pass: the holders, and the processes whose descriptors we may not see."""

    holders: tuple[Holder, ...]
    cannot_look: tuple[int, ...]


class Situation(enum.Enum):
    """What a busy lock means. Only of LEFTOVERS may the holders be ended."""

    KEEPER = "a keeper lives"
    DISPATCHER = "a dispatcher is at work"
    LEFTOVERS = "its keeper and its dispatcher are gone"
    CANNOT_SEE = "its holders cannot be seen from here"


@frozen
class LockJudgement:
    """The situation and who is meant: the keeper (0: lives in another pid namespace), the dispatcher, the holders."""

    situation: Situation
    pid: int | None
    holders: tuple[Holder, ...]


def key_of(lock: Lock) -> Key | None:
    """Device and inode of a lock file, or None when there is none under the path."""
    try:
        seen = os.stat(lock)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return None
    return seen.st_dev, seen.st_ino


def keeper_lives(lock: Lock) -> int | None:
    """The pid of the keeper that lives beside this lock file, 0 if it is not ours to see, None if there is none.

    Asking takes nothing, so it never makes anybody else find the lock busy. A keeper must not ask with the path:
    closing a descriptor of the file would drop its own lock.
    """
    if isinstance(lock, int):
        return _ask(lock)
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return _ask(fd)
    finally:
        os.close(fd)


def judge_lock(locks: Sequence[Lock]) -> LockJudgement:
    """What it means that these locks are busy. Name only those that were found busy, not one in the asker's hand."""
    if (keeper := _first_keeper(locks)) is not None:
        return LockJudgement(Situation.KEEPER, keeper, ())
    seen = flock_holders([key for key in map(key_of, locks) if key is not None])
    # asked again: a dispatcher may have said *go* and died while we looked
    if (keeper := _first_keeper(locks)) is not None:
        return LockJudgement(Situation.KEEPER, keeper, ())
    return judge_holders(seen)


def judge_holders(seen: HoldersSeen) -> LockJudgement:
    """What the holders of a busy lock are, given that no keeper lives."""
    hidden = not seen.holders
    for key in {holder.key for holder in seen.holders}:
        group = [holder for holder in seen.holders if holder.key == key]
        pids = {holder.pid for holder in group}
        oldest = min(holder.start_ticks for holder in group)
        for taker in sorted({holder.taker for holder in group}):
            if taker in pids:  # compared with the holders only: the number of a gone taker is given out again
                return LockJudgement(Situation.DISPATCHER, taker, tuple(group))
            hidden = hidden or (taker in seen.cannot_look and _is_as_old(taker, oldest))
    situation = Situation.CANNOT_SEE if hidden else Situation.LEFTOVERS
    return LockJudgement(situation, None, seen.holders)


def flock_holders(keys: Collection[Key]) -> HoldersSeen:
    """Every process with a descriptor that holds one of these locks. Waiters and readers hold nothing."""
    holders: list[Holder] = []
    cannot_look: list[int] = []
    for stat in processes():
        try:
            held = held_flocks(place_to_look(stat), keys)
        except PermissionError:
            cannot_look.append(stat.pid)
        else:
            holders += [Holder(stat.pid, taker, stat.start_ticks, key) for key, taker in held]
    return HoldersSeen(tuple(holders), tuple(cannot_look))


def processes() -> Iterable[ProcessStat]:
    """Every living process that /proc shows us, kernel threads left out."""
    if not proc_is_ours():
        return
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        stat = read_stat(int(name))
        if stat is not None and not stat.dead and not stat.kernel_thread:
            yield stat


def place_to_look(stat: ProcessStat) -> str:
    """Where /proc tells about a process: where only its main thread has ended, another thread's place still does."""
    place = f"/proc/{stat.pid}"
    if stat.state == "Z":
        try:
            others = [name for name in os.listdir(f"{place}/task") if name != str(stat.pid)]
        except OSError:
            others = []
        if others:
            return f"{place}/task/{others[0]}"
    return place


def held_flocks(place: str, keys: Collection[Key]) -> set[tuple[Key, int]]:
    """Which of these locks a process holds, each with its taker. PermissionError when we may not see."""
    found: set[tuple[Key, int]] = set()
    inodes = {b"%d" % inode for _, inode in keys}
    folder = f"{place}/fdinfo"
    for fd in _names(folder):
        text = _head(f"{folder}/{fd}")
        if b"FLOCK" not in text:
            continue
        for line in text.split(b"\n"):
            fields = line.split()
            if fields[:1] != [b"lock:"] or fields[2:5] != [b"FLOCK", b"ADVISORY", b"WRITE"]:
                continue
            # the device shown here is the file system's own; overlayfs and btrfs show stat another one, so ask stat
            if fields[6].rpartition(b":")[2] in inodes and (key := key_of(f"{place}/fd/{fd}")) in keys:
                assert key is not None
                found.add((key, int(fields[5])))
    return found


def _first_keeper(locks: Sequence[Lock]) -> int | None:
    return next((pid for pid in map(keeper_lives, locks) if pid is not None), None)


def _ask(fd: int) -> int | None:
    if _LINUX:
        kind, _, _, _, pid = _ASK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, _ASK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)))
    else:
        answer = fcntl.fcntl(fd, fcntl.F_GETLK, _ASK.pack(0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET))
        _, _, pid, kind, _ = _ASK.unpack(answer)
    return None if kind == fcntl.F_UNLCK else max(int(pid), 0)


def _is_as_old(taker: int, oldest: int) -> bool:
    """Whether a hidden process may be the taker itself: whoever got its number later is younger than what it left."""
    stat = read_stat(taker)
    return stat is not None and not stat.dead and stat.start_ticks <= oldest


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return []


def _head(path: str) -> bytes:
    """The lines of one descriptor; locks come before whatever else the kernel tells of it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):  # closed meanwhile
        return b""
    try:
        return os.read(fd, 4096)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    finally:
        os.close(fd)
