"""Part `storm`: everybody at work at once, killed, stopped, their clock stepped and their disk full, from a seed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests import postgres
from tests.laboratory import REPO
from tests.proof.asked import Asked, Result
from tests.proof.storm_clock import Clock
from tests.proof.storm_disk import can_mount
from tests.proof.storm_history import KINDS, LIMIT

WHOLE_S = 3_600.0
GOAL_MS = {"TERM obeyed": 1_000, "TERM ignored": 2_000}
"""The 99th of a hundred recoveries is faster; those who ignore TERM are given a grace of a second."""
CALM = (os.cpu_count() or 1) + 1.0
"""With more threads than this wanting a core, times are worth nothing."""
LEFT_OUT = ("KRANZQ_", "KRANZ_", "GIT_", "XDG_", "LD_PRELOAD")


def run(asked: Asked) -> Result:
    """Storm over a checkout, then judge."""
    counts: dict[str, float | str] = {}
    faults: list[str] = []
    seconds = asked.seconds or WHOLE_S
    if asked.wants("files"):
        told = storm_files(asked.folder / "files", asked.seed, seconds)
        kills = {name: count for name, count in told["counts"].items() if name.startswith("kills: ")}
        counts |= {"seconds": seconds, "kills": sum(kills.values()), **kills}
        counts |= {name: count for name, count in told["counts"].items() if name not in kills}
        counts |= {kind: sum(one == kind for one, _ in told["found"]) for kind in KINDS}
        faults += [f"{kind}: {text}; {again(asked, 'files')}" for kind, text in told["found"] if kind != LIMIT]
    if asked.wants("recovery"):
        times = recovery(asked.folder / "recovery", asked.seed, min(max(seconds / 12, 10.0), 300.0))
        for kind, shares in times.items():
            counts |= {f"recovery, {kind}: {name}": value for name, value in shares.items()}
            if shares["p99 ms"] >= GOAL_MS[kind] and shares["running threads"] <= CALM:
                faults.append(f"recovery takes {shares['p99 ms']} ms (p99, {kind}), more than {GOAL_MS[kind]}")
    for engine in ("sqlite", "postgres"):
        if asked.wants(engine):
            more, wrong = work(asked.folder / engine, asked.seed, max(seconds / 4, 8.0), engine)
            counts |= {f"{engine}: {name}": count for name, count in more.items()}
            faults += [f"{engine}: {text}; {again(asked, engine)}" for text in wrong]
    return Result(counts, faults)


def storm_files(folder: Path, seed: int, seconds: float) -> dict[str, Any]:
    """Storm over a checkout, in a mount namespace of its own where one can be had; what it tells."""
    mounted = can_mount()
    before = ("unshare", "--mount", "--propagation", "private") if mounted else ()
    _in_a_process("storm_files", folder, seed, seconds, "mounted" if mounted else "plain", before=before, steps=True)
    told: dict[str, Any] = json.loads((folder / "storm.json").read_text())
    return told


def recovery(folder: Path, seed: int, seconds: float) -> dict[str, dict[str, float]]:
    """Times from kills to the next mission's start, by whether the leftovers obey TERM."""
    _in_a_process("storm_recovery", folder, seed, seconds)
    told: dict[str, dict[str, float]] = json.loads((folder / "recovery.json").read_text())
    return told


def work(folder: Path, seed: int, seconds: float, engine: str) -> tuple[dict[str, float | str], list[str]]:
    """Storm over a work queue; what was done, and what is wrong."""
    if engine == "postgres" and not postgres.has_binaries():
        return {"skipped": postgres.MISSING}, []
    _in_a_process("storm_work", folder, seed, seconds, engine, steps=True)
    told = json.loads((folder / "work.json").read_text())
    return {"seconds": seconds, **told["counts"], "faults": len(told["faults"])}, told["faults"]


def again(asked: Asked, only: str) -> str:
    """What to type to see it once more."""
    return f"again: scripts/lab storm --only {only} --seed {asked.seed} --seconds {asked.seconds or WHOLE_S:g}"


def _in_a_process(program: str, folder: Path, *words: object, before: Sequence[str] = (), steps: bool = False) -> None:
    """Run one of the storm's programs with a home of its own, and perhaps with a clock that can be stepped."""
    home = folder / "home"
    home.mkdir(parents=True)
    env = {name: text for name, text in os.environ.items() if not name.startswith(LEFT_OUT)}
    env |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
    env |= {"XDG_RUNTIME_DIR": str(home), **(Clock(folder).environment if steps else {})}
    argv = [*before, sys.executable, "-m", f"tests.proof.{program}", str(folder), *map(str, words)]
    with (folder / "program.log").open("wb") as log:
        done = subprocess.run(argv, cwd=REPO, env=env, stdout=log, stderr=log, check=False)
    if done.returncode:
        raise RuntimeError(f"the storm itself failed: {(folder / 'program.log').read_text()[-3000:]}")
