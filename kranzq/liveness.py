"""Does a recorded process still live? Three answers, with evidence that a person can check.

Everything that frees a claim or a lock of somebody else rests on the answers given here, so *gone* is said only of what
is proven: no such process, a zombie, or another process under the same number. Reads /proc and nothing else on Linux;
where there is no /proc, psutil answers instead and is imported only then. Never signals anybody (signal 0 only asks).
"""

from __future__ import annotations

import enum
import functools
import hashlib
import os
import re
import sys
import time
from dataclasses import dataclass

from kranzq.model.process import Judgement, Liveness, ProcessIdentity

_LINUX = sys.platform == "linux"
_DEAD_STATES = frozenset({"Z", "X", "x"})
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD of the flags in /proc/PID/stat
_PID_CEILING = 4_194_304  # PID_MAX_LIMIT of 64-bit kernels, where pid_max cannot be read
_I32_MAX = 2**31 - 1
_WALL_SLACK = 2.0  # seconds: a start time in wall-clock seconds is an estimate, the clock is slewed meanwhile
_NUMBER = re.compile(r"\+?[0-9]{1,20}")
_U64 = 2**64 - 1


class Place(enum.Enum):
    """Where a recorded process lived, seen from here. It decides which of the rules of recovery applies."""

    HERE = "this boot and these namespaces"
    OTHER_NAMESPACE = "another namespace of this boot"
    OTHER_BOOT = "another boot of this machine"
    ELSEWHERE = "another machine"


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class HolderRecord:
    """The four lines by which kranz says who holds a lock. `token` is empty where its writer had none."""

    pid: int
    seconds: int
    token: str
    generation: int

    @classmethod
    def parse(cls, data: bytes) -> HolderRecord | None:
        """The record in `data`; missing lines are tolerated, but None without a process id in the first."""
        try:
            lines = [line.strip() for line in data.decode("utf-8").strip().split("\n")]
        except UnicodeDecodeError:
            return None
        first, seconds, token, generation = (lines + [""] * 4)[:4]
        pid = _number(first)
        return cls(pid, _number(seconds), token, _number(generation)) if 0 < pid <= _I32_MAX else None

    def render(self) -> bytes:
        """The bytes as kranz writes them."""
        return f"{self.pid}\n{self.seconds}\n{self.token}\n{self.generation}\n".encode()


def read_stat(pid: int) -> ProcessStat | None:
    """The process `pid` as /proc shows it, zombies included; None when it shows none (or belongs to others' pids)."""
    if not _LINUX:
        return _stat_by_psutil(pid)
    if not proc_is_ours():
        return None
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
    except OSError:  # gone, also between open and read; or hidden from us (hidepid)
        return None
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
    if _LINUX:
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    import psutil  # noqa: PLC0415 - only where there is no /proc

    return float(psutil.boot_time())


@functools.cache
def pid_max() -> int:
    """The largest process id that this system gives out."""
    return _number(_first_line("/proc/sys/kernel/pid_max")) or _PID_CEILING


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
    ticks = start_ticks(pid)
    if ticks is None and not (pid == os.getpid() or _exists(pid)):
        return None
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
            return _judge_here(pid, identity.start_ticks)


def kranz_token(pid: int) -> str | None:
    """The text by which kranz tells a process from a later one with its number; None when it cannot be read."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    if not _LINUX:
        return time.asctime(time.gmtime(ticks // 100))
    return f"{boot_id()}:{ticks}" if boot_id() else None


def suffix_k4(token: str) -> str:
    """The suffix of a claim's name as kranz writes it today."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


def suffix_k3(token: str) -> str:
    """The suffix as kranz wrote it one generation earlier: SipHash-1-3 without a key."""
    hashed = _siphash13(token.encode() + b"\xff")
    return f"{hashed:016x}"


def judge_claim(pid: int, suffix: str | None, claimed_at: float) -> Judgement:
    """Whether the process in a claim's name lives, for a claim without a record.

    `claimed_at` is in wall-clock seconds; it matters only without a suffix, where the number alone must decide.
    """
    if not 0 < pid <= pid_max():
        return Judgement(Liveness.UNKNOWN, f"{pid} is no process id here")
    seen = _judge_here(pid, None)
    if seen.verdict is not Liveness.ALIVE:
        return seen
    token = kranz_token(pid)
    if token is None:
        # it may have ended since the look above; if not, it is hidden from us, and what exists is not gone
        return _judge_here(pid, None)
    if suffix is not None:
        if suffix in {suffix_k4(token), suffix_k3(token)}:
            return Judgement(Liveness.ALIVE, f"process {pid} runs and its start matches the claim")
        return Judgement(Liveness.GONE, f"pid {pid} now belongs to another process: its start does not match the claim")
    started = _wall_start(pid)
    if started is not None and started > claimed_at + _WALL_SLACK:
        late = started - claimed_at
        return Judgement(Liveness.GONE, f"pid {pid} now belongs to a process that started {late:.0f} s after the claim")
    return Judgement(Liveness.ALIVE, f"process {pid} runs, by its bare pid: the claim does not say when it started")


def judge_holder_record(data: bytes) -> Judgement:
    """Whether the holder in one of kranz's lock files lives. What cannot be read is *unknown*, never *gone*."""
    if not data.strip():
        return Judgement(Liveness.UNKNOWN, "the lock record is empty")
    record = HolderRecord.parse(data)
    if record is None:
        return Judgement(Liveness.UNKNOWN, "the lock record does not begin with a process id")
    seen = _judge_here(record.pid, None)
    if seen.verdict is not Liveness.ALIVE or not record.token:
        return seen
    token = kranz_token(record.pid)
    if token is None or token == record.token:
        return _judge_here(record.pid, None) if token is None else seen
    evidence = f"pid {record.pid} now belongs to another process ({token}, the holder was {record.token[:80]})"
    return Judgement(Liveness.GONE, evidence)


def _judge_here(pid: int, ticks: int | None) -> Judgement:
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


def _wall_start(pid: int) -> float | None:
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    return boot_time() + ticks / os.sysconf("SC_CLK_TCK") if _LINUX else ticks / 100


def _stat_by_psutil(pid: int) -> ProcessStat | None:
    import psutil  # noqa: PLC0415 - only where there is no /proc

    try:
        process = psutil.Process(pid)
        with process.oneshot():
            state = "Z" if process.status() == psutil.STATUS_ZOMBIE else "S"
            return ProcessStat(pid, process.ppid(), state, 1, int(process.create_time() * 100), kernel_thread=False)
    except (psutil.Error, ValueError, OverflowError):
        return None


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


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


def _siphash13(data: bytes) -> int:
    v0, v1, v2, v3 = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573
    tail = len(data) & 7
    words = data + bytes(7 - tail) + bytes([len(data) & 0xFF])
    for at in range(0, len(words), 8):
        word = int.from_bytes(words[at : at + 8], "little")
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3 ^ word)
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


def _sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0, v2 = (v0 + v1) & _U64, (v2 + v3) & _U64
    v1, v3 = _rotate(v1, 13) ^ v0, _rotate(v3, 16) ^ v2
    v0, v2 = (_rotate(v0, 32) + v3) & _U64, (v2 + v1) & _U64
    v3, v1 = _rotate(v3, 21) ^ v0, _rotate(v1, 17) ^ v2
    return v0, v1, _rotate(v2, 32), v3


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (64 - bits))) & _U64


def _forget_parent() -> None:
    for remembered in (me, proc_is_ours, _namespaces):
        remembered.cache_clear()


os.register_at_fork(after_in_child=_forget_parent)
