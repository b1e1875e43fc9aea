"""Part `power`: the power goes at each instant of each verb; every state that a disk may then have is recovered.

A verb of the real program is recorded call by call. From the recording follow the states that POSIX and whole renames
allow (`power_disk`), all of an instant where they are few and a choice by the seed where they are not. Each is put on a
disk, the machine is started again, other processes recover, and the invariants of the other parts must hold.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.proof.asked import Asked, Result
from tests.proof.invariants import Stuck
from tests.proof.power_plug import confirm, why_not
from tests.proof.power_trial import Trials, Tried
from tests.proof.power_world import PowerWorld
from tests.proof.scenario import Scenario
from tests.proof.scenarios_files import FILES
from tests.proof.scenarios_work import WORK

MOST_AT_AN_INSTANT = 32
MOST_OF_A_VERB = 400
SHORT, TRIAL_S = 12, 0.25
"""So many states of a verb are tried where time is short; more where there is time for them."""
SURE = 10
"""So many states are tried however slow the machine is."""
STEPS = "work exec"
"""A claim and an end in one verb: after a cut in between it is as after a claim. Each is tried by itself."""
REAL = "real disk"
REAL_S = 60.0
"""So long the real disk is worked on."""
_MEMORY = Path("/dev/shm")
_MOST_FAULTS = 40


def run(asked: Asked) -> Result:
    """Cut the power everywhere, or where the seed says."""
    sweep = _Sweep(asked)
    sweep.run()
    tried = sweep.tried
    forgiven = sum((one.forgiven for one in tried), Counter[str]())
    faults = [fault for one in tried for fault in one.faults]
    counts: dict[str, float | str] = {
        "verbs recorded": len(tried),
        "instants at which the power went": sum(one.instants for one in tried),
        "distinct states of the disk": sum(one.states for one in tried),
        "recovered and examined": sum(one.tried for one in tried),
        "verbs of which that is every state": sum(one.all and one.tried == one.states for one in tried),
        "worlds that recovery made of them": sum(one.settled for one in tried),
        **{f"  {name}": count for name, count in sorted(forgiven.items())},
        "lost, doubled, stuck or wrong": len(faults),
    }
    if asked.seconds is None and asked.wants(REAL):
        more, missed = _on_a_real_disk(asked)
        counts |= more
        faults += missed
    rows: list[dict[str, float | str]] = [
        {"verb": one.scenario, "instants": one.instants, "states": one.states, "examined": one.tried} for one in tried
    ]
    return Result(counts, faults[:_MOST_FAULTS], {"states by verb": rows})


def _on_a_real_disk(asked: Asked) -> tuple[dict[str, float | str], list[str]]:
    """The same question to a real ext4; and to one that never flushes, which must lose something."""
    if reason := why_not():
        return {REAL: f"not tried: {reason}"}, []
    with tempfile.TemporaryDirectory(prefix="kranzq-plug-", dir=_fast(asked.folder)) as folder:
        found = confirm(Path(folder, "flushed"), asked.seed, REAL_S)
        never = confirm(Path(folder, "never"), asked.seed, REAL_S / 10, options="barrier=0", most=5)
    counts: dict[str, float | str] = {
        f"{REAL}: cuts": found.cuts,
        "  entries reported before them": found.reported,
        "  ends reported before them": found.ended,
        "  blocks that the disk forgot": found.forgot,
        "  lost or run again": len(found.faults),
        "  cuts that lost something without flushes": f"{never.damaged} of {never.cuts}",
    }
    blind = [] if never.damaged else ["a disk that was never flushed lost nothing: so nothing could have been found"]
    return counts, [*found.faults, *blind]


@dataclass
class _Sweep:
    """Who tries what, and what came of it."""

    asked: Asked
    tried: list[Tried] = field(default_factory=list)
    _left: deque[Scenario] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> None:
        """Try all of it, several scenarios at the same time."""
        self._until = None if self.asked.seconds is None else time.monotonic() + self.asked.seconds
        wanted = [one for one in (*FILES, *WORK) if one.name != STEPS and self.asked.wants(one.name)]
        if self._until is not None:
            random.Random(self.asked.seed).shuffle(wanted)
        self._left.extend(wanted)
        time_for = (self.asked.seconds or 0) * self.asked.jobs / TRIAL_S / max(len(wanted), 1)
        self._most = MOST_OF_A_VERB if self._until is None else max(SHORT, int(time_for))
        with tempfile.TemporaryDirectory(prefix="kranzq-power-", dir=_fast(self.asked.folder)) as folder:
            workers = [
                threading.Thread(target=self._work, args=(Path(folder, str(number)),))
                for number in range(self.asked.jobs)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()

    def _work(self, folder: Path) -> None:
        while self._is_time() or self._many() < SURE:
            with self._lock:
                if not self._left:
                    return
                scenario = self._left.popleft()
            one = Tried(scenario.name)
            with PowerWorld(folder) as world:
                try:
                    self._try(scenario, world, one)
                except Stuck as stuck:
                    one.faults.append(f"{scenario.name}: {stuck}")
                except Exception:  # noqa: BLE001 - the other scenarios tell something all the same
                    one.faults.append(f"{scenario.name}: {traceback.format_exc()[-1500:]}")
            with self._lock:
                self.tried.append(one)
                print(f"  {scenario.name:28} {one.tried:>6} of {one.states}, {len(one.faults)} faults", flush=True)
            shutil.rmtree(folder, ignore_errors=True)

    def _try(self, scenario: Scenario, world: PowerWorld, one: Tried) -> None:
        trials = Trials.of(scenario, world)
        found, one.all = trials.left(MOST_AT_AN_INSTANT, self.asked.seed)
        one.states, one.instants = len(found), len(trials.recording.events) + 1
        for number, left in enumerate(found[: self._most]):
            if not self._is_time() and self._many() + one.tried >= SURE:
                return
            faults: Sequence[str]
            try:
                faults = trials.attempt(left, number, one)
            except Exception:  # noqa: BLE001 - as above
                faults = [traceback.format_exc()[-1500:]]
            where = f"{scenario.name}, cut after event {left.instant}, state {number}"
            one.faults += [f"{where}: {fault}" for fault in faults]

    def _many(self) -> int:
        """How many states were tried of the verbs that are over."""
        return sum(one.tried for one in self.tried)

    def _is_time(self) -> bool:
        return self._until is None or time.monotonic() < self._until


def _fast(otherwise: Path) -> Path:
    """A folder in memory, where a sync costs nothing: what a sync is worth is the model's to say."""
    return _MEMORY if os.access(_MEMORY, os.W_OK) else otherwise
