"""The real program, in a laboratory's hands: another keeper, a backoff of an hour, a clock that is ahead.

    python -m tests.proof.program VERB...

`LAB_KEEPER` names the keeper's program, `LAB_LATER` the seconds by which the clock on the wall is ahead. The backoff
of what failed begins with an hour, so that nothing comes due while somebody looks, or with `LAB_BACKOFF` seconds.
"""

from __future__ import annotations

import os
import sys
import time

from kranzq.model import policy
from kranzq.runs import keepers

BACKOFF_S = 3600.0


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

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
