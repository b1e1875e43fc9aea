"""How long it takes from a kill to the next mission: `python -m tests.proof.storm_recovery FOLDER SEED SECONDS`.

Missions wait, one runs. Its keeper is killed, every other time with the daemon, which is started again at once;
the time is that until the next mission has begun, which is the same one again until it is parked. Half of the time the
missions obey TERM and half they do not, nor does what they leave: then the grace of a second passes first.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.laboratory import REPO, wait_for
from tests.proof import storm_mission
from tests.proof.storm_people import People
from tests.proof.storm_told import Tail, write_json
from tests.proof.storm_victims import victims

SETTINGS = "[mission]\ngrace_seconds = 1\n"
STAYS_S = 50.0


class Trials:
    """One checkout with a daemon, whose missions are interrupted again and again."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.history, self.root = folder, folder / "history", folder / "checkout"
        self.dice = random.Random(f"recovery {seed}")
        for path in (self.history, self.root, Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"):
            path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "init", "--quiet", str(self.root)], check=True)
        (Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq" / "config.toml").write_text(SETTINGS)
        self.people = People(self.root, self.history, folder, seed)
        self.lines = Tail(self.history / "missions.jsonl")
        self.queued = self.running = 0
        self.daemon = self._start()

    def run(self, plan: str, seconds: float) -> list[float]:
        """The times of all kills of missions with that plan, in seconds."""
        took: list[float] = []
        over = time.monotonic() + seconds
        self._queue(plan)
        wait_for(self._news, "the first mission begins")
        while time.monotonic() < over or not took:  # at least one, however slow the machine is
            self._queue(plan)
            at = time.monotonic() + self.dice.uniform(0.05, 0.3)
            wait_for(lambda until=at: time.monotonic() >= until, "the moment of the kill")  # type: ignore[misc]
            keepers = [one for one in victims(os.environ["HOME"]) if one.kind == "keeper"]
            self.lines.more()
            began = time.monotonic_ns()
            if len(took) % 2:
                self.daemon.kill()
            for one in keepers:
                one.signal(signal.SIGKILL)
            if len(took) % 2:
                self.daemon.wait()
                self.daemon = self._start()
            started = wait_for(self._news, "the next mission begins", seconds=60)
            self.running += _runnable()
            took.append((started[0]["at"] - began) / 1e9)
        return took

    def end(self) -> None:
        """Kill what is left."""
        self.daemon.kill()
        self.daemon.wait()
        for one in victims(os.environ["HOME"]):
            one.signal(signal.SIGKILL)

    def _queue(self, plan: str) -> None:
        """See to it that at least two wait behind the one that runs."""
        while len(self.people.names("")) < 3:
            self.queued += 1
            mission = f"m{self.queued}-{plan}"
            program = (storm_mission.__file__, str(self.history), mission, plan, str(STAYS_S))
            self.people.call("enqueue", mission, "--json", "--", sys.executable, "-I", "-S", *program)

    def _news(self) -> list[dict[str, Any]]:
        return [line for line in self.lines.more() if line["what"] == "start"]

    def _start(self) -> subprocess.Popen[bytes]:
        with (self.history / "daemon.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "kranzq", "-C", str(self.root), "daemon"],
                cwd=REPO,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def _runnable() -> int:
    """How many threads of the whole machine want a core in this instant."""
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])


def shares(took: list[float]) -> dict[str, float]:
    """The middle, all but one in a hundred, and the longest of some times, in milliseconds."""
    ordered = sorted(took)
    return {
        "trials": len(ordered),
        **{name: round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]) for name, share in SHARES},
    }


SHARES = (("p50 ms", 0.5), ("p99 ms", 0.99), ("max ms", 1.0))


def main() -> None:
    """Measure both, and write it to `told.json` of the folder."""
    folder, seed, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    told: dict[str, dict[str, float]] = {}
    for name, plan in (("TERM obeyed", "slow"), ("TERM ignored", "deaf")):
        trials = Trials(folder / plan, seed)
        try:
            took = trials.run(plan, seconds / 2)
        finally:
            trials.end()
        told[name] = shares(took) | {
            "running threads": round(trials.running / len(took), 1),
            "load": round(os.getloadavg()[0], 1),
        }
    write_json(folder / "told.json", told)


if __name__ == "__main__":
    main()
