"""One state that a power cut left, put on a disk and recovered by other processes; and what is wrong with it then.

Every state is recovered by itself. What lies there then is mostly the same, for recovery clears away what the states
differ by; so only where it is new is more asked of it: one more mission is queued, and everything is run.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.proof.invariants import DRAINED, LATER_S, RECOVERED, Learned, Pictures, Stuck, settle
from tests.proof.pictures import PROBE, Picture, look
from tests.proof.power_judging import faults_of, learn, promised
from tests.proof.power_recording import Recording
from tests.proof.power_states import Left, all_left
from tests.proof.power_world import PowerWorld
from tests.proof.scenario import Scenario, nothing

_OF_TRIAL = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(:[0-9]+)?|"
    rb'"(inode|bornNs|pid|startTicks)": [0-9]+'
)
"""What differs between trials and decides nothing."""
_HINTS = frozenset({".seq", ".mutate.lock", ".repo.busy.lock", ".repo.busy.mission"})
"""Small files of which any damage is the same."""
_EACH_WAY = 12
"""Of so many states one is recovered by the next turn itself instead of `recover`."""


@dataclass
class Tried:
    """What came of the states of one scenario."""

    scenario: str
    states: int = 0
    all: bool = True
    """Whether these are all states that a cut may leave."""
    instants: int = 0
    tried: int = 0
    settled: int = 0
    """So many different worlds recovery made of them."""
    forgiven: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


@dataclass
class Trials:
    """A scenario that was recorded, and all that is known of it."""

    scenario: Scenario
    world: PowerWorld
    recording: Recording
    learned: Learned | None
    turned: Learned | None
    """The same, recovered by the next turn. One of both is known at least."""
    known: dict[bytes, Picture] = field(default_factory=dict)

    @classmethod
    def of(cls, scenario: Scenario, world: PowerWorld) -> Trials:
        """Prepare a world, learn the verb and record it."""
        if scenario.begin is not nothing:
            scenario = replace(scenario, turn=True)  # a turn is under way beside it
        scenario.prepare(world)
        learned = None if scenario.begin is not nothing else learn(replace(scenario, turn=False), world)
        turned = learn(scenario, world) if scenario.turn else None
        world.put_back()
        recording = world.record(scenario)
        if recording.code != scenario.code:
            raise Stuck(f"{scenario.name}: exit {recording.code} under strace: {recording.said[-500:]}")
        return cls(scenario, world, recording, learned, turned)

    def left(self, most: int, seed: int, *, torn: bool = False) -> tuple[list[Left], bool]:
        """The states, in an order that the seed makes; and whether these are all."""
        disk, events = self.recording.disk, self.recording.events
        found, complete = all_left(disk, events, most=most, seed=seed, torn=torn)
        random.Random(seed).shuffle(found)
        return found, complete

    def attempt(self, left: Left, number: int, tried: Tried) -> Sequence[str]:
        """Recover one state; what is wrong with it."""
        self.world.put_left(self.recording, left)
        by_turn = self.learned is None or (self.turned is not None and number % _EACH_WAY == 0)
        learned = self.turned if by_turn else self.learned
        assert learned is not None
        if self.scenario.begin is not nothing:
            self.world.release()
        facts = promised(self.recording, left, learned)
        try:
            with self.world.started_again():
                found = settle(self.scenario, self.world, again=False) if by_turn else self._settled()
            return faults_of(self.scenario, learned, found, self.world, facts)
        except Stuck as stuck:
            return [str(stuck)]
        finally:
            tried.tried += 1
            tried.forgiven += facts.forgiven
            tried.settled = len(self.known)

    def _settled(self) -> Pictures:
        """Recover it, and where what lies there then is new: do more."""
        world, kind = self.world, self.scenario.kind
        if kind == "sql":
            _must(world, "work", "recover")
        elif world.queue.exists():
            _must(world, "recover", "--yes", later=True)
        recovered = look(world, kind)
        key = repr(recovered).encode() if kind == "sql" else _digest(world)
        if key not in self.known:
            if kind == "sql":
                _must(world, "work", "enqueue", "--title", "z", "--payload", "z", "--id", PROBE)
            else:
                _must(world, "enqueue", PROBE, *world.mission(PROBE))
                _must(world, "drain", codes=DRAINED)
                world.await_quiet()
            self.known[key] = look(world, kind)
        return Pictures(recovered, self.known[key])


def _must(world: PowerWorld, *argv: str, codes: frozenset[int] = RECOVERED, later: bool = False) -> None:
    try:
        done = world.run(*argv, code=None, env={"LAB_LATER": LATER_S} if later else None)
    except subprocess.TimeoutExpired as late:
        raise Stuck(f"`{' '.join(argv[:2])}` did not end in {late.timeout:g} s") from late
    if done.returncode not in codes:
        raise Stuck(
            f"`{' '.join(argv[:2])}` after it: exit {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}"
        )


def _digest(world: PowerWorld) -> bytes:
    """What lies there, without what is of the moment, and without the ways in which a file may be damaged."""
    sign = hashlib.sha256()
    for path in sorted(_files(world)):
        data = _gist(path.name, path.read_bytes()) if path.is_file() else b"/"
        sign.update(f"{path.relative_to(world.folder)}\0{len(data)}\0".encode() + data)
    return sign.digest()


def _gist(name: str, data: bytes) -> bytes:
    if name.endswith(".log"):
        return b""
    if name in _HINTS or name.endswith(".json"):
        try:
            json.loads(data)
        except ValueError:
            return b"damaged"
    return _OF_TRIAL.sub(b"", data)


def _files(world: PowerWorld) -> Iterator[Path]:
    for top in (world.kranz, world.state, world.notes):
        for folder, folders, files in os.walk(top):
            yield from (Path(folder, name) for name in [*folders, *files])
