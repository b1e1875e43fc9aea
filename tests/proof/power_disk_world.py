"""A checkout on a real ext4, on a disk whose plug can be pulled; what is noted of its missions lies elsewhere.

    python -m tests.proof.power_disk_world WORK SEED SECONDS OPTIONS    enqueues and drains there, and pulls the plug
    python -m tests.proof.power_disk_world CHECK                        examines one image that a cut has left

Both run in a mount namespace of their own, in a folder that is the present one: `fuse/disk` is the disk, `world` is
where it is mounted, `notes` is where missions note that they ran. What was seen is printed as JSON.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.hurried import hurried_keeper
from tests.proof.power_world import PowerWorld

KEPT_PERMILLE = (0, 0, 300, 700, 950)
"""How much of what was not flushed a cut leaves."""
_END = re.compile(r"^[0-9:]* ?(\S+) succeeded", re.MULTILINE)
_PAUSE_S = (0.1, 0.6)
_PROBE = "z-1"


@dataclass
class DiskWorld(PowerWorld):
    """A world of which only the checkout and its home lie on the disk."""

    @property
    def notes(self) -> Path:
        """Where missions note that they ran: no cut takes anything back from there."""
        return self.folder.parent.parent / "notes"

    @property
    def env(self) -> dict[str, str]:
        """As of every world; the keeper's program is not on the disk."""
        return {**super().env, "LAB_KEEPER": str(hurried_keeper(self.folder.parent.parent))}


@dataclass
class Told:
    """What was reported so far: missions that are queued, missions that have ended."""

    queued: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def work(here: Path, seed: int, seconds: float, options: str) -> dict[str, object]:
    """Enqueue and drain for so long; pull the plug again and again, and go on. What the cuts were."""
    disk, mounted = here / "fuse" / "disk", here / "world"
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", str(disk)], check=True)
    subprocess.run(["mount", "-o", f"loop,{options}", str(disk), str(mounted)], check=True)
    world, told, over = DiskWorld(mounted / "w"), Told(), threading.Event()
    world.make()
    world.run("enqueue", "m-0", *world.mission("m-0"))
    told.queued.append("m-0")
    threads = [threading.Thread(target=one, args=(world, told, over)) for one in (_enqueue, _drain)]
    for thread in threads:
        thread.start()
    dice, until, cuts = random.Random(seed), time.monotonic() + seconds, list[dict[str, object]]()
    while time.monotonic() < until:
        time.sleep(dice.uniform(*_PAUSE_S))
        image, queued, ended = here / f"cut-{len(cuts)}", list(told.queued), list(told.ended)
        with (here / "fuse" / "cut").open("r+b", buffering=0) as plug:
            plug.write(f"{image} {dice.getrandbits(32)} {dice.choice(KEPT_PERMILLE)}".encode())
        forgot = int((here / "fuse" / "cut").read_text().split()[2])
        cuts.append({"image": image.name, "queued": queued, "ended": ended, "forgot": forgot})
    over.set()
    for thread in threads:
        thread.join()
    written, flushes, _ = map(int, (here / "fuse" / "cut").read_text().split())
    world.end_live()
    subprocess.run(["umount", str(mounted)], check=True)
    return {"cuts": cuts, "written": written, "flushes": flushes, "faults": told.faults}


def _enqueue(world: DiskWorld, told: Told, over: threading.Event) -> None:
    number = 0
    while not over.is_set():
        number += 1
        done = world.run("enqueue", f"m-{number}", *world.mission(f"m-{number}"), code=None)
        if done.returncode == 0:
            told.queued.append(f"m-{number}")
        else:
            told.faults.append(done.stderr[-300:])


def _drain(world: DiskWorld, told: Told, over: threading.Event) -> None:
    while not over.is_set():
        done = world.run("drain", "--once", code=None)
        told.ended += [mission for mission in _END.findall(done.stdout + done.stderr) if mission not in told.ended]


def examine(here: Path, cut: dict[str, list[str]]) -> list[str]:
    """Start a machine with that disk, recover, run everything: what is lost or runs again, a sentence each."""
    mounted = here / "world"
    subprocess.run(["mount", "-o", "loop", str(here / str(cut["image"])), str(mounted)], check=True)
    world = DiskWorld(mounted / "w")
    (world.notes / "ran").unlink(missing_ok=True)
    faults = []
    with world.started_again():
        for words in (("recover", "--yes"), ("enqueue", _PROBE, *world.mission(_PROBE)), ("drain",)):
            done = world.run(*words, code=None)
            if done.returncode:
                faults.append(f"`{words[0]}`: exit {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}")
        faults += [
            f"{mission} ended, and ran again {count} times" for mission in cut["ended"] if (count := world.ran(mission))
        ]
        faults += [f"{mission} ran {world.ran(mission)} times" for mission in cut["queued"] if world.ran(mission) > 1]
        known = {path.name for path in (world.kranz / "missions").iterdir()}
        lost = [one for one in [*cut["queued"], _PROBE] if one not in known or not _has_ended(world, one)]
        faults += [f"{mission} was reported as queued, and neither is nor has ended" for mission in lost]
    return faults


def _has_ended(world: DiskWorld, mission: str) -> bool:
    runs = (world.kranz / "missions" / mission / "dispatch").glob("*/run.json")
    return any(b'"succeeded"' in run.read_bytes() for run in runs)


def main(words: list[str]) -> None:
    """Do one of both."""
    here = Path.cwd()
    if words[0] == "CHECK":
        print(json.dumps(examine(here, json.loads(sys.stdin.read()))))
    else:
        print(json.dumps(work(here, int(words[1]), float(words[2]), words[3])))


if __name__ == "__main__":
    main(sys.argv[1:])
