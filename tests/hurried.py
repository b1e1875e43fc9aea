"""A program that runs kranzq in a hurry: the real thing, with pauses of milliseconds where it has seconds and hours.

    python -m tests.hurried VERB...

Two pauses are shortened. Backoff begins with 20 ms instead of 5 s and ends at 160 ms instead of 15 min; it doubles as
ever. And the keeper waits 20 ms instead of a second for a TERM of its own before it records an end other than 0.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kranzq.model import policy
from kranzq.runs import keepers

BACKOFF_FIRST_S, BACKOFF_MOST_S = 0.02, 0.16
PAUSE = "LATE_TERM = 1.0 "
SHORTER = "LATE_TERM = 0.02 "


def hurried_keeper(folder: Path) -> Path:
    """A copy of the keeper that waits for less; made once in a folder."""
    program = folder / "keeper.py"
    if not program.exists():
        text = Path(keepers.KEEPER_PROGRAM).read_text(encoding="utf-8")
        assert text.count(PAUSE) == 1, PAUSE
        temporary = folder / f"keeper.{os.getpid()}"
        temporary.write_text(text.replace(PAUSE, SHORTER), encoding="utf-8")
        temporary.rename(program)
    return program


def main() -> None:
    """Shorten the pauses and run the verb."""
    vars(policy).update(BACKOFF_FIRST_S=BACKOFF_FIRST_S, BACKOFF_MOST_S=BACKOFF_MOST_S)
    vars(keepers)["KEEPER_PROGRAM"] = str(hurried_keeper(Path(os.environ["HOME"])))
    from kranzq.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
