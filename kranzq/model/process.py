"""Who a process is, so that it can be recognised later: a pid alone is only a label that is given out again.

A pid means something only together with its start time, the boot, the machine and the namespaces in which it was seen.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from kranzq.model.frozen import frozen


class Liveness(enum.Enum):
    """What can be said of a recorded process. Only GONE frees at once; UNKNOWN waits for the backstop."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@frozen
class Judgement:
    """A verdict and the evidence for it, one sentence without a full stop that a person can check."""

    verdict: Liveness
    evidence: str


@frozen
class ProcessIdentity:
    """One process, for ever.

    `start_ticks` is field 22 of /proc/PID/stat (clock ticks since boot); `pid_ns` and `time_ns` are the texts of the
    links below /proc/PID/ns (empty where there are none).
    """

    pid: int
    start_ticks: int | None
    boot_id: str
    machine_id: str
    pid_ns: str
    time_ns: str

    def to_json(self) -> dict[str, object]:
        """The form in which run.json, .busy.json and .daemon.json keep it."""
        return {
            "pid": self.pid,
            "startTicks": self.start_ticks,
            "bootId": self.boot_id,
            "machineId": self.machine_id,
            "pidNs": self.pid_ns,
            "timeNs": self.time_ns,
        }

    @classmethod
    def from_json(cls, value: object) -> ProcessIdentity | None:
        """The identity in a record, or None when it is none: a record of strangers is never believed in part."""
        if not isinstance(value, Mapping):
            return None
        pid, ticks = value.get("pid"), value.get("startTicks")
        texts = [value.get(key) for key in ("bootId", "machineId", "pidNs", "timeNs")]
        if type(pid) is not int or pid < 1 or not (ticks is None or (type(ticks) is int and ticks >= 0)):
            return None
        boot, machine, pid_ns, time_ns = (text if isinstance(text, str) else None for text in texts)
        if boot is None or machine is None or pid_ns is None or time_ns is None:
            return None
        return cls(pid, ticks, boot, machine, pid_ns, time_ns)
