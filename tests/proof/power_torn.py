"""What a disk without a journal adds: the same states, with renames that are not whole.

    python -m tests.proof.power_torn [STATES]     so many states of each of some verbs; what recovery made of them

No promise is made for such a disk, so nothing here is a fault: the table tells what to expect of it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.proof.power_trial import Trials, Tried
from tests.proof.power_world import PowerWorld
from tests.proof.scenarios_files import FILES

VERBS = ("enqueue", "edit priority", "park", "unpark", "enqueue admits", "turn")
_KINDS = (
    ("one entry in two places", re.compile(r"lies in .* and in")),
    ("ran twice", re.compile(r"ran [0-9]+ times")),
    ("an entry lost, or in another state", re.compile(r"^entries of")),
    ("another record of its runs", re.compile(r"^runs of")),
    ("a file left behind", re.compile(r"^left behind")),
    ("a verb that failed", re.compile(r"^`")),
)


def main(most: int) -> None:
    """Try them and print the table."""
    print(f"{'verb':20} {'states':>7} {'tried':>6} {'as promised':>12}")
    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="kranzq-torn-", dir="/dev/shm") as folder:
        for scenario in [one for one in FILES if one.name in VERBS]:
            with PowerWorld(Path(folder, "w")) as world:
                trials = Trials.of(scenario, world)
                found, _ = trials.left(32, 1, torn=True)
                whole = 0
                for number, left in enumerate(found[:most]):
                    faults = trials.attempt(left, number, Tried(scenario.name))
                    whole += not faults
                    total.update({_kind(fault) for fault in faults})
                print(f"{scenario.name:20} {len(found):>7} {min(most, len(found)):>6} {whole:>12}", flush=True)
    for kind, count in total.most_common():
        print(f"  {kind:40} {count:>6}")


def _kind(fault: str) -> str:
    return next((name for name, pattern in _KINDS if pattern.search(fault)), fault[:60])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
