"""Part `storm`: everybody at work at once, killed, stopped, their clock stepped and their disk full, from a seed."""

from __future__ import annotations

import json
import os
import shutil
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
    """Storm over a checkout and over work queues, measure recoveries, and judge; each on its own may be asked for."""
    counts: dict[str, float | str] = {"load before": round(os.getloadavg()[0], 1)}
    faults: list[str] = []
    seconds = asked.seconds or WHOLE_S
    for room in ("kranzq", "tests"):  # whatever is edited meanwhile: one program storms from beginning to end
        shutil.copytree(REPO / room, asked.folder / "program" / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name, storm in (("files", _files), ("recovery", _recovery), ("sqlite", _work), ("postgres", _work)):
        if not asked.wants(name):
            continue
        try:
            more, wrong = storm(name, asked, seconds)
        except RuntimeError as fault:  # what the others found is kept
            more, wrong = {}, [f"{fault}"]
        counts |= more
        again = f"scripts/lab storm --only {name} --seed {asked.seed} --seconds {seconds:g}"
        faults += [f"{name}: {text}; again: {again}" for text in wrong]
    return Result(counts, faults)


def _files(name: str, asked: Asked, seconds: float) -> tuple[dict[str, float | str], list[str]]:
    """Storm over a checkout, in a mount namespace of its own where one can be had."""
    folder, mounted = asked.folder / name, can_mount()
    before = ("unshare", "--mount", "--propagation", "private") if mounted else ()
    words = (asked.seed, seconds, "mounted" if mounted else "plain")
    told = _in_a_process("storm_files", folder, *words, before=before, steps=True)
    kills = {what: count for what, count in told["counts"].items() if what.startswith("kills: ")}
    others = {what: count for what, count in told["counts"].items() if what not in kills}
    found = {kind: sum(one == kind for one, _ in told["found"]) for kind in KINDS}
    counts = {"seconds": seconds, "kills": sum(kills.values()), **kills, **others, **found}
    return counts, [f"{kind}: {text}" for kind, text in told["found"] if kind != LIMIT]


def _recovery(name: str, asked: Asked, seconds: float) -> tuple[dict[str, float | str], list[str]]:
    """Times from kills to the next mission's start, by whether the leftovers obey TERM."""
    took = min(max(seconds / 12, 10.0), 300.0)
    counts: dict[str, float | str] = {}
    faults = []
    for kind, shares in _in_a_process("storm_recovery", asked.folder / name, asked.seed, took).items():
        counts |= {f"recovery, {kind}: {what}": value for what, value in shares.items()}
        if shares["p99 ms"] >= GOAL_MS[kind] and shares["running threads"] <= CALM:
            faults.append(f"p99 is {shares['p99 ms']} ms ({kind}), more than {GOAL_MS[kind]}")
    return counts, faults


def _work(name: str, asked: Asked, seconds: float) -> tuple[dict[str, float | str], list[str]]:
    """Storm over a work queue, for a quarter of the time."""
    if name == "postgres" and not postgres.has_binaries():
        return {f"{name}: skipped": postgres.MISSING}, []
    part = max(seconds / 4, 8.0)
    told = _in_a_process("storm_work", asked.folder / name, asked.seed, part, name, steps=True)
    counts = {"seconds": part, **told["counts"], "faults": len(told["faults"])}
    return {f"{name}: {what}": count for what, count in counts.items()}, told["faults"]


def _in_a_process(program: str, folder: Path, *words: object, before: Sequence[str] = (), steps: bool = False) -> Any:
    """What one of the storm's programs tells; it has a home of its own, and perhaps a clock that can be stepped."""
    home = folder / "home"
    home.mkdir(parents=True)
    env = {name: text for name, text in os.environ.items() if not name.startswith(LEFT_OUT)}
    env |= {"HOME": str(home), "XDG_CONFIG_HOME": str(home / "config"), "XDG_STATE_HOME": str(home / "state")}
    env |= {"XDG_RUNTIME_DIR": str(home), "TMPDIR": str(home), **(Clock(folder).environment if steps else {})}
    argv = [*before, sys.executable, "-m", f"tests.proof.{program}", str(folder), *map(str, words)]
    with (folder / "program.log").open("wb") as log:
        done = subprocess.run(argv, cwd=folder.parent / "program", env=env, stdout=log, stderr=log, check=False)
    if done.returncode:
        raise RuntimeError(f"the storm itself failed: {(folder / 'program.log').read_text()[-3000:]}")
    return json.loads((folder / "told.json").read_text())
