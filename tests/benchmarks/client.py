"""One client that claims and finishes without a pause, as a process that has next to nothing to import.

    python -m tests.benchmarks.client floor|ours URL

It says `ready`; for each line with a number of seconds it claims and finishes for so long, and prints the milliseconds
of each claim with its end. It ends when nobody can write to it any more.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Callable
from typing import Any

from tests.benchmarks.floors.sql import floor_of


def without_a_pause(act: Callable[[], object], seconds: float) -> list[float]:
    """What each act took in milliseconds. The last one may end later: whoever is starved shows how long it waited."""
    waits, until = [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        act()
        waits.append((time.perf_counter() - began) * 1000)
    return waits


def main(who: str, url: str) -> None:
    """Claim and finish for as long as each line says."""
    with contextlib.ExitStack() as stack:
        act = _floor(url, stack) if who == "floor" else _ours(url, stack)
        act()
        print("ready", flush=True)
        for line in sys.stdin:
            print(*without_a_pause(act, float(line)), flush=True)


def _floor(url: str, stack: contextlib.ExitStack) -> Callable[[], object]:
    floor = floor_of(url)
    stack.callback(floor.close)
    return floor.claim_and_finish


def _ours(url: str, stack: contextlib.ExitStack) -> Callable[[], object]:
    work: Any = importlib.import_module("kranzq.work")  # the floor's starts without it
    items: Any = importlib.import_module("tests.benchmarks.items")
    store = stack.enter_context(work.open(url))
    return lambda: store.finish(items.claimed(store))


if __name__ == "__main__":
    main(*sys.argv[1:])
