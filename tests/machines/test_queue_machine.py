"""All commands, two at once and killed anywhere, against the model: every file is where the page says.

`KRANZQ_MACHINE_STEPS` are the steps that are walked, `KRANZQ_MACHINE_SEED` walks the same ones again; `-s` shows them
counted.
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
STEPS = int(os.environ.get("KRANZQ_MACHINE_STEPS", "2500"))
SHARES = {Names: 0.6, Turns: 0.4}
SEED = os.environ.get("KRANZQ_MACHINE_SEED")
_IN_ONE = 40


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A place for one checkout after the other, with the processes that work in them."""
    one = Bench(tmp_path)
    yield one
    one.close()


@pytest.mark.parametrize("machine", [Names, Turns])
@pytest.mark.timeout(120 + STEPS)
def test_every_file_is_where_the_page_and_the_model_say(machine: type[Walk], bench: Bench) -> None:
    """Whatever one or two type at once, and whoever is killed where: no entry is lost, doubled or unexplained."""
    machine.bench, machine.faults = bench, []
    machine.counts, machine.moved, machine.ended = Counter(), Counter(), Counter()
    examples = max(1, round(STEPS * SHARES[machine] / _IN_ONE))
    seed = int(SEED) if SEED is not None else random.SystemRandom().randrange(2**32)
    walk = hypothesis.settings(
        max_examples=examples,
        stateful_step_count=_IN_ONE,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # a walk with kills is not made shorter by walking it again
        database=None,
    )
    try:
        run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=walk)
    except hypothesis.errors.Flaky as flaky:  # processes and clocks are no part of what is drawn
        sys.stdout.write(f"\nended early: {flaky}")
    finally:
        sys.stdout.write(f"\n{machine.__name__}: {machine.counts.total()} steps, seed {seed}\n")
        for counted in (machine.counts, machine.moved, machine.ended):
            sys.stdout.write("  " + ", ".join(f"{what} {number}" for what, number in counted.most_common()) + "\n")
    assert not machine.faults, machine.faults[0]
    assert machine.counts.total() > 0
