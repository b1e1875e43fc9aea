"""The storm over one checkout: `python -m tests.proof.storm_files FOLDER SEED SECONDS mounted|plain`, by `storm`.

A daemon and four drains that are started again whenever they are gone, a fifth drain in another pid namespace, eight
enqueuers, two that recover and two that cancel, park, unpark and edit; over them the acts of the schedule. In the end
the disk is well, the clock far ahead, and drains run without kills until nothing is due; then the history is judged.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from tests.flocks import is_free
from tests.laboratory import IN_OTHER_NAMESPACE, PATIENCE, REPO
from tests.proof.storm_clock import Clock
from tests.proof.storm_disk import Disk
from tests.proof.storm_history import ENDED_BY_KILL, LIMIT, STUCK, UNEXPLAINED, Finding, check
from tests.proof.storm_people import People
from tests.proof.storm_schedule import KILLS, Act, schedule
from tests.proof.storm_told import Told, facts_of, write_json
from tests.proof.storm_victims import Victim, children, victim, victims

DRAINS = 4
IN_FRONT = ("sh", "-c", 'while :; do "$@"; sleep 0.3; done', "sh")
"""Process 1 of the other namespace: a drain that is killed there does not take the namespace with it."""
DAY_S = 86_400.0
OTHERS = ("stops", "terms", "clock steps", "full disks", "read-only remounts", "nobody there")
WHILE_BUSY = (".busy.json", ".repo.busy.lock", ".repo.busy.mission", ".mutate.lock")
LURK_S = 4.0
"""So long an act waits for somebody to strike."""
VERBS = {"enqueue", "recover", "other verb"}
VERB_TAKES_S = 0.04
SETTINGS = """
[mission]
grace_seconds = 1
min_free_disk = "64KiB"
deferral_limit = "none"

[retention]
runs_per_mission = 100000
"""


class Slot:
    """A place for one program that is started again when it is gone."""

    def __init__(self, stage: Stage, program: str, name: str, before: tuple[str, ...] = ()) -> None:
        self.stage, self.program, self.name, self.before = stage, program, name, before
        self.process: subprocess.Popen[bytes] | None = None
        self.again_at = 0.0

    def tend(self) -> None:
        """Start it if it is time; notice its end, and by whom."""
        if self.process is not None and (code := self.process.poll()) is not None:
            killed = code == -signal.SIGKILL
            self.stage.acts.say(what="exit", program=self.program, code=ENDED_BY_KILL if killed else code)
            self.process = None
            self.again_at = time.monotonic() + (0.0 if killed else self.stage.dice.uniform(0.3, 2.0))
        if self.process is None and time.monotonic() >= self.again_at:
            with (self.stage.history / f"{self.name}.log").open("ab") as log:
                self.process = subprocess.Popen(
                    [*self.before, sys.executable, "-m", "kranzq", "-C", str(self.stage.root), self.program],
                    cwd=REPO,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )


class Stage:
    """One checkout and all who are busy with it."""

    def __init__(self, folder: Path, seed: int, seconds: float, *, mounted: bool) -> None:
        self.folder, self.seconds, self.seed = folder, seconds, seed
        self.dice = random.Random(f"stage {seed}")
        self.clock = Clock(folder)
        self.disk = Disk(folder) if mounted else None
        if self.disk is not None:
            self.disk.mount()
        self.root = (self.disk.place if self.disk is not None else folder) / "checkout"
        self.root.mkdir()
        subprocess.run(["git", "init", "--quiet", str(self.root)], check=True)
        config = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(SETTINGS)
        self.history = folder / "history"
        self.history.mkdir()
        self.acts = Told(self.history / "acts.jsonl")
        self.people = People(self.root, self.history, folder, seed)
        other = (*IN_OTHER_NAMESPACE[:-1], "--propagation", "slave", IN_OTHER_NAMESPACE[-1], *IN_FRONT)
        self.slots = [
            Slot(self, "daemon", "daemon"),
            *(Slot(self, "drain", f"drain{number}") for number in range(DRAINS)),
            Slot(self, "drain", "namespace", other),
        ]
        self.stopped: list[tuple[float, Victim]] = []
        self.trouble: tuple[float, str] | None = None
        self.lurking: list[tuple[float, Act]] = []
        self.look_at = 0.0
        self.struck: set[tuple[int, int]] = set()
        """Nobody is killed twice, though it may take a while until he is gone."""
        self.done: Counter[str] = Counter(dict.fromkeys((*(f"kills: {kind}" for kind in KILLS), *OTHERS), 0))

    def run(self) -> None:
        """Let it storm so long."""
        acts = schedule(self.seed, self.seconds) if self.seconds else []
        self.people.call("list", "", "--json")  # what forks the verbs has begun when it returns
        began = time.monotonic()
        self.people.begin()
        while (now := time.monotonic() - began) < self.seconds:
            for slot in self.slots:
                slot.tend()
            self._undo(now)
            while acts and acts[0].at <= now:
                self._do(acts.pop(0), now)
            self._lurk(now)
            time.sleep(0.01)  # no condition to wait for: the moments are those of the schedule
        self._undo(now, at_all=True)
        self.people.end()
        for slot in self.slots:
            one = victim(slot.process.pid, str(self.folder)) if slot.process is not None else None
            if one is not None:
                self._strike(one, one.kind)

    def rest(self) -> None:
        """With all troubles over: drain until nothing is due, and everybody is gone."""
        for day in range(1, 9):
            self.clock.step(day * DAY_S)
            self.people.call("drain", "", seconds=600)
            if not self.people.names("", "waiting"):
                break
        deadline = time.monotonic() + PATIENCE
        while self._rest_of_us() and time.monotonic() < deadline:
            time.sleep(0.05)

    def judge(self) -> list[Finding]:
        """What the history and the checkout tell."""
        found = check(facts_of(self.history, self.root / ".kranz"))
        found += [Finding(STUCK, f"{one.kind} {one.pid} still lives") for one in self._rest_of_us()]
        queue = self.root / ".kranz" / "queue"
        found += [
            Finding(STUCK, f"{name} lies there after the last drain") for name in WHILE_BUSY if (queue / name).exists()
        ]
        found += [
            Finding(STUCK, f"{path} is locked")
            for path in (self.root / ".git", queue / ".busy.flock")
            if not is_free(path)
        ]
        for slot in self.slots:
            text = self.people.log(slot.name)
            if "Traceback" in text or "fault of kranzq" in text:
                found.append(Finding(UNEXPLAINED, f"{slot.name} tells of a fault of its own: {slot.name}.log"))
        return found

    def clear(self) -> None:
        """Kill whoever still lives, whatever became of the storm."""
        self.people.over.set()
        for one in victims(str(self.folder)):
            one.signal(signal.SIGKILL)

    def _rest_of_us(self) -> list[Victim]:
        return [one for one in victims(str(self.folder)) if one.kind != "idle keeper"]

    def _do(self, act: Act, now: float) -> None:
        if act.what == "step":
            self.clock.step(act.value)
            self.done["clock steps"] += self.clock.can_step
        elif act.what == "disk" and self.disk is not None:
            self._undo(now, at_all=self.trouble is not None)
            self.acts.say(what="trouble", kind=act.kind, seconds=act.seconds)
            if self.disk.trouble(act.kind):
                self.trouble = (now + act.seconds, act.kind)
                self.done["full disks" if act.kind in {"full", "no inodes"} else "read-only remounts"] += 1
        else:
            self.lurking.append((now + LURK_S, act))

    def _lurk(self, now: float) -> None:
        """Strike those whom an act is for, as soon as they are there; give it up when nobody comes for long."""
        seen: list[Victim] | None = None
        for until, act in list(self.lurking):
            if act.kind in VERBS:
                there = [one for one in self.people.verbs() if one.kind == act.kind]
            elif now >= self.look_at:
                seen = victims(str(self.folder)) if seen is None else seen
                there = [one for one in seen if one.kind == act.kind]
            else:
                continue
            there = [one for one in there if (one.pid, one.ticks) not in self.struck]
            if there or now > until:
                self.lurking.remove((until, act))
            if not there:
                self.done["nobody there"] += now > until
                continue
            one = there[int(act.die * len(there))]
            if act.kind in VERBS:
                time.sleep(act.value * VERB_TAKES_S)  # anywhere in its short life
            if act.what == "kill":
                self._strike(one, act.kind)
                continue
            if act.what == "term":
                self.acts.say(what="term", kind=one.kind, pid=one.inner, ticks=one.ticks, pidNs=one.namespace)
                self.done["terms"] += one.signal(signal.SIGTERM)
                continue
            self.acts.say(what="stop", kind=one.kind, pid=one.inner, seconds=act.seconds)
            if one.signal(signal.SIGSTOP):
                self.stopped.append((now + act.seconds, one))
                self.done["stops"] += 1
        if seen is not None:
            self.look_at = now + 0.1

    def _strike(self, one: Victim, kind: str) -> None:
        """Write the kill down, then kill."""
        namespace = one.namespace
        if kind == "namespace":  # that which ends with it, never ours, which would explain everything
            inside = (one.namespace, *map(_namespace_of, children(one.pid)))
            namespace = next((found for found in inside if found not in {"", _namespace_of(os.getpid())}), "")
        self.acts.say(what="kill", kind=kind, pid=one.inner, ticks=one.ticks, pidNs=namespace)
        self.struck.add((one.pid, one.ticks))
        if one.signal(signal.SIGKILL):
            self.done[f"kills: {kind}"] += 1

    def _undo(self, now: float, *, at_all: bool = False) -> None:
        """Let go on who was stopped long enough, and end the disk's trouble when its time is over."""
        for until, one in list(self.stopped):
            if now >= until or at_all:
                one.signal(signal.SIGCONT)
                self.stopped.remove((until, one))
        if self.trouble is not None and self.disk is not None and (now >= self.trouble[0] or at_all):
            self.disk.relief(self.trouble[1])
            self.acts.say(what="relief", kind=self.trouble[1])
            self.trouble = None


def _namespace_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/pid")
    return ""


def main() -> None:
    """Storm, judge, and write what came of it to `told.json` of the folder."""
    folder, seed, seconds, mounted = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "mounted"
    stage = Stage(folder, seed, seconds, mounted=mounted)
    try:
        stage.run()
        stage.rest()
        found = stage.judge()
    finally:
        stage.clear()
    lines = facts_of(stage.history, stage.root / ".kranz")
    counts: dict[str, float] = {
        "missions enqueued": sum(one.verb == "enqueue" and bool(one.answer.get("created")) for one in lines.calls),
        "missions run": sum(line["what"] == "start" for line in lines.lines),
        "runs interrupted": sum(run["outcome"] == "interrupted" for run in lines.runs),
        "verbs called": len(lines.calls),
        "verbs killed": sum(call.code is None for call in lines.calls),
        "parked in the end": sum(one.place == "parked" for one in lines.left),
        "known limits met": sum(one.kind == LIMIT for one in found),
        **stage.done,
    }
    codes = Counter(f"{call.verb} {call.code}" for call in lines.calls)
    if any(one.kind != LIMIT for one in found):
        shutil.copytree(stage.root / ".kranz", folder / "kranz", symlinks=True)  # the disk goes with us
    told = {"counts": counts, "found": [[one.kind, one.text] for one in found], "codes": dict(sorted(codes.items()))}
    write_json(folder / "told.json", told)


if __name__ == "__main__":
    main()
