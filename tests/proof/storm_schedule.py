"""What happens in a storm and when: drawn beforehand from a seed, so that a storm can be had again."""

from __future__ import annotations

import random
from dataclasses import dataclass

KILLS = {
    "daemon": 18,
    "drain": 16,
    "keeper": 26,
    "idle keeper": 4,
    "namespace": 5,
    "enqueue": 16,
    "recover": 10,
    "other verb": 8,
    "mission": 6,
}
STOPS = {"daemon": 4, "drain": 4, "keeper": 4, "enqueue": 4, "recover": 2, "namespace": 2, "mission": 1}
TERMS = {"daemon": 3, "drain": 3, "keeper": 2, "mission": 2}
STOPPED_S = (0.1, 0.3, 0.6, 1.0, 1.5, 2.5, 7.0)
"""The longest is more than anybody waits for a change of names."""
STEPS_S = (0.0, 1.0, -1.0, 40.0, -40.0, 3_600.0, -3_600.0, 7_300.0, -7_300.0)
DOWN_S = (0.0, 0.0, 0.5, 3.0, 12.0)
"""How long a server is away, beside what its start takes. The last, in long rounds, is longer than any call waits."""
DISKS = {"full": 3, "no inodes": 2, "read-only": 3, "read-only whole": 1}


@dataclass(frozen=True, order=True)
class Act:
    """One thing done to those who work: when (seconds from the beginning), to which kind, and for how long."""

    at: float
    what: str
    kind: str
    seconds: float = 0.0
    die: float = 0.0
    """Chooses among those who are there: 0 to 1."""
    value: float = 0.0
    """Seconds of a step of the clock; else where in the life of its victim it strikes: 0 to 1."""


def schedule(seed: int, seconds: float, kills_per_second: float = 2.3) -> list[Act]:
    """All acts of a storm in their order. Troubles of the disk never overlap, and leave time to work between them."""
    dice = random.Random(f"storm {seed}")
    acts = [
        Act(at, "kill", _drawn(dice, KILLS), die=dice.random(), value=dice.random())
        for at in _times(dice, seconds, 1 / kills_per_second)
    ]
    acts += [
        Act(at, "stop", _drawn(dice, STOPS), dice.choice(STOPPED_S), dice.random(), dice.random())
        for at in _times(dice, seconds, 3.0)
    ]
    acts += [
        Act(at, "term", _drawn(dice, TERMS), die=dice.random(), value=dice.random())
        for at in _times(dice, seconds, 7.0)
    ]
    acts += [Act(at, "step", "clock", value=dice.choice(STEPS_S)) for at in _times(dice, seconds, 6.0)]
    free = 2.0
    for at in _times(dice, seconds, 9.0):
        act = Act(at, "disk", _drawn(dice, DISKS), dice.uniform(0.3, 2.5))
        if at >= free and at + act.seconds < seconds:
            acts.append(act)
            free = at + act.seconds + 3.0
    return sorted(acts)


def schedule_work(seed: int, seconds: float, *, has_server: bool) -> list[Act]:
    """All acts of a storm over a work queue in their order."""
    dice = random.Random(f"work storm {seed}")
    acts = [Act(at, "kill", "agent", die=dice.random()) for at in _times(dice, seconds, 0.6)]
    acts += [Act(at, "kill", "call") for at in _times(dice, seconds, 1.0)]
    acts += [Act(at, "stop", "agent", die=dice.random()) for at in _times(dice, seconds, 2.0)]
    acts += [Act(at, "step", "clock", value=dice.choice(STEPS_S)) for at in _times(dice, seconds, 5.0)]
    if has_server:
        kinds = ("postmaster killed", "stopped at once")
        acts += [
            Act(at, "server", dice.choice(kinds), seconds=dice.choice(DOWN_S[: None if seconds > 30 else -1]))
            for at in _times(dice, seconds, 7.0)
        ]
    return sorted(acts)


def _times(dice: random.Random, seconds: float, mean: float) -> list[float]:
    times, at = [], dice.expovariate(1 / mean)
    while at < seconds:
        times.append(at)
        at += dice.expovariate(1 / mean)
    return times


def _drawn(dice: random.Random, weights: dict[str, int]) -> str:
    return dice.choices(list(weights), list(weights.values()))[0]
