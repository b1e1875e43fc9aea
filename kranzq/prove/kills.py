"""Trials with the real program: approving, dispatching and recovering while it is killed, and what is planted."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from kranzq.model.trial import Trial, Verdict
from kranzq.prove.program import PATIENCE_S, Program, ProgramFault, kill, program
from kranzq.prove.scratch import Scratch
from kranzq.prove.trying import Planned, each

_REPORT = "This should not be: keep the output, and report it"
_ALONE = """
import fcntl, os, sys, time
folder, mission, seconds = sys.argv[1:]
alone = os.open(folder + "/alone", os.O_RDWR | os.O_CREAT)
told = os.open(folder + "/told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    os.write(told, f"overlap {mission} 0\\n".encode())
os.write(told, f"start {mission} {time.monotonic()}\\n".encode())
time.sleep(float(seconds))
os.write(told, f"end {mission} {time.monotonic()}\\n".encode())
"""
_MISSIONS_AT_ONCE = 6
_ENDED_SHARE = 0.3


def of_kills(scratch: Scratch, seconds: float) -> Iterator[Trial]:
    """All trials that start the program; about so long."""
    planned: tuple[Planned, ...] = (
        ("approved, killed", (1,), lambda: _enqueues(scratch, seconds / 3)),
        ("dispatched, killed", (2, 3, 4), lambda: _turns(scratch, 2 * seconds / 3)),
        ("planted", (6,), lambda: _planted(scratch)),
    )
    return each(planned, "", _REPORT)


def _enqueues(scratch: Scratch, seconds: float) -> Trial:
    """`enqueue` is killed somewhere on its way; whatever it reported must be there, and nothing twice."""
    ours, dice = program(scratch, "enqueues"), random.Random(1)  # noqa: S311 - when to kill, no secret
    began = time.monotonic()
    ours.run("enqueue", "first", "--", "true")
    usual, until = time.monotonic() - began, time.monotonic() + seconds
    reported, wanted, killed = {"first"}, {"first"}, 0
    while time.monotonic() < until or not killed:
        mission, began = f"m{len(wanted)}", time.monotonic()
        wanted.add(mission)
        with ours.started("enqueue", mission, "--", "true") as process, contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(dice.uniform(0.3, 1.2) * usual)
            usual = min(usual, time.monotonic() - began)  # the first one read the program from the disk
        killed += process.returncode < 0
        if process.returncode == 0:
            reported.add(mission)
    there = collections.Counter(entry["mission"] for entry in ours.ask("list")["entries"])
    lost = reported - there.keys()
    odd = [mission for mission, count in there.items() if count > 1 or mission not in wanted]
    ours.run("enqueue", "last", "--", "true")
    if lost or odd:
        text = f"{killed} kills: lost {sorted(lost)[:3]}, not as approved {odd[:3]}"
        return Trial("approved, killed", (1,), Verdict.BROKEN, killed, text, _REPORT)
    text = f"{killed} of {len(wanted)} were killed; all {len(reported)} that were reported are there, none is twice"
    return Trial("approved, killed", (1,), Verdict.HOLDS, killed, text)


def _turns(scratch: Scratch, seconds: float) -> Trial:
    """Dispatchers and keepers are killed while missions run that tell whether they are alone."""
    ours, notes = program(scratch, "turns"), scratch.make("notes")
    dice = random.Random(2)  # noqa: S311 - when to kill, no secret
    with open(f"{notes}/alone.py", "x", encoding="ascii") as file:
        file.write(_ALONE)
    until, missions, kills, waits = time.monotonic() + seconds, list[str](), 0, list[float]()
    while time.monotonic() < until or not kills:
        while len(ours.ask("list")["entries"]) < _MISSIONS_AT_ONCE:
            missions.append(f"m{len(missions)}")
            command = (sys.executable, "-I", "-S", f"{notes}/alone.py", notes, missions[-1], "0.2")
            ours.run("enqueue", missions[-1], "--", *command)
        with ours.started("drain") as dispatcher:
            _until_told(notes, len(_told(notes)), 2, dispatcher)
            time.sleep(dice.uniform(0.0, 0.25))
            keeper = ours.keeper()
            victims = [keeper] if keeper is not None and dice.random() < 1 - _ENDED_SHARE else []
            for pid in (dispatcher.pid, *victims):
                kill(pid)
            kills += 1 + len(victims)
            killed, seen = time.monotonic(), len(_told(notes))
        with ours.started("drain", "--once") as dispatcher:
            _until_told(notes, seen, 1, dispatcher)
            ours.finish(dispatcher, "drain --once")
        waits += [at - killed for what, _, at in _told(notes)[seen:] if what == "start"][:1]
    ours.run("drain", allowed=(0, 1))
    ours.run("recover", "--yes")
    return _judged(ours, notes, missions, kills, waits)


def _judged(ours: Program, notes: str, missions: list[str], kills: int, waits: list[float]) -> Trial:
    told = _told(notes)
    met = sum(what == "overlap" for what, _, _ in told)
    again, unsettled = [], []
    parked = {entry["mission"] for entry in ours.ask("list")["entries"] if entry["state"] == "parked"}
    for mission in missions:
        outcomes = _outcomes(f"{ours.root}/.kranz/missions/{mission}/dispatch")
        if "succeeded" in outcomes[:-1]:
            again.append(mission)
        if outcomes[-1:] != ["succeeded"] and mission not in parked:
            unsettled.append(mission)
    tried = f"{kills} kills, {len(missions)} missions"
    if met or again or unsettled:
        text = f"{tried}: {met} met another one, run again after their end {again[:3]}, not settled {unsettled[:3]}"
        promises = tuple(number for number, bad in ((2, met), (3, again), (4, unsettled)) if bad)
        return Trial("dispatched, killed", promises, Verdict.BROKEN, kills, text, _REPORT)
    next_one = f"; the next mission began {1000 * statistics.median(waits):.0f} ms after a kill" if waits else ""
    text = f"{tried}: none met another one, each ended once{next_one}"
    return Trial("dispatched, killed", (2, 3, 4), Verdict.HOLDS, kills, text)


def _planted(scratch: Scratch) -> Trial:
    """An entry and settings that nobody approved; neither may be executed."""
    ours = program(scratch, "planted")
    sign = f"{ours.root}/executed"
    entry = {"version": 1, "mission": "evil", "seq": 0, "priority": 2, "kranzq": {"command": ["touch", sign]}}
    with open(f"{ours.root}/.kranz/queue/002-00000000000000000000-evil.json", "x", encoding="ascii") as file:
        json.dump(entry, file)
    with open(f"{ours.root}/.kranz/kranzq.toml", "x", encoding="ascii") as file:
        file.write(f'[mission]\ncommand = ["touch", "{sign}"]\n')
    ours.run("drain", "--once", allowed=(0, 1))
    if os.path.exists(sign):
        return Trial("planted", (6,), Verdict.BROKEN, 1, "a command that nobody approved was executed", _REPORT)
    return Trial("planted", (6,), Verdict.HOLDS, 2, "an entry and settings that nobody approved were not executed")


def _told(notes: str) -> list[tuple[str, str, float]]:
    try:
        with open(f"{notes}/told", encoding="ascii") as file:
            lines = [line.split() for line in file.read().split("\n")[:-1]]
    except FileNotFoundError:
        return []
    try:
        return [(what, mission, float(at)) for what, mission, at in lines]
    except ValueError:
        raise ProgramFault("drain", 0, "what its missions told is damaged") from None


def _until_told(notes: str, seen: int, more: int, process: subprocess.Popen[str]) -> None:
    """Wait until missions have told so much more, or the process that runs them ends."""
    until = time.monotonic() + PATIENCE_S
    while len(_told(notes)) < seen + more and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)


def _outcomes(folder: str) -> list[Any]:
    """How the runs of a mission ended, by number; those that never began are left out.

    Whoever was killed while it made a run's folder leaves one without a record, or one that has no number yet.
    """
    found = []
    for run in sorted(filter(str.isdigit, os.listdir(folder)), key=int) if os.path.isdir(folder) else []:
        try:
            with open(f"{folder}/{run}/run.json", encoding="utf-8") as file:
                record = json.load(file)
            if record["state"] != "claiming":
                found.append(record["outcome"])
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            found.append("unreadable")
    return found
