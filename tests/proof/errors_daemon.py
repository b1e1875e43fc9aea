"""A daemon whose call fails goes on: it stays, and does the missions that wait as soon as the fault is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from tests.laboratory import wait_for
from tests.proof import tracing
from tests.proof.faulty import Faulty
from tests.proof.invariants import always
from tests.proof.pictures import look
from tests.proof.scenario import Scenario, World
from tests.proof.scenarios_files import TWO
from tests.proof.sweep import Deriving, Found, Sweep, Trial

NAME = "daemon"
SCENARIO = Scenario(NAME, ("daemon",), TWO, turn=True)
DONE_WITHIN = 30.0
MISSIONS = ("m-1", "m-2")
START_CODES = frozenset({2, 4, 5, 6, 75})
"""How a daemon may leave that could not even begin."""


def run(sweep: Sweep, derive: Deriving, faulty: Faulty, from_inside: Callable[[Trial], str | None]) -> None:
    """Trials as many as there is time for. `from_inside`: how the library has a fault that `strace` cannot put in."""
    folder = sweep.asked.folder / "daemon"
    folder.mkdir(exist_ok=True)

    def attempt(world: World, trial: Trial) -> Found:
        SCENARIO.put_back(world)
        if (how := from_inside(trial)) is not None:
            env = faulty.environment(world, trial.point, how)
            return _break(world, _started(world, [], env), lambda: faulty.was_hit(world))
        fault = tracing.Fault(trial.point.role, trial.point.name, trial.point.at, f"error={trial.how}")
        return _break(world, _started(world, _traced(world, fault), {}), lambda: _read(world).was_hit)

    with World(folder) as world:
        sweep.try_these(world, SCENARIO, lambda: derive(SCENARIO, _recorded(world)), attempt)
        world.clear()


def _recorded(world: World) -> list[tracing.Point]:
    SCENARIO.put_back(world)
    with _started(world, _traced(world, None), {}) as daemon:
        _await_done(world, daemon)
        _stop(world, daemon)
    return _read(world).points


def _traced(world: World, fault: tracing.Fault | None) -> list[str]:
    return tracing.words(tracing.watching(world.folder / "trace", fault))


def _read(world: World) -> tracing.Traced:
    return tracing.read((world.folder / "trace").read_text(errors="replace"), tracing.PROGRAM)


@contextlib.contextmanager
def _started(world: World, before: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (world.folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [*before, *world.command(("daemon",))],
            cwd=world.folder,
            env={**world.traced, "LAB_BACKOFF": "0.2", **env},
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


def _break(world: World, start: AbstractContextManager[subprocess.Popen[bytes]], was_hit: Callable[[], bool]) -> Found:
    with start as daemon:
        _await_done(world, daemon)
        log = (world.folder / "daemon.log").read_text(errors="replace")
        if "Traceback" in log:
            return Found(True, [f"a traceback: {log[-700:]}"])
        if daemon.poll() is not None:
            is_told = daemon.returncode in START_CODES and bool(log.strip())
            could_not_begin = is_told and not any(world.ran(mission) for mission in MISSIONS)
            hit = was_hit()
            faults = [] if could_not_begin or not hit else [f"the daemon left with {daemon.returncode}: {log[-700:]}"]
            return Found(hit, faults, "told" if hit else "")
        _stop(world, daemon)
        hit = was_hit()
    ran = {mission: world.ran(mission) for mission in MISSIONS}
    faults = [f"{mission} ran {count} times" for mission, count in ran.items() if count != 1]
    return Found(hit, [*faults, *always(look(world, "files"))] if hit else (), "borne" if hit else "")
