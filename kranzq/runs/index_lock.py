"""git's `index.lock`: who may hold it, and what becomes of one that a killed git left behind.

A git that runs a hook or an editor has closed the file and holds it all the same. So *nobody has it open* proves
nothing alone: a lock is set aside only if it was made while a run of ours lasted, all of that run is proven gone, and
no git works in this tree. Every other one is waited for and reported.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator

from kranzq.disk import atomic
from kranzq.disk.birth import born_ns
from kranzq.disk.gitdir import GitFolder, git_folder, is_own
from kranzq.liveness import proc_is_ours
from kranzq.model.frozen import frozen

NAME = "index.lock"
PATIENCE_S = 1.0  # a git that only writes its index is done within this, even on a slow disk
_LOOK_AGAIN_S = 0.02
_LOOK_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_COMMAND_SHOWN = 80
_UNIT = 60


@frozen
class IndexLock:
    """A lock that is there, and when it was made (wall seconds)."""

    path: str
    device: int
    inode: int
    made_at: float
    regular: bool


def find(root: str) -> IndexLock | None:
    """The lock of a checkout's index, if there is one."""
    folder = git_folder(root)
    return None if folder is None else _look(folder)


def why_not_now(root: str, *, patience_s: float = PATIENCE_S) -> str | None:
    """Half a sentence about a lock that does not go, None when there is none."""
    until = time.monotonic() + patience_s
    while (lock := find(root)) is not None and time.monotonic() < until:
        time.sleep(_LOOK_AGAIN_S)
    if lock is None:
        return None
    age = _age(time.time() - lock.made_at)
    who = next(holders(lock, root), None)
    if who is not None:
        return f"git's {lock.path} is {age} old, and {who}"
    return (
        f"git's {lock.path} is {age} old, and no process that can be seen has it open or is a git at work here; "
        "a killed git may have left it: if none works here, remove it"
    )


def holders(lock: IndexLock, root: str) -> Iterator[str]:
    """Half a sentence on each process that has the lock open, or is a git in this tree that may hold it closed."""
    folder = git_folder(root)
    places = (root, folder.own) if folder is not None else (root,)
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid() and (how := _holds(f"/proc/{name}", lock, places)) is not None:
            yield f"process {name} ({_command(name)}) {how}"


def set_aside(root: str, run_fd: int, run_path: str, *, since: float) -> str | None:
    """Move a lock that was made since the beginning of a run, all of which is gone; where it lies now, or None.

    Where the run folder is on another file system it is renamed in its own folder.
    """
    if os.access(NAME, os.F_OK, dir_fd=run_fd):
        return f"{run_path}/{NAME}"  # an earlier look was killed before it could tell
    git, lock = git_folder(root), find(root)
    if git is None or not is_own(git, root) or not proc_is_ours():
        return None  # where no process can be looked at nothing is proven
    if lock is None or not lock.regular or lock.made_at < since or any(True for _ in holders(lock, root)):
        return None
    folder, name = os.path.split(lock.path)
    own = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for target_fd, target, shown in (
            (run_fd, NAME, run_path),
            (own, f"{NAME}.{os.path.basename(run_path)}", folder),
        ):
            try:
                atomic.move(own, name, target_fd, target, inode=lock.inode)
            except OSError:
                continue
            moved = os.stat(target, dir_fd=target_fd, follow_symlinks=False)
            if (moved.st_dev, moved.st_ino) != (lock.device, lock.inode):  # another git's, made in this instant
                with contextlib.suppress(OSError):
                    atomic.move(target_fd, target, own, name)
                return None
            return f"{shown}/{target}"
    finally:
        os.close(own)
    return None


def _look(folder: GitFolder) -> IndexLock | None:
    try:
        fd = os.open(folder.index_lock, _LOOK_ONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        seen, born = os.fstat(fd), born_ns(fd)
    finally:
        os.close(fd)
    made = seen.st_mtime if born is None else born / 10**9
    return IndexLock(folder.index_lock, seen.st_dev, seen.st_ino, made, stat.S_ISREG(seen.st_mode))


def _holds(place: str, lock: IndexLock, places: tuple[str, ...]) -> str | None:
    with contextlib.suppress(OSError):  # gone meanwhile, or another user's
        for number in os.listdir(f"{place}/fd"):
            link = f"{place}/fd/{number}"
            with contextlib.suppress(OSError):
                if os.readlink(link).endswith(f"/{NAME}"):  # asked first: a stat may hang where a file server is gone
                    seen = os.stat(link)
                    if (seen.st_dev, seen.st_ino) == (lock.device, lock.inode):
                        return "has it open"
    if not _is_git(place):
        return None
    try:
        there = os.readlink(f"{place}/cwd")
    except FileNotFoundError:
        return None
    except OSError:
        return "is a git of which cannot be seen where it works"
    return "works here" if any(there == one or there.startswith(f"{one}/") for one in places) else None


def _is_git(place: str) -> bool:
    try:
        with open(f"{place}/stat", "rb", buffering=0) as file:
            name, _, rest = file.read(4096).partition(b"(")[2].rpartition(b")")
    except OSError:
        return False
    return (name == b"git" or name.startswith(b"git-")) and rest.split()[:1] not in ([b"Z"], [b"X"])


def _command(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as file:
            text = file.read(_COMMAND_SHOWN)
    except OSError:
        text = b""
    return text.replace(b"\0", b" ").decode("utf-8", "replace").strip() or "unknown"


def _age(seconds: float) -> str:
    whole = int(max(seconds, 0))
    return f"{whole} s" if whole < _UNIT else f"{whole // _UNIT} min" if whole < _UNIT**2 else f"{whole // _UNIT**2} h"
