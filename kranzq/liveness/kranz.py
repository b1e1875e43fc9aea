"""What kranz writes about processes: its identity token, the suffix of its claims, the record in its lock files.

The names and bytes are kranz's; the verdicts follow the same rules as for our own records, so nothing of a living kranz
is ever freed. Two generations of the suffix are read, the current one is written.
"""

from __future__ import annotations

import os
import re
import time

from kranzq.liveness.process import HAS_PROC, boot_id, boot_time, judge_here, pid_max, start_ticks
from kranzq.model.frozen import frozen
from kranzq.model.process import Judgement, Liveness, ProcessIdentity

_I32_MAX = 2**31 - 1
_WALL_SLACK = 2.0  # seconds: a start time in wall-clock seconds is an estimate, the clock is slewed meanwhile
_NUMBER = re.compile(r"\+?[0-9]{1,20}")
_U64 = 2**64 - 1


@frozen
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
            lines = [line.strip() for line in data.decode("utf-8").split("\n")]
        except UnicodeDecodeError:
            return None
        first, seconds, token, generation = (lines + [""] * 4)[:4]
        pid = _number(first)
        return cls(pid, _number(seconds), token, _number(generation)) if 0 < pid <= _I32_MAX else None

    def render(self) -> bytes:
        """The bytes as kranz writes them."""
        return f"{self.pid}\n{self.seconds}\n{self.token}\n{self.generation}\n".encode()


def kranz_token(pid: int) -> str | None:
    """The text by which kranz tells a process from a later one with its number; None when it cannot be read."""
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    if not HAS_PROC:
        return time.asctime(time.gmtime(ticks // 100))
    return f"{boot_id()}:{ticks}" if boot_id() else None


def token_of(process: ProcessIdentity) -> str:
    """The same of a process of this boot that is known: nothing is read. Empty where kranz would read none."""
    if not HAS_PROC:
        return time.asctime(time.gmtime(process.start_ticks // 100)) if process.start_ticks is not None else ""
    return f"{process.boot_id}:{process.start_ticks}" if process.boot_id and process.start_ticks is not None else ""


def suffix_k4(token: str) -> str:
    """The suffix of a claim's name as kranz writes it today."""
    import hashlib  # noqa: PLC0415 - with OpenSSL it costs 4 ms, and most verbs meet no claim

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
    seen = judge_here(pid, None)
    if seen.verdict is not Liveness.ALIVE:
        return seen
    token = kranz_token(pid)
    if token is None:
        # it may have ended since the look above; if not, it is hidden from us, and what exists is not gone
        return judge_here(pid, None)
    if suffix is not None:
        if suffix in {suffix_k4(token), suffix_k3(token)}:
            return Judgement(Liveness.ALIVE, f"process {pid} runs and its start matches the claim")
        return Judgement(Liveness.GONE, f"pid {pid} now belongs to another process: its start does not match the claim")
    if (late := _seconds_after(pid, claimed_at)) is not None:
        return Judgement(Liveness.GONE, f"pid {pid} now belongs to a process that started {late:.0f} s after the claim")
    return Judgement(Liveness.ALIVE, f"process {pid} runs, by its bare pid: the claim does not say when it started")


def judge_holder_record(data: bytes, changed_at: float) -> Judgement:
    """Whether the holder in one of kranz's lock files lives. What cannot be read is *unknown*, never *gone*.

    But for what was last changed, in wall-clock seconds, before this machine was started: a power cut leaves records
    empty, cut off or full of zeros, and whoever wrote them went with it.
    """
    record = HolderRecord.parse(data)
    if record is None:
        what = "does not begin with a process id" if data.strip() else "is empty"
        if changed_at + _WALL_SLACK < boot_time():
            return Judgement(Liveness.GONE, f"the lock record {what}, and is older than this start of the machine")
        return Judgement(Liveness.UNKNOWN, f"the lock record {what}")
    seen = judge_here(record.pid, None)
    if seen.verdict is not Liveness.ALIVE:
        return seen
    if not record.token:
        late = _seconds_after(record.pid, changed_at)
        if late is None:
            return seen
        evidence = f"pid {record.pid} now belongs to a process that started {late:.0f} s after the lock was written"
        return Judgement(Liveness.GONE, evidence)
    token = kranz_token(record.pid)
    if token is None or token == record.token:
        return judge_here(record.pid, None) if token is None else seen
    evidence = f"pid {record.pid} now belongs to another process ({token}, the holder was {record.token[:80]})"
    return Judgement(Liveness.GONE, evidence)


def _seconds_after(pid: int, wrote_at: float) -> float | None:
    """By how much a process began later than something was written; None when it did not, as far as can be told."""
    started = _wall_start(pid)
    return started - wrote_at if started is not None and started > wrote_at + _WALL_SLACK else None


def _wall_start(pid: int) -> float | None:
    ticks = start_ticks(pid)
    if ticks is None:
        return None
    return boot_time() + ticks / os.sysconf("SC_CLK_TCK") if HAS_PROC else ticks / 100


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


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
