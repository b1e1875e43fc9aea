"""Scenes that several stories begin with or wait for: settings are there, a mission runs, its dispatcher was killed."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from tests.laboratory import PATIENCE, Laboratory, is_alive, wait_for

PATIENT = """
import sys
from kranzq.model import policy
policy.BACKOFF_FIRST_S = policy.BACKOFF_MOST_S = 3600.0
from kranzq.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


def patient(lab: Laboratory, *words: str) -> list[str]:
    """The words that run a verb whose pauses are so long that what runs has not been paused for."""
    return [sys.executable, "-c", PATIENT, *lab.words(*words)]


def configure(text: str) -> None:
    """Write the user's settings."""
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"
    config.mkdir(parents=True, exist_ok=True)
    (config / "config.toml").write_text(text)


def passes(seconds: float) -> None:
    """Let a span of time go by, in which something must not happen."""
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() >= until, "the time", seconds=seconds + PATIENCE)


def begun(lab: Laboratory, mission: str = "m1", *, seconds: float = PATIENCE) -> float:
    """Wait until a mission has told that it runs; how many seconds that took."""
    began = time.monotonic()
    wait_for(lambda: lab.count("start", mission), f"{mission} runs: {lab.log()}", seconds=seconds)
    return time.monotonic() - began


def through(lab: Laboratory, mission: str, *, seconds: float = PATIENCE) -> None:
    """Wait until a mission has told its end and nothing of the queue is left."""
    what = f"{mission} runs and is settled: {lab.log()}"
    wait_for(lambda: lab.count("end", mission) and not lab.entries(), what, seconds=seconds)


def abandoned(lab: Laboratory, mission: str = "m1", verb: str = "drain") -> int:
    """Let a mission that is queued run, and kill its dispatcher; the pid of the keeper that goes on alone."""
    dispatcher = lab.daemon() if verb == "daemon" else lab.start(lab.command(verb))
    begun(lab, mission)
    keeper = lab.keeper(mission)
    lab.kill(dispatcher)
    return keeper


def ended_alone(lab: Laboratory, keeper: int) -> None:
    """Let a mission without a dispatcher come to its end, and wait until its keeper has left."""
    lab.release()
    wait_for(lambda: not is_alive(keeper), "the keeper has left")


def kill_points(first: int, most: int, step: int = 1) -> range:
    """The points at which a program is killed, one after the other: each third one, from a random one on.

    A kill costs three starts of the program. Whoever changes what they examine sets KRANZQ_EVERY_KILL=1.
    """
    if os.environ.get("KRANZQ_EVERY_KILL"):
        return range(first, most, step)
    return range(first + step * random.randrange(3), most, 3 * step)
