"""Does a recorded process still live? Three answers, with evidence that a person can check.

Everything that frees a claim or a lock of somebody else rests on the answers given here. `process` knows what the
system shows and judges our own records, `kranz` reads and judges what kranz writes.
"""

from __future__ import annotations

from kranzq.liveness.kranz import (
    HolderRecord,
    judge_claim,
    judge_holder_record,
    kranz_token,
    suffix_k3,
    suffix_k4,
    token_of,
)
from kranzq.liveness.process import (
    Place,
    ProcessStat,
    boot_id,
    boot_time,
    identity_of,
    judge,
    machine_id,
    me,
    pid_max,
    place_of,
    proc_is_ours,
    read_stat,
    start_ticks,
)

__all__ = [
    "HolderRecord",
    "Place",
    "ProcessStat",
    "boot_id",
    "boot_time",
    "identity_of",
    "judge",
    "judge_claim",
    "judge_holder_record",
    "kranz_token",
    "machine_id",
    "me",
    "pid_max",
    "place_of",
    "proc_is_ours",
    "read_stat",
    "start_ticks",
    "suffix_k3",
    "suffix_k4",
    "token_of",
]
