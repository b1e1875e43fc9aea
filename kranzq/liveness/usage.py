"""What a tree of processes uses: CPU time, memory, how many there are. Read from /proc; a look, never a proof."""

from __future__ import annotations

import os

from kranzq.liveness.process import HAS_PROC, proc_is_ours
from kranzq.model.frozen import frozen

_PARENT, _CPU, _WAITED_FOR, _RESIDENT = 1, slice(11, 13), slice(13, 15), 21
"""Fields of /proc/PID/stat behind the name: proc_pid_stat(5) counts three more."""


@frozen
class Usage:
    """What the descendants of one process use. What several of them share counts for each of them."""

    processes: int
    cpu_s: float
    """CPU time in seconds, also of those that have ended and were waited for."""
    memory: int
    """Resident memory in bytes."""


def usage_below(pid: int) -> Usage | None:
    """What all that descends from `pid` uses, itself left out; None where that cannot be seen."""
    if not HAS_PROC or not proc_is_ours():
        return None
    table = {int(name): fields for name in os.listdir("/proc") if name.isdigit() and (fields := _fields(name))}
    if pid not in table:
        return None
    children: dict[int, list[int]] = {}
    for one, fields in table.items():
        children.setdefault(fields[_PARENT], []).append(one)
    found: set[int] = set()
    ahead = [pid]
    while ahead:
        new = [child for child in children.get(ahead.pop(), ()) if child not in found]
        found.update(new)
        ahead += new
    ticks = sum(table[pid][_WAITED_FOR]) + sum(sum(table[one][_CPU]) + sum(table[one][_WAITED_FOR]) for one in found)
    pages = sum(table[one][_RESIDENT] for one in found)
    return Usage(len(found), ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))


def _fields(name: str) -> list[int] | None:
    """The numbers of a process, None for one that is gone or a zombie."""
    try:
        with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
            text = file.read(4096)
        words = text[text.rfind(b")") + 2 :].split()
        return None if words[0] == b"Z" else [0, *map(int, words[1 : _RESIDENT + 1])]
    except (OSError, ValueError, IndexError):
        return None
