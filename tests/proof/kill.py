"""Part `kill`: the real program is killed at each call by which it changes something; another process recovers.

The calls come from a recorded run. A call at which a process is killed does not happen: killed *after* a call is killed
at the next one. In a turn the dispatcher and the keeper are each killed at each of their calls.

After every other kill the same is asked for once more, as a person or a hook would do; with an odd seed in place of an
even one, after those in between. So the two together try each point both ways.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.proof import tracing
from tests.proof.asked import Asked, Result
from tests.proof.faulty import Faulty
from tests.proof.invariants import Learned, judge, settle
from tests.proof.scenario import Scenario, World
from tests.proof.sweep import Found, Sweep, Trial, result, sorts


def run(asked: Asked) -> Result:
    """Kill everywhere, or where the seed says."""
    faulty = Faulty.made(asked.folder)

    def attempt(world: World, scenario: Scenario, learned: Learned, trial: Trial) -> Found:
        asks_again = (trial.point.ordinal + len(trial.point.name) + asked.seed) % 2 == 0
        return _kill(world, scenario, learned, trial, faulty, asks_again=asks_again)

    tally = Sweep(asked, _derive, attempt).run()
    counts: dict[str, float | str] = {
        "scenarios": len(tally.scenarios),
        "points in recorded runs": tally.recorded,
        "points tried": tally.tried,
        "distinct points killed at": len(tally.hit),
        "  killed before it reported": tally.kinds["silent"],
        "  killed after it reported": tally.kinds["reported"],
        "not hit (the run survived)": tally.tried - len(tally.hit),
        **sorts(tally),
    }
    return result(tally, counts, "kill")


def _derive(scenario: Scenario, points: Sequence[tracing.Point]) -> list[Trial]:
    del scenario
    return [Trial(point) for point in points]


def _kill(
    world: World, scenario: Scenario, learned: Learned, trial: Trial, faulty: Faulty, *, asks_again: bool
) -> Found:
    point = trial.point
    scenario.put_back(world)
    if point.name in tracing.OPENS:
        traced = faulty.run(world, scenario.argv, point, "kill")
        hit = traced.was_hit
    else:
        fault = tracing.Fault(point.role, point.name, point.at)
        traced = tracing.run(world, scenario.argv, fault, role=_process(point))
        hit = traced.was_hit
    scenario.end(world)
    if not hit:
        return Found(hit=False)
    again = scenario.again is not None and asks_again
    found = settle(scenario, world, again=again)
    reported = learned.has_reported(traced.out)
    faults = judge(scenario, learned, found, reported=reported, again=again, keeper=point.role == tracing.KEEPER)
    return Found(True, faults, "reported" if reported else "silent")


def _process(point: tracing.Point) -> str:
    return tracing.KEEPER if point.role == tracing.KEEPER else tracing.PROGRAM
