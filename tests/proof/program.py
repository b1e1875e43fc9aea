"""The real program, in a laboratory's hands: another keeper, a backoff of an hour, a clock that is ahead.

    python -m tests.proof.program VERB...

`LAB_KEEPER` names the keeper's program, `LAB_LATER` the seconds by which the clock on the wall is ahead. The backoff
of what failed begins with an hour, so that nothing comes due while somebody looks, or with `LAB_BACKOFF` seconds.
`LAB_ATTACH` names a file for its pid: it begins when somebody traces it.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from kranzq.model import policy
from kranzq.runs import keepers

BACKOFF_S = 3600.0
PATIENCE_S = 30.0


def _await_tracer(told: Path) -> None:
    hidden = told.with_suffix(".new")
    hidden.write_text(str(os.getpid()))
    hidden.rename(told)
    until = time.monotonic() + PATIENCE_S
    while "\nTracerPid:\t0\n" in Path("/proc/self/status").read_text() and time.monotonic() < until:
        time.sleep(0.001)


def main() -> None:
    """Arrange it and run the verb."""
    backoff = float(os.environ.get("LAB_BACKOFF", BACKOFF_S))
    vars(policy).update(BACKOFF_FIRST_S=backoff, BACKOFF_MOST_S=backoff)
    if keeper := os.environ.get("LAB_KEEPER"):
        vars(keepers)["KEEPER_PROGRAM"] = keeper
    if later := float(os.environ.get("LAB_LATER", "0")):
        now, now_ns = time.time, time.time_ns
        vars(time).update(time=lambda: now() + later, time_ns=lambda: now_ns() + int(later * 1e9))
    from kranzq.cli.main import run

    if attach := os.environ.get("LAB_ATTACH"):
        _await_tracer(Path(attach))
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
