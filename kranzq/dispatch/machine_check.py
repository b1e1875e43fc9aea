"""Does this machine offer what missions rest on? File system, locks, watching, clock, processes; asked, never tried.

Known good are local file systems whose rename survives a power cut whole; network ones have no locks that all who
share them would honour.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import struct
import sys
import time
from collections.abc import Iterator

from kranzq.disk.mounts import NETWORK, keeps_renames, mount_at
from kranzq.dispatch.checkup import Check
from kranzq.liveness import machine_id, proc_is_ours
from kranzq.model.checkout import Checkout

KNOWN_GOOD = frozenset({"ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "tmpfs", "bcachefs", "ext3"})
_WATCHES_WANTED = 64
_SLACK_S = 60.0
_YEAR_2024 = 1_704_067_200
_ASK = struct.Struct("hhqqi4x")


def of_machine(checkout: Checkout, environ_path: str | None, *, min_free: int) -> Iterator[Check]:
    """All questions about the machine."""
    yield _platform()
    yield _file_system(checkout)
    yield _locks(checkout)
    yield _space(checkout, min_free)
    yield _inotify()
    yield _clock(checkout)
    yield _machine()
    yield _proc()
    if checkout.has_git:
        git = shutil.which("git", path=environ_path)
        advice = "" if git else "Install git, or put it on PATH: missions in a git checkout want it"
        yield Check("git", "ok" if git else "warning", git or "no git on PATH", advice)


def _platform() -> Check:
    version, system = ".".join(map(str, sys.version_info[:3])), os.uname().sysname
    if system == "Linux":
        return Check("platform", "ok", f"Linux, Python {version}")
    text = f"{system}, Python {version}: leftovers of a killed keeper are found less surely than on Linux"
    return Check("platform", "warning", text, "Best effort; Linux is what is promised")


def _file_system(checkout: Checkout) -> Check:
    path = checkout.queue if os.path.isdir(checkout.queue) else checkout.root
    mount = mount_at(path)
    if mount is None:
        return Check("file system", "warning", "its type cannot be found out", "It must be a local one")
    text = f"{mount.kind}, mounted at {mount.at}"
    if mount.kind in NETWORK:
        return Check("file system", "fault", f"{text}: a network file system", "Move the checkout to a local one")
    if "ro" in mount.options:
        return Check("file system", "fault", f"{text}, read-only", "Mount it for writing")
    if mount.kind not in KNOWN_GOOD:
        advice = "If it is local and keeps renames whole over a power cut, all is well"
        return Check("file system", "warning", f"{text}: not one of those that were tried", advice)
    if keeps_renames(mount, os.stat(path).st_dev) is False:
        advice = (
            "Give it one (tune2fs -O has_journal), or accept that the entries of a power cut's last instants are lost"
        )
        return Check("file system", "warning", f"{text}, without a journal: a power cut may undo a rename", advice)
    return Check("file system", "ok", text)


def _locks(checkout: Checkout) -> Check:
    """Asking who holds a lock takes none, and fails where there are no locks."""
    path = checkout.git if checkout.has_git else checkout.queue
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as fault:
        return Check("locks", "fault", f"{path} cannot be opened: {fault.strerror}", "Look at its owner and mode")
    try:
        fcntl.fcntl(fd, fcntl.F_GETLK, _ASK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError as fault:
        text = f"the file system of {path} answers no question about locks: {fault.strerror}"
        return Check("locks", "fault", text, "Move the checkout to a local file system")
    finally:
        os.close(fd)
    return Check("locks", "ok", "the kernel answers questions about them here")


def _space(checkout: Checkout, min_free: int) -> Check:
    seen = os.statvfs(checkout.root)
    free = seen.f_bavail * seen.f_frsize
    text = f"{free / 2**20:.0f} MiB are free"
    if free < min_free:
        return Check("disk", "fault", f"{text}, a mission needs {min_free / 2**20:.0f}", "Free some space")
    if seen.f_files and not seen.f_favail:
        return Check("disk", "fault", f"{text}, but no more files can be made", "Remove some files")
    return Check("disk", "ok", text)


def _inotify() -> Check:
    """Ask the kernel for one watcher and give it back: the limit is one for all programs of the user."""
    advice = "Raise fs.inotify.max_user_instances and max_user_watches; until then the daemon polls"
    call = getattr(ctypes.CDLL(None, use_errno=True), "inotify_init1", None)
    if call is None:
        return Check("inotify", "warning", "not offered by this system", "The daemon polls")
    fd = call(os.O_CLOEXEC)
    if fd < 0:
        return Check("inotify", "warning", f"no watcher is to be had: {os.strerror(ctypes.get_errno())}", advice)
    os.close(fd)
    watches = _read("/proc/sys/fs/inotify/max_user_watches").strip()
    if watches.isdigit() and int(watches) < _WATCHES_WANTED:
        return Check("inotify", "warning", f"only {watches} directories can be watched", advice)
    return Check("inotify", "ok", f"{watches or 'enough'} directories can be watched")


def _clock(checkout: Checkout) -> Check:
    now = time.time()
    if now < _YEAR_2024:
        return Check(
            "clock", "fault", f"it says {time.strftime('%Y-%m-%d', time.gmtime(now))}", "Set it: due times need it"
        )
    for path in (f"{checkout.queue}/.seq", checkout.queue, checkout.root):
        try:
            ahead = os.stat(path, follow_symlinks=False).st_mtime - now
        except OSError:
            continue
        if ahead > _SLACK_S:
            text = f"{path} was changed {ahead:.0f} s in the future: the clock was set back, or is wrong"
            return Check("clock", "warning", text, "Set it: due times need it")
    return Check("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(now)))


def _machine() -> Check:
    if machine_id():
        return Check("machine id", "ok", "there is one")
    advice = "Make one (systemd-machine-id-setup, or dbus-uuidgen --ensure): claims over a restart are told by it"
    return Check("machine id", "warning", "none in /etc/machine-id", advice)


def _proc() -> Check:
    if not proc_is_ours():
        text = "/proc is missing or shows another pid namespace, so leftovers cannot be seen"
        return Check("processes", "fault", text, "Mount the /proc of this namespace")
    mount = mount_at("/proc")
    hidden = [one for one in mount.options if one.startswith("hidepid=")] if mount is not None else []
    if hidden and hidden[0] not in {"hidepid=0", "hidepid=off"} and os.geteuid() != 0:
        text = f"/proc is mounted with {hidden[0]}: processes of other users cannot be seen"
        return Check("processes", "warning", text, "Holders of other users count as unknown for an hour")
    return Check("processes", "ok", "/proc shows them")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
