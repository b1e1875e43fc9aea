"""The real program after the power is back: another boot of the same machine, which began a moment ago.

    python -m tests.proof.power_boot VERB...

`LAB_BOOT` is the boot's id, a colon, and when it began, in seconds of the wall clock. What was there before is older.
The machine has one name over all its boots, on whatever machine this runs. `LAB_KILL` is a point of
`tests.crash.killed` at which it kills itself.
"""

from __future__ import annotations

import os
import sys
import time
from types import SimpleNamespace

from kranzq.liveness import process
from tests.crash import killed
from tests.proof import program

_BOOT_ID, _MACHINE_ID = "/proc/sys/kernel/random/boot_id", "/etc/machine-id"


def main() -> None:
    """Be of that boot and run the verb."""
    boot, _, began = os.environ["LAB_BOOT"].partition(":")
    first_line, now = process._first_line, time.time
    shown = {_BOOT_ID: boot, _MACHINE_ID: "0" * 32}
    clock = SimpleNamespace(
        time=time.time, CLOCK_BOOTTIME=time.CLOCK_BOOTTIME, clock_gettime=lambda _: now() - float(began)
    )
    vars(process).update(_first_line=lambda path: shown.get(path) or first_line(path), time=clock)
    for remembered in (process.boot_id, process.machine_id, process.me):
        remembered.cache_clear()
    if point := os.environ.get("LAB_KILL"):
        sys.argv.insert(1, point)
        killed.main()
    program.main()


if __name__ == "__main__":
    main()
