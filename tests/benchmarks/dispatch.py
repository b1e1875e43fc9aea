"""(a) From an entry that appears to the mission's first instruction, dispatchers idle, one mission at a time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.benchmarks import checkouts, figures
from tests.benchmarks.asked import Asked, Result, Row, Table, Target
from tests.benchmarks.checkouts import wait_for
from tests.benchmarks.floors.files import FileFloor
from tests.benchmarks.job import Job
from tests.benchmarks.peers.known import taking_part
from tests.benchmarks.places import Place, disk, places
from tests.benchmarks.rounds import Measured, Subject, measure

BASE = "floor: inotify, durable claim, spawn"
UNSYNCED = "floor: inotify, spawn, nothing synced"
ALONE = "floor: spawn alone, no queue"
OURS = "kranzq"
PAUSE_S = 0.08
"""Between a mission's end and the next one: so long a keeper needs to be warm, and everybody waits as long."""
HOW = (
    "Milliseconds from the rename by which the entry appears (nq, task-spooler: from the start of their command;"
    " huey: from the call that enqueues) to the first instruction of the job, a program without anything to load."
)
NO_WATCH = ("unshare", "--user", "--map-root-user", "sh", "-c", 'echo 0 >/proc/sys/user/max_inotify_watches; exec "$@"')
POLLS = {"kranzq, polling as it comes": {}, "kranzq, polling each 50 ms": {"KRANZQ_DAEMON_POLL_SECONDS": "0.05"}}
IDLE_S = 10


def run(asked: Asked) -> Result:
    """One table a file system, and one of a daemon that gets no notices."""
    tables: list[Table] = []
    targets: list[Target] = []
    remarks: list[str] = []
    canary: list[tuple[float, float]] = []
    with places(asked.folder) as found:
        for place in found:
            if place.folder is None:
                remarks.append(f"Not measured on {place.name}: {place.why_not}.")
                continue
            table, measured = _on(place, asked)
            tables.append(table)
            canary += measured.canary
            targets += _targets(place, measured)
    table, sang = _polling(asked)
    tables.append(table)
    canary += sang
    targets += _polling_targets(table)
    return Result(tables, targets, remarks, canary)


def _on(place: Place, asked: Asked) -> tuple[Table, Measured]:
    here = place.there / "a"
    here.mkdir()
    peers, absent = taking_part("dispatching")
    with contextlib.ExitStack() as stack:
        subjects = [
            Subject(ALONE, "floor", stack.enter_context(_spawned(here)).sample),
            Subject(UNSYNCED, "floor", stack.enter_context(_floor(here, "plain")).sample),
            Subject(BASE, "floor", stack.enter_context(_floor(here, "durable")).sample),
            Subject(OURS, "ours", stack.enter_context(_ours(here, "kranzq", {})).sample, "durable"),
        ]
        for peer in peers:
            job = Job(here, peer.__name__.rpartition(".")[2])
            stack.callback(job.close)
            acts = stack.enter_context(peer.dispatching(here, job))
            subjects += [Subject(name, "peer", _after_pause(act).sample, peer.PROMISES) for name, act in acts.items()]
        measured = measure(subjects, asked.so_many_rounds(12), asked.so_many(3, 15), here, warm_up=2)
    checkouts.clear(here)
    return measured.table(f"on {place.name}", "ms", HOW, base=BASE, absent=absent), measured


class _after_pause:  # noqa: N801 (reads as what it does: a sample after a pause)
    """A sample that comes after the same pause for everybody."""

    def __init__(self, act: object) -> None:
        assert callable(act)
        self._act = act

    def sample(self) -> float:
        """Wait, then measure."""
        time.sleep(PAUSE_S)
        return float(self._act())


@contextlib.contextmanager
def _spawned(here: Path) -> Iterator[_after_pause]:
    job = Job(here, "spawn")

    def once() -> float:
        began = time.monotonic_ns()
        os.waitpid(os.posix_spawn(job.argv[0], job.argv, os.environ), 0)
        return (job.heard_ns() - began) / 1e6

    yield _after_pause(once)
    job.close()


@contextlib.contextmanager
def _floor(here: Path, how: str) -> Iterator[_after_pause]:
    job = Job(here, f"floor-{how}")
    floor = FileFloor(here / f"floor-{how}", sync=how == "durable")
    words = [sys.executable, "-m", "tests.benchmarks.floors.dispatcher", floor.folder, how, *job.argv]
    log = here / f"floor-{how}.log"

    def once() -> float:
        began = floor.enqueue()
        return (job.heard_ns() - began) / 1e6

    with checkouts.started(words, log, lambda: "ready" in log.read_text()):
        yield _after_pause(once)
    floor.close()
    job.close()


@contextlib.contextmanager
def _ours(here: Path, name: str, env: dict[str, str], before: tuple[str, ...] = ()) -> Iterator[_Ours]:
    job = Job(here, name)
    repo = checkouts.checkout(here / name)
    with checkouts.daemon(repo, here / f"{name}.log", before=before, env=env) as process:

        def once() -> float:
            began = checkouts.enqueued(repo, job.argv)
            taken = (job.heard_ns() - began) / 1e6
            wait_for(lambda: checkouts.settled(repo), "the mission is settled")
            return taken

        yield _Ours(once, process)
    job.close()


class _Ours(_after_pause):
    """A daemon of ours, which can also be asked what it computes while nothing happens."""

    def __init__(self, act: object, process: subprocess.Popen[bytes]) -> None:
        super().__init__(act)
        self._process = process

    def idle_percent(self, seconds: float) -> float:
        """The part of one processor that daemon and keeper use while nothing comes."""
        pids = [self._process.pid, *_below(self._process.pid)]
        before = checkouts.cpu_s(pids)
        time.sleep(seconds)
        return (checkouts.cpu_s(pids) - before) / seconds * 100


def _below(pid: int) -> list[int]:
    found = checkouts.children_of(pid)
    return [*found, *(deeper for one in found for deeper in _below(one))]


def _targets(place: Place, measured: Measured) -> Iterator[Target]:
    ours, floor, nq = (measured.rounds_of(name) for name in (OURS, BASE, "nq"))
    wanted, acceptable = (1.3, 1.7) if place.has_journal else (2.0, 2.8)
    found = figures.ratios(ours, floor)
    yield figures.rounds_target(f"dispatch, durable, on {place.name}", found, wanted, acceptable, BASE)
    tails = [figures.quantile([one for some in rounds for one in some], 0.99) for rounds in (ours, floor) if rounds]
    tail = tails[0] / tails[1] if len(tails) == 2 else None
    yield figures.target(f"its 99 % on {place.name}", tail, 2.0, 3.0, against="99 % of the floor")
    yield figures.rounds_target(f"the same, faster than nq on {place.name}", figures.ratios(ours, nq), 1.0, 1.0, "nq")


def _polling(asked: Asked) -> tuple[Table, list[tuple[float, float]]]:
    here = disk(asked.folder).there / "polling"
    here.mkdir()
    how = f"{HOW} The daemon may not watch: as where the kernel's watches are used up."
    usable = subprocess.run([*NO_WATCH, "sh", "true"], capture_output=True, check=False).returncode == 0
    absent = [] if usable else [Row(name, "absent", note="no user namespace can be made here") for name in POLLS]
    idle: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        subjects = []
        for number, (name, env) in enumerate(POLLS.items() if usable else ()):
            ours = stack.enter_context(_ours(here, f"polling-{number}", env, (*NO_WATCH, "sh")))
            subjects.append(Subject(name, "ours", ours.sample))
            idle[name] = ours.idle_percent(asked.so_many(1, IDLE_S))
        measured = measure(subjects, asked.so_many_rounds(10), asked.so_many(2, 10), here)
    checkouts.clear(here)
    table = measured.table("while polling", "ms", how, absent=absent)
    rows = [
        Row(**{**vars(row), "more": {"idle, % of a processor": round(idle[row.subject], 2)}})
        if row.subject in idle
        else row
        for row in table.rows
    ]
    return Table(table.title, table.unit, table.how, rows), measured.canary


def _polling_targets(table: Table) -> Iterator[Target]:
    for row in (row for row in table.rows if not POLLS[row.subject]):  # other settings are there to compare
        yield figures.target(f"{row.subject}: median", row.median, 30, 250, unit="ms")
        idle = row.more.get("idle, % of a processor")
        yield figures.target(
            f"{row.subject}: idle", float(idle) if idle is not None else None, 0.5, 0.5, unit="% of a processor"
        )
