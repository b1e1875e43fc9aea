"""Is a daemon there? Its record and the kernel's table of locks tell; its lock is never tried.

A daemon that starts at this very moment must not find its lock held by somebody who only looked. A record counts only
while its process lives and the lock is held.
"""

from __future__ import annotations

import os

from kranzq.disk.modes import counts
from kranzq.disk.read import Unreadable, open_folder, read_regular
from kranzq.dispatch.lock_table import is_flocked
from kranzq.liveness import judge
from kranzq.model.checkout import Checkout
from kranzq.model.clock import rfc3339
from kranzq.model.frozen import frozen
from kranzq.model.json_object import json_object
from kranzq.model.process import Liveness, ProcessIdentity

DAEMON_JSON = ".daemon.json"
DAEMON_FLOCK = ".daemon.flock"


@frozen
class DaemonSeen:
    """What a daemon says of itself. Times are RFC 3339, empty where the record has none."""

    pid: int
    since: str
    watching: str
    last_scan: str
    version: str
    stopping: bool = False
    on_stop: str = ""
    elsewhere: str = ""
    """The path that it serves, if this queue is not there any more: it starts nothing here."""

    def to_json(self) -> dict[str, object]:
        """The daemon with the documented keys."""
        return {
            "pid": self.pid,
            "since": self.since or None,
            "watching": self.watching or None,
            "lastScan": self.last_scan or None,
            "version": self.version or None,
        }


@frozen
class HiddenDaemon:
    """A daemon may live where we cannot see it; `why` is half a sentence."""

    why: str


def look_for_daemon(queue: int) -> DaemonSeen | HiddenDaemon | None:
    """The daemon that serves the queue behind the descriptor, None when there is none."""
    try:
        found = read_regular(DAEMON_JSON, dir_fd=queue)
    except Unreadable as fault:
        return HiddenDaemon(f"{DAEMON_JSON} cannot be read: {fault.why}") if is_daemon_locked(queue) else None
    value = json_object(found.data) if found is not None and counts(found.stat, queue) else None
    process = ProcessIdentity.from_json(value.get("process")) if value is not None else None
    if value is None or process is None:
        if is_daemon_locked(queue):
            return HiddenDaemon(f"its lock is held, but {DAEMON_JSON} does not tell by whom")
        return None
    judged, held = judge(process), is_daemon_locked(queue)
    if judged.verdict is Liveness.GONE or held is False:
        return None
    if judged.verdict is Liveness.UNKNOWN and held is None:
        return HiddenDaemon(judged.evidence)
    since, watching, version, on_stop = (
        text if isinstance(text := value.get(key), str) else "" for key in ("since", "watching", "version", "onStop")
    )
    last_scan = rfc3339(found.stat.st_mtime) if found is not None else ""  # the daemon touches it at each look
    stopping, elsewhere = value.get("stopping") is True, _elsewhere(queue, process.pid, value.get("queue"))
    return DaemonSeen(process.pid, since, watching, last_scan, version, stopping, on_stop, elsewhere)


def daemon_of(checkout: Checkout) -> DaemonSeen | HiddenDaemon | None:
    """The daemon that serves a checkout, None when there is none, or no queue."""
    try:
        queue = open_folder(checkout.queue)
    except OSError:
        return None
    try:
        return look_for_daemon(queue)
    finally:
        os.close(queue)


def _elsewhere(queue: int, pid: int, path: object) -> str:
    """The path where the daemon looks for its queue, if another or no directory is there now.

    A daemon that sees other mounts (a container's) knows this queue by another path.
    """
    try:
        if not isinstance(path, str) or os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"):
            return ""
    except OSError:
        return ""
    here = os.fstat(queue)
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return path
    except OSError:
        return ""
    return "" if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino) else path


def is_daemon_locked(queue: int) -> bool | None:
    """Whether a daemon's lock is held; None when it cannot be told from here."""
    try:
        fd = os.open(DAEMON_FLOCK, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=queue)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        return is_flocked(fd)
    finally:
        os.close(fd)
