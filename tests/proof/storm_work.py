"""The storm over the work queue: `python -m tests.proof.storm_work FOLDER SEED SECONDS sqlite|postgres`, by `storm`.

Programs of several threads each call every verb of the queue and write down what they saw. They are killed, and stopped
beyond their leases; their wall clock is stepped; a PostgreSQL server is stopped at once or loses its first process, and
is started again. Each round has a database of its own, is worked off in the end and judged by the history checker.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from tests import history_checker, postgres
from tests.history_checker import Call, Kept
from tests.laboratory import wait_for
from tests.proof.storm_callers import Caller, at_work
from tests.proof.storm_clock import Clock
from tests.proof.storm_schedule import Act, schedule_work
from tests.proof.storm_told import write_json
from tests.races.test_work_hammer import ATTEMPTS, ITEMS, LEFT, Troop, kept_by

PROGRAMS, THREADS, CALLERS = 6, 2, 3
ROUND_S = 45.0
STOP_S = 0.8
"""Longer than a lease of the programs."""
AFTERWARDS_NS = 8_000_000_000
"""So long after a server is back a call may still tell that it was away."""
AWAY = ("StoreUnavailable", "StoreUnreachable")


@dataclass(frozen=True)
class Down:
    """When a server was not there: nanoseconds of the boot clock, which is that of the histories."""

    began: int
    ended: int


class Round:
    """Some time of one database."""

    def __init__(self, folder: Path, seed: int, seconds: float, server: postgres.Server | None) -> None:
        self.folder, self.seconds, self.server = folder, seconds, server
        self.acts = schedule_work(seed, seconds, has_server=server is not None)
        self.clock = Clock(Path(os.environ["HOME"]).parent)
        self.done: Counter[str] = Counter()
        self.downs: list[Down] = []
        self.stopped: list[tuple[float, subprocess.Popen[bytes]]] = []
        self.callers: list[Caller] = []
        self.waiting_for_a_call = 0

    def run(self, url: str) -> list[str]:
        """Storm, work off, judge: what is wrong, a sentence each."""
        self.folder.mkdir(parents=True)
        troop = Troop(url, self.folder / "history", THREADS)
        try:
            self._storm(troop)
            self._work_off(troop, url)
        finally:
            troop.end()
            for one in self.callers:
                one.end()
        calls = [self._judged(call) for call in history_checker.read(self.folder / "history")]
        self.done["calls"] = len(calls)
        self.done["items"] = len(kept := kept_in(url))
        return history_checker.check(calls, kept, drained=True)

    def _storm(self, troop: Troop) -> None:
        troop.running = [troop.hammer(600) for _ in range(PROGRAMS)]
        wait_for(lambda: len(list(troop.folder.glob("*.jsonl"))) >= PROGRAMS * THREADS, "they all begin")
        self.callers = [Caller(troop.url, troop.folder, f"caller{number}") for number in range(CALLERS)]
        for caller in self.callers:
            caller.begin()
        began = time.monotonic()
        while (now := time.monotonic() - began) < self.seconds:
            while self.acts and self.acts[0].at <= now:
                self._do(self.acts.pop(0), troop, now)
            for until, one in list(self.stopped):
                if now >= until:
                    one.send_signal(signal.SIGCONT)
                    self.stopped.remove((until, one))
            for pid in at_work()[:1] if self.waiting_for_a_call else ():
                with contextlib.suppress(ProcessLookupError):  # it came to its end in this instant
                    os.kill(pid, signal.SIGKILL)
                    self.done["kills: call"] += 1
                    self.waiting_for_a_call -= 1
            for number, one in enumerate(troop.running):
                if one.poll() is not None:  # it began while its server was away
                    troop.running[number] = troop.hammer(600)
                    self.done["began in vain"] += 1
            time.sleep(0.01)  # no condition to wait for: the moments are those of the schedule
        troop.end()
        for caller in self.callers:
            caller.end()

    def _do(self, act: Act, troop: Troop, now: float) -> None:
        if act.what == "step":
            self.clock.step(act.value)
            self.done["clock steps"] += self.clock.can_step
        elif act.what == "server" and self.server is not None:
            down = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            if act.kind == "postmaster killed":
                self.server.kill()
            else:
                self.server.stop()
            time.sleep(act.seconds)  # no condition to wait for: it is away so long
            self.server.start()
            self.downs.append(Down(down, time.clock_gettime_ns(time.CLOCK_BOOTTIME) + AFTERWARDS_NS))
            self.done[f"server: {act.kind}"] += 1
        elif act.kind == "call":
            self.waiting_for_a_call += 1
        else:
            number = int(act.die * len(troop.running))
            victim = troop.running[number]
            if act.what == "kill":
                victim.kill()
                victim.wait()
                self.stopped = [(until, one) for until, one in self.stopped if one is not victim]
                troop.running[number] = troop.hammer(600)
                self.done["kills: agent"] += 1
            else:
                victim.send_signal(signal.SIGSTOP)
                self.stopped.append((now + STOP_S, victim))
                self.done["stops"] += 1

    def _work_off(self, troop: Troop, url: str) -> None:
        """Claim and end everything, as soon as the leases of the killed ones are over."""
        if "sqlite" in url:
            path = url.removeprefix("sqlite:///")
            with contextlib.closing(sqlite3.connect(path)) as connection:
                troop.drain(lambda: int(connection.execute(LEFT).fetchone()[0]))
                assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
            return
        with psycopg.connect(url, autocommit=True) as server:
            troop.drain(lambda: int((server.execute(LEFT).fetchone() or (0,))[0]))

    def _judged(self, call: Call) -> Call:
        """A call that was told that the server is away, while it was: nobody knows what it did."""
        away = call.fault is not None and call.fault.partition(":")[0] in AWAY
        if away and any(down.began <= (call.returned or 0) and call.began <= down.ended for down in self.downs):
            self.done["calls without an answer"] += 1
            return replace(call, returned=None, fault=None, answer=None)
        return call


def kept_in(url: str) -> dict[str, Kept]:
    """What a database holds."""
    if "sqlite" in url:
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            return kept_by(connection.execute(ITEMS).fetchall(), connection.execute(ATTEMPTS).fetchall())
    with psycopg.connect(url, autocommit=True) as server:
        return kept_by(server.execute(ITEMS).fetchall(), server.execute(ATTEMPTS).fetchall())


@contextlib.contextmanager
def databases(folder: Path, engine: str) -> Iterator[tuple[postgres.Server | None, Iterator[str]]]:
    """New databases one after the other, and the server that they are on."""
    if engine == "sqlite":
        yield None, (f"sqlite:///{folder}/work{number}.db" for number in range(1_000_000))
        return
    with postgres.running() as server, contextlib.ExitStack() as stack:
        yield server, (stack.enter_context(postgres.database(server.url())) for _ in range(1_000_000))


def storm(folder: Path, seed: int, seconds: float, engine: str) -> tuple[Counter[str], list[str]]:
    """As many rounds as there is time for; what was done, and what is wrong."""
    done: Counter[str] = Counter()
    faults: list[str] = []
    many = max(1, round(seconds / ROUND_S))
    dice = random.Random(f"work {seed}")
    with databases(folder, engine) as (server, urls):
        for number, url in zip(range(many), urls, strict=False):
            postgres.migrate(url)
            one = Round(folder / f"round{number}", dice.randrange(1 << 30), seconds / many, server)
            wrong = one.run(url)
            done += one.done
            faults += [f"round {number}: {text}" for text in wrong]
            if not wrong:
                shutil.rmtree(one.folder)
    return done, faults


def main(words: Sequence[str]) -> None:
    """Storm, and write what came of it to `told.json` of the folder."""
    folder, seed, seconds, engine = Path(words[0]), int(words[1]), float(words[2]), words[3]
    done, faults = storm(folder, seed, seconds, engine)
    write_json(folder / "told.json", {"counts": done, "faults": faults})


if __name__ == "__main__":
    main(sys.argv[1:])
