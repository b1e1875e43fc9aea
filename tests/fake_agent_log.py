"""Run the trials of the fake agent and print what each came to: mission, behaviour, outcomes, fates, place, `why`.

    python -m tests.fake_agent_log

Exits as the trials do. `--show FILE` only prints what trials wrote into a file before.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.laboratory import REPO
from tests.trials import table

TRIALS = "tests/acceptance/test_fake_agent.py"
HEAD = ("MISSION", "BEHAVIOUR", "OUTCOMES", "FATES", "PLACE", "WHY")


def run(log: Path) -> int:
    """Run the trials in the order in which they are written; the exit code of pytest."""
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", TRIALS]
    return subprocess.run(
        argv, cwd=REPO, env=os.environ | {"KRANZQ_AGENT_LOG": str(log)}, stdout=2, check=False
    ).returncode


def show(log: Path) -> None:
    """Print the table."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    sys.stdout.write(table([HEAD, *(line.split("\t") for line in lines)]))


def main() -> int:
    """Run and print, or only print."""
    if sys.argv[1:2] == ["--show"]:
        show(Path(sys.argv[2]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        code = run(log)
        show(log)
    return code


if __name__ == "__main__":
    sys.exit(main())
