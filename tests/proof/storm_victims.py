"""Finds those whom a storm strikes: the processes of one checkout, by what they are."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Victim:
    """One process: its pid here and in its own pid namespace, its start in ticks, that namespace, and what it is."""

    pid: int
    inner: int
    ticks: int
    namespace: str
    kind: str

    def signal(self, number: int) -> bool:
        """Signal exactly this process; False when it is gone."""
        with contextlib.suppress(OSError):
            handle = os.pidfd_open(self.pid)
            try:
                if _ticks(self.pid) == self.ticks:
                    signal.pidfd_send_signal(handle, number)
                    return True
            finally:
                os.close(handle)
        return False


def victims(mark: str) -> list[Victim]:
    """All living processes that bear the mark in their environment, and that we know what to call."""
    return [one for pid in _pids() if (one := victim(pid, mark)) is not None]


def victim(pid: int, mark: str) -> Victim | None:
    """That process, if it is one of ours and of a known kind."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        kind = _kind(pid, words)
        if kind is None or mark.encode() not in Path(f"/proc/{pid}/environ").read_bytes():
            return None
        status = Path(f"/proc/{pid}/status").read_text()
        inner = int(status.partition("\nNSpid:")[2].split("\n", 1)[0].split()[-1])
        return Victim(pid, inner, _ticks(pid), os.readlink(f"/proc/{pid}/ns/pid"), kind)
    except (OSError, ValueError, IndexError):
        return None


def children(pid: int) -> list[int]:
    """The children of all its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            found += [int(one) for one in Path(f"/proc/{pid}/task/{task}/children").read_text().split()]
    return found


def _kind(pid: int, words: list[str]) -> str | None:
    text = " ".join(words)
    if os.path.basename(words[0]) in {"unshare", "sh"} and "drain" in words:
        return "namespace"  # with either of them goes all that is in it
    if "tests.forking" in text:
        return _kind_of_fork(pid)
    if "keeper.py" in text:
        return "keeper" if children(pid) else "idle keeper"
    if "storm_mission.py" in text:
        return "mission"
    if words[-2:] == ["storm", ""]:
        return "leftover"
    if "kranzq" in words and "daemon" in words:
        return "daemon"
    if "kranzq" in words and "drain" in words:
        return "drain"
    return None


def _kind_of_fork(pid: int) -> str | None:
    """A verb that was forked works in a directory with the name of what it does."""
    name = os.path.basename(os.readlink(f"/proc/{pid}/cwd"))
    return {"enqueue": "enqueue", "recover": "recover", "amend": "other verb"}.get(name.partition("-")[0])


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
