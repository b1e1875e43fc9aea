"""A daemon whose call fails goes on: it stays, and does the missions that wait as soon as the fault is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

from tests.laboratory import wait_for
from tests.proof import tracing
from tests.proof.invariants import always
from tests.proof.pictures import look
from tests.proof.scenario import Scenario, World
from tests.proof.scenarios_files import TWO
from tests.proof.sweep import Found, Sweep, Trial

NAME = "daemon"
SCENARIO = Scenario(NAME, ("daemon",), TWO, turn=True)
DONE_WITHIN = 30.0
MISSIONS = ("m-1", "m-2")
START_CODES = frozenset({2, 4, 5, 6, 75})
"""How a daemon may leave that could not even begin."""


def run(sweep: Sweep, derive: Callable[[Scenario, Sequence[tracing.Point]], list[Trial]]) -> None:
    """Trials as many as there is time for, after all the others."""
    folder = sweep.asked.folder / "daemon"
    folder.mkdir(exist_ok=True)
    with World(folder) as world:
        sweep.try_these(world, SCENARIO, lambda: derive(SCENARIO, _recorded(world)), _break)
        world.clear()


def _recorded(world: World) -> list[tracing.Point]:
    SCENARIO.put_back(world)
    with _started(world, None) as daemon:
        _await_done(world, daemon)
        _stop(world, daemon)
    return [point for point in _read(world).points if point.name not in tracing.OPENS]


def _read(world: World) -> tracing.Traced:
    return tracing.read((world.folder / "trace").read_text(errors="replace"), tracing.PROGRAM)


@contextlib.contextmanager
def _started(world: World, fault: tracing.Fault | None) -> Iterator[subprocess.Popen[bytes]]:
    words = tracing.words(tracing.watching(world.folder / "trace", fault))
    with (world.folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [*words, *world.command(("daemon",))],
            cwd=world.folder,
            env=world.traced | {"LAB_BACKOFF": "0.2"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        for pid in world.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def _is_done(world: World) -> bool:
    ended = all(world.ran(mission) for mission in MISSIONS)
    return ended and not [name for name in os.listdir(world.queue) if ".json" in name and name[0] != "."]


def _await_done(world: World, daemon: subprocess.Popen[bytes]) -> None:
    wait_for(lambda: _is_done(world) or daemon.poll() is not None, "the daemon does both missions", seconds=DONE_WITHIN)


def _stop(world: World, daemon: subprocess.Popen[bytes]) -> None:
    world.run("stop", code=None)
    wait_for(lambda: daemon.poll() is not None, "the daemon leaves when it is told to", seconds=DONE_WITHIN)


def _break(world: World, trial: Trial) -> Found:
    point = trial.point
    if " " in trial.how:
        return Found(hit=False)  # what happens and fails all the same is tried in the verbs
    SCENARIO.put_back(world)
    with _started(world, tracing.Fault(point.role, point.name, point.at, f"error={trial.how}")) as daemon:
        began = time.monotonic()
        _await_done(world, daemon)
        log = (world.folder / "daemon.log").read_text(errors="replace")
        if "Traceback" in log:
            return Found(True, [f"a traceback: {log[-700:]}"])
        if daemon.poll() is not None:
            hit = _read(world).was_hit
            is_start = time.monotonic() - began < DONE_WITHIN and daemon.returncode in START_CODES and log.strip()
            could_not_begin = is_start and not any(world.ran(mission) for mission in MISSIONS)
            faults = [] if could_not_begin or not hit else [f"the daemon left with {daemon.returncode}: {log[-700:]}"]
            return Found(hit, faults, "told")
        _stop(world, daemon)
        hit = _read(world).was_hit
    ran = {mission: world.ran(mission) for mission in MISSIONS}
    faults = [f"{mission} ran {count} times" for mission, count in ran.items() if count != 1]
    return Found(hit, [*faults, *always(look(world, "files"))] if hit else (), "borne")
