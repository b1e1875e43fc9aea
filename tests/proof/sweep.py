"""Trials of many scenarios by some workers: who does what, in which order, for how long, and what was found.

A worker takes a scenario, prepares its world, learns the verb, records its calls, and then makes the trials that a part
derives from them. With a limit of time the seed chooses scenarios and trials; without one everything is tried.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from kranzq.progress import advance
from tests.proof import tracing
from tests.proof.asked import Asked, Result
from tests.proof.invariants import Learned, Stuck, learn
from tests.proof.scenario import Scenario, World
from tests.proof.scenarios_files import FILES
from tests.proof.scenarios_work import WORK

AT_ONCE, TRIAL_S = 9, 1.5
"""So many trials of a scenario are made before the next one, where time is short; more where there is time for them."""
SURE = 4
"""So many trials are made of one scenario of each kind, however slow the machine is."""


@dataclass(frozen=True)
class Trial:
    """One fault at one point. `how` is the part's own word for what happens there."""

    point: tracing.Point
    how: str = ""

    @property
    def label(self) -> str:
        """By which it is asked for again."""
        return f"{self.point.label}:{self.how}" if self.how else self.point.label


@dataclass
class Found:
    """What came of one trial; one that did not hit its point tells nothing."""

    hit: bool
    faults: Sequence[str] = ()
    kind: str = ""
    """A word by which a part counts it."""


@dataclass
class Tally:
    """What came of all of them."""

    recorded: int = 0
    tried: int = 0
    hit: set[str] = field(default_factory=set)
    scenarios: set[str] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    by_call: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


Deriving = Callable[[Scenario, Sequence[tracing.Point]], list[Trial]]
Trying = Callable[[World, Scenario, Learned, Trial], Found]


class Sweep:
    """All trials of one part."""

    def __init__(self, asked: Asked, derive: Deriving, attempt: Trying) -> None:
        self.asked = asked
        self.tally = Tally()
        self._derive = derive
        self._attempt = attempt
        self._choice = random.Random(asked.seed)
        self._until = None if asked.seconds is None else time.monotonic() + asked.seconds
        self._lock = threading.Lock()
        self._sure: set[str] = set()
        chosen = self._chosen()
        self._left = deque(chosen)
        self._all = len(self._left)
        time_for = (asked.seconds or 0) * asked.jobs / TRIAL_S / max(len(chosen), 1)
        self._portion = max(AT_ONCE, int(time_for))

    def run(self) -> Tally:
        """Make them, with as many workers as may work at the same time."""
        workers = [threading.Thread(target=self._work, args=(number,)) for number in range(self.asked.jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return self.tally

    def _chosen(self) -> list[Scenario]:
        """The scenarios in their order; where time is short in another, with one of each kind first."""
        wanted = [one for one in (*FILES, *WORK) if not self.asked.only or self._may_be_meant(one)]
        if self._until is None:
            return wanted
        self._choice.shuffle(wanted)
        first = list({(one.kind, one.turn): one for one in wanted}.values())
        self._sure = {one.name for one in first}
        return [*first, *(one for one in wanted if one not in first)]

    def _may_be_meant(self, scenario: Scenario) -> bool:
        return any(
            part.partition("@")[0] == scenario.name if "@" in part else part in scenario.name
            for part in self.asked.only
        )

    def _is_over(self) -> bool:
        return self._until is not None and time.monotonic() > self._until

    def _work(self, number: int) -> None:
        folder = self.asked.folder / f"w{number}"
        folder.mkdir(exist_ok=True)
        with World(folder) as world:
            while True:
                with self._lock:
                    if not self._left or (self._is_over() and self._left[0].name not in self._sure):
                        break
                    advance("verbs begun", self._all - len(self._left), self._all)
                    scenario = self._left.popleft()
                try:
                    self._try_all(world, scenario)
                except Stuck as fault:
                    self._note(f"{scenario.name}: {fault}")
                except Exception:  # noqa: BLE001 - a broken trial is told like a finding, and the others go on
                    self._note(f"{scenario.name}: {traceback.format_exc()}")
            world.clear()

    def _try_all(self, world: World, scenario: Scenario) -> None:
        learned: list[Learned] = []

        def trials() -> list[Trial]:
            learned.append(learn(scenario, world))
            points = [*record(world, scenario, tracing.PROGRAM)]
            if scenario.turn:
                points += record(world, scenario, tracing.KEEPER)
            return self._derive(scenario, points)

        self.try_these(world, scenario, trials, lambda world, trial: self._attempt(world, scenario, learned[0], trial))

    def try_these(
        self,
        world: World,
        scenario: Scenario,
        derive: Callable[[], Sequence[Trial]],
        attempt: Callable[[World, Trial], Found],
    ) -> None:
        """Make the trials of one scenario, or as many of them as there is time for."""
        scenario.prepare(world)
        every = derive()
        trials = [one for one in every if self.asked.wants(f"{scenario.name}@{one.label}")]
        if self._until is not None:
            trials = random.Random(f"{self.asked.seed} {scenario.name}").sample(trials, min(self._portion, len(trials)))
        hit = faulty = 0
        began = time.monotonic()
        for number, trial in enumerate(trials):
            if self._is_over() and not (number < SURE and scenario.name in self._sure):
                break
            found = self._one(partial(attempt, world, trial))
            self._count(scenario, trial, found)
            hit += found.hit
            faulty += bool(found.faults)
        points = len({one.point.label for one in every})
        with self._lock:
            self.tally.recorded += points
            self.tally.scenarios.add(scenario.name)
            counts = f"{points:4} points, {hit:4} of {len(trials):4} hit, {faulty:3} bad"
            print(f"  {scenario.name:26} {counts}, {time.monotonic() - began:5.0f} s", flush=True)

    @staticmethod
    def _one(attempt: Callable[[], Found]) -> Found:
        try:
            return attempt()
        except Stuck as fault:
            return Found(hit=True, faults=[str(fault)], kind="stuck")
        except AssertionError as fault:
            return Found(hit=True, faults=[f"stuck: {fault}"], kind="stuck")
        except subprocess.TimeoutExpired as late:
            return Found(hit=True, faults=[f"it did not end in {late.timeout:g} s"], kind="stuck")

    def _count(self, scenario: Scenario, trial: Trial, found: Found) -> None:
        name = f"{scenario.name}@{trial.label}"
        with self._lock:
            self.tally.tried += 1
            advance("verbs begun", self._all - len(self._left), self._all)
            if found.hit:
                self.tally.hit.add(name)
                self.tally.by_call[trial.point.role, trial.point.name] += 1
            if found.kind:
                self.tally.kinds[found.kind] += 1
        for fault in found.faults:
            self._note(f"{name}: {fault}")

    def _note(self, fault: str) -> None:
        with self._lock:
            self.tally.faults.append(fault)
        print(f"  FOUND  {fault}", flush=True)


def record(world: World, scenario: Scenario, role: str) -> list[tracing.Point]:
    """The calls of one whole run of a verb that change something, by the process of a role."""
    scenario.put_back(world)
    traced = tracing.run(world, scenario.argv, None, role=role)
    scenario.end(world)
    world.await_quiet()
    if traced.code != scenario.code:
        raise Stuck(f"under strace it ends with {traced.code}: {traced.out}{traced.err}")
    return traced.points


_SORTS = {
    "lost or half done": ("neither as before", "though it was reported", "though its entry is there"),
    "doubled": ("one entry lies in",),
    "out of order": ("in the queue, and now it is behind it",),
    "run too often or never": (" times, not ",),
    "two missions in one tree": ("two missions met",),
    "left behind": ("left behind",),
}
"""What a finding is, by words of its sentence."""


def sorts(tally: Tally) -> dict[str, float | str]:
    """How many findings there are of each sort; what is none of them is *wrong in another way*."""
    counts = {sort: sum(any(word in one for word in words) for one in tally.faults) for sort, words in _SORTS.items()}
    stuck = tally.kinds["stuck"]
    others = sum(not any(word in one for words in _SORTS.values() for word in words) for one in tally.faults) - stuck
    return {**counts, "stuck": stuck, "wrong in another way": max(others, 0)}


def result(tally: Tally, counts: dict[str, float | str], part: str) -> Result:
    """What the part answers: its counts, and the calls by role and name."""
    rows: list[dict[str, float | str]] = [
        {"process": role, "call": name, "hit": count}
        for (role, name), count in sorted(tally.by_call.items(), key=lambda one: -one[1])
    ]
    faults = [f"{fault}  [scripts/lab {part} --only '{fault.partition(': ')[0]}']" for fault in tally.faults]
    return Result(counts, faults, {"Calls": rows})
