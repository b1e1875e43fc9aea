"""All commands, two at once, killed or told to stop anywhere, against the model: every file is where the page says.

`KRANZQ_MACHINE_STEPS` are the steps that are walked, `KRANZQ_MACHINE_SEED` where the walks begin (`random`: elsewhere
each time); `-s` shows them counted. The first fault ends a run and is told with all of its walk: one with kills comes
to something else when it is walked again, so Hypothesis may neither shorten nor repeat it.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase
from hypothesis.stateful import run_state_machine_as_test

from tests.machines.bench import Bench
from tests.machines.queue_machine import Names, Turns, Walk

pytestmark = [pytest.mark.crash, pytest.mark.race, pytest.mark.slow]
STEPS = int(os.environ.get("KRANZQ_MACHINE_STEPS", "600"))
SHARES = {Names: 0.65, Turns: 0.35}
SEED = os.environ.get("KRANZQ_MACHINE_SEED", "20261129")
"""Where the walks begin: always at one place, so that a change is judged by what it changed; `random` searches."""
_IN_ONE = 40
_MOST_SEEDS = 3
"""So many times more walks than should be enough: some of what is drawn has nothing to do, and is no step."""
_MOVED = 0.05
"""A walk among entries that hardly move would prove nothing; usually every fourth step moves or ends something."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A place for one checkout after the other, with the processes that work in them."""
    one = Bench(tmp_path)
    yield one
    one.close()


@pytest.mark.parametrize("machine", [Names, Turns])
@pytest.mark.timeout(300 + STEPS)
def test_every_file_is_where_the_page_and_the_model_say(machine: type[Walk], bench: Bench) -> None:
    """Whatever one or two type at once, and whoever is killed where: no entry is lost, doubled or unexplained."""
    machine.bench, machine.faults = bench, []
    machine.counts, machine.moved, machine.ended = Counter(), Counter(), Counter()
    wanted = max(1, round(STEPS * SHARES[machine]))
    seed = first = random.SystemRandom().randrange(2**32) if SEED == "random" else int(SEED)
    try:
        while machine.counts.total() < wanted and seed - first < _MOST_SEEDS * (1 + wanted // _IN_ONE):
            _walk(machine, seed)
            seed += 1
    finally:
        sys.stdout.write(f"\n{machine.__name__}: {machine.counts.total()} steps, seeds {first} to {seed}\n")
        for counted in (machine.counts, machine.moved, machine.ended):
            sys.stdout.write("  " + ", ".join(f"{what} {number}" for what, number in counted.most_common()) + "\n")
    assert machine.counts.total() >= wanted, "the walks ended early"
    changes = machine.moved.total() + machine.ended.total()
    assert changes >= _MOVED * machine.counts.total() or wanted < _IN_ONE, "hardly anything moved"


def _walk(machine: type[Walk], seed: int) -> None:
    """One walk; its fault fails the test."""
    once = hypothesis.settings(
        max_examples=1,
        stateful_step_count=_IN_ONE,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),
        database=None,
    )
    try:
        run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=once)
    except Exception:  # told below, where it is a fault of a walk
        if not machine.faults:
            raise
    if machine.faults:
        again = f"the same walk again: KRANZQ_MACHINE_SEED={seed} KRANZQ_MACHINE_STEPS=1"
        pytest.fail(f"{machine.faults[0]}\n{machine.__name__}, {again}", pytrace=False)
