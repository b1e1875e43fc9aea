"""One process as the system shows it: its state, its start, its identity, and the verdict on a recorded identity.

*Gone* is said only of what is proven: no such process, a zombie, or another process under the same number. Reads /proc
and nothing else on Linux; where there is no /proc, psutil answers instead and is imported only then. Signals nobody
(signal 0 only asks).
"""

from __future__ import annotations

import enum
import functools
import os
import sys
import time

from kranzq.model.frozen import frozen
from kranzq.model.process import Judgement, Liveness, ProcessIdentity

HAS_PROC = sys.platform == "linux"
"""Whether this system shows its processes below /proc."""
_DEAD_STATES = frozenset({"Z", "X", "x"})
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of the flags in /proc/PID/stat
_PID_CEILING = 4_194_304  # PID_MAX_LIMIT of 64-bit kernels, where pid_max cannot be read
_I32_MAX = 2**31 - 1


class Place(enum.Enum):
    """Where a recorded process lived, seen from here. It decides which of the rules of recovery applies."""

    HERE = "this boot and these namespaces"
    OTHER_NAMESPACE = "another namespace of this boot"
    OTHER_BOOT = "another boot of this machine"
    ELSEWHERE = "another machine"


@frozen
class ProcessStat:
    """What /proc/PID/stat says of one process at one moment."""

    pid: int
    parent: int
    state: str
    threads: int
    start_ticks: int
    kernel_thread: bool

    @property
    def dead(self) -> bool:
        """A zombie or less. One whose main thread alone has ended shows the same letter and is a living process."""
        return self.state in _DEAD_STATES and self.threads <= 1


def read_stat(pid: int) -> ProcessStat | None:
    """The process `pid` as /proc shows it, zombies included; None when it shows none (or belongs to others' pids)."""
    if not HAS_PROC:
        return _stat_by_psutil(pid)
    if not proc_is_ours():
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None  # gone, also between open and read, or hidden from us; a lack of descriptors must not look so
    fields = text[text.rfind(b")") + 2 :].split()  # the name before it may hold spaces and parentheses
    try:
        parent, flags, threads, ticks = (int(fields[at]) for at in (1, 6, 17, 19))
    except (IndexError, ValueError):
        return None
    return ProcessStat(pid, parent, fields[0].decode("ascii", "replace"), threads, ticks, bool(flags & _KERNEL_THREAD))


def start_ticks(pid: int) -> int | None:
    """When `pid` started, in clock ticks since boot; None when it is gone, a zombie, or not ours to see."""
    stat = read_stat(pid)
    return None if stat is None or stat.dead else stat.start_ticks


@functools.cache
def boot_id() -> str:
    """This boot of the kernel; empty where the system has no name for it."""
    return _first_line("/proc/sys/kernel/random/boot_id")


@functools.cache
def machine_id() -> str:
    """This machine over its boots; empty where the system has no name for it."""
    return _first_line("/etc/machine-id") or _first_line("/var/lib/dbus/machine-id")


def boot_time() -> float:
    """When this boot began, in wall-clock seconds: an estimate that follows each step of the wall clock."""
    if HAS_PROC:
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    import psutil  # noqa: PLC0415 - only where there is no /proc

    return float(psutil.boot_time())


@functools.cache
def pid_max() -> int:
    """The largest process id that this system gives out."""
    return int(_first_line("/proc/sys/kernel/pid_max") or _PID_CEILING)


@functools.cache
def proc_is_ours() -> bool:
    """Whether /proc shows the pid namespace we live in; if not, its numbers mean other processes."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def identity_of(pid: int) -> ProcessIdentity | None:
    """The living process `pid` for ever, or None when there is none.

    The namespaces are ours, not its own: the number and the ticks are as we see them.
    """
    stat = read_stat(pid)
    if stat.dead if stat is not None else not _exists(pid):
        return None
    ticks = None if stat is None else stat.start_ticks
    return ProcessIdentity(pid, ticks, boot_id(), machine_id(), *_namespaces())


@functools.cache
def me() -> ProcessIdentity:
    """Who we are; also right in a child after fork."""
    own = identity_of(os.getpid())
    assert own is not None, "the asking process exists"
    return own


def place_of(identity: ProcessIdentity) -> Place:
    """Where the process was seen. The same boot is the same machine, whatever a container image says of its id."""
    if identity.boot_id != boot_id():
        same_machine = identity.machine_id == machine_id() != ""
        return Place.OTHER_BOOT if same_machine else Place.ELSEWHERE
    if not identity.boot_id and identity.machine_id != machine_id():
        return Place.ELSEWHERE
    return Place.HERE if (identity.pid_ns, identity.time_ns) == _namespaces() else Place.OTHER_NAMESPACE


def judge(identity: ProcessIdentity) -> Judgement:
    """Whether a recorded process lives, as far as the process itself tells.

    *Gone* by another boot is only half of a rule: the caller must know that the claim was not touched since this boot.
    """
    pid = identity.pid
    match place_of(identity):
        case Place.ELSEWHERE:
            return Judgement(Liveness.UNKNOWN, f"process {pid} lives or lived on another machine")
        case Place.OTHER_BOOT:
            return Judgement(Liveness.GONE, f"process {pid} belongs to an earlier boot of this machine")
        case Place.OTHER_NAMESPACE:
            kind = "pid" if identity.pid_ns != _namespaces()[0] else "time"
            return Judgement(Liveness.UNKNOWN, f"process {pid} lives in another {kind} namespace")
        case Place.HERE:
            return judge_here(pid, identity.start_ticks)


def judge_here(pid: int, ticks: int | None) -> Judgement:
    """Whether the process that has the number here, and had started at `ticks` (None: unknown), lives."""
    stat = read_stat(pid)
    if stat is None:
        match _exists(pid):
            case False:
                return Judgement(Liveness.GONE, f"process {pid} does not exist")
            case True:
                return Judgement(Liveness.ALIVE, f"process {pid} exists, but /proc does not show it")
            case None:
                return Judgement(Liveness.UNKNOWN, f"{pid} is no process id here")
    if stat.dead:
        return Judgement(Liveness.GONE, f"process {pid} is a zombie")
    if ticks is None:
        return Judgement(Liveness.ALIVE, f"process {pid} exists")
    if stat.start_ticks == ticks:
        return Judgement(Liveness.ALIVE, f"process {pid} runs, the same since tick {ticks}")
    evidence = (
        f"pid {pid} now belongs to another process (started at tick {stat.start_ticks}, the holder at tick {ticks})"
    )
    return Judgement(Liveness.GONE, evidence)


def _exists(pid: int) -> bool | None:
    """Whether there is such a process; None when the question makes no sense."""
    if not 0 < pid <= _I32_MAX:  # 0 and negative numbers would ask about whole groups
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    except OSError:
        return None
    return True


@functools.cache
def _namespaces() -> tuple[str, str]:
    return _link("/proc/self/ns/pid"), _link("/proc/self/ns/time")


def _stat_by_psutil(pid: int) -> ProcessStat | None:
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state = "Z" if process.status() == psutil.STATUS_ZOMBIE else "S"
            return ProcessStat(pid, process.ppid(), state, 1, int(process.create_time() * 100), kernel_thread=False)
    except (psutil.Error, ValueError, OverflowError):
        return None


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.readline(256).strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _forget_parent() -> None:
    for remembered in (me, proc_is_ours, _namespaces):
        remembered.cache_clear()


os.register_at_fork(after_in_child=_forget_parent)
