"""(c) The mission queue in one process, durable, with ever more entries waiting; start and recovery behind many.

A floor here may do one thing that ours does at each call: look at all names once, since anybody may have renamed a file
into the queue meanwhile. Ours is asked twice: the queue alone, kept open as a dispatcher keeps it, which does what the
floor does; and `kranzq.queue`, whose every call opens the queue, signs or judges the entry, and keeps a record of the
run, in five folders of its own, that must last before the entry goes.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from kranzq import queue
from kranzq.model.checkout import Checkout
from kranzq.model.outcome import Retire
from kranzq.trust.mac import sign
from kranzq.wiring import queues, trusting
from tests.benchmarks import checkouts, figures
from tests.benchmarks.asked import Asked, Kind, Result, Row, Table, Target
from tests.benchmarks.filling import fill, gone_pid
from tests.benchmarks.floors.files import FileFloor
from tests.benchmarks.job import Job
from tests.benchmarks.peers.known import taking_part
from tests.benchmarks.places import Place, disk, places
from tests.benchmarks.rounds import Measured, Subject, measure, timed_ms

Act = Callable[[], object]
ENQUEUE, END = "enqueue", "claim + finish"
SCAN, HEAP = "floor: files, one scan of the names", "floor: files, names known from before"
WHOLE, ALONE = "kranzq.queue", "kranzq, the queue alone"
RECORDED = "opens the queue each time; signed; with a record of each run"
MOST_FOR_PEERS = 10_000
LIMITS = {ENQUEUE: (1.3, 2.0), END: (1.5, 2.0)}
HOW = {
    ENQUEUE: "Milliseconds of one call that enqueues, durable where the row does not say otherwise.",
    END: "Milliseconds of taking the first one and ending it, both durable where the row does not say otherwise.",
}


def run(asked: Asked) -> Result:
    """Two tables a depth and place, and one of what happens behind ten thousand entries."""
    tables: list[Table] = []
    targets: list[Target] = []
    canary: list[tuple[float, float]] = []
    depths = (10, 1_000) if asked.quick else (10, 1_000, 10_000, 100_000)
    with places(asked.folder) as found:
        here = [one for one in found if one.folder is not None and "tmpfs" not in one.name]
        for place in here[:1] if asked.quick else here:
            for depth in depths:
                measured, absent = _at(place, depth, asked)
                canary += measured.canary
                for act in (ENQUEUE, END):
                    tables.append(_table(measured, act, place, depth, absent))
                    targets += _targets(measured, act, place, depth)
    many = 1_000 if asked.quick else 10_000
    for measure_it in (_starting, _recovering):
        table, judged, sang = measure_it(disk(asked.folder).there, many, asked)
        tables.append(table)
        targets.append(judged)
        canary += sang
    return Result(tables, targets, canary=canary)


def _at(place: Place, depth: int, asked: Asked) -> tuple[Measured, list[Row]]:
    here = place.there / f"c-{depth}"
    here.mkdir()
    peers, absent = taking_part("in_process") if depth <= MOST_FOR_PEERS else ([], [])
    with contextlib.ExitStack() as stack:
        subjects = [*_floors(here, depth, stack), *_ours(here, depth), *_queue_alone(here, depth, stack)]
        for peer in peers:
            for name, acts in stack.enter_context(peer.in_process(here)).items():
                for _ in range(depth):
                    acts.enqueue()
                subjects += _pair(name, "peer", acts.enqueue, acts.claim_and_finish, acts.promises)
        times = asked.so_many(3, 10)
        measured = measure(subjects, asked.so_many_rounds(15), times, here, warm_up=3)
    checkouts.clear(here)
    return measured, absent


def _pair(name: str, kind: Kind, enqueue: Act, end: Act, note: str = "") -> list[Subject]:
    """Two subjects that follow each other, so that the queue keeps its depth."""
    return [
        Subject(f"{name}: {ENQUEUE}", kind, lambda: timed_ms(enqueue), note),
        Subject(f"{name}: {END}", kind, lambda: timed_ms(end), note),
    ]


def _floors(here: Path, depth: int, stack: contextlib.ExitStack) -> Iterator[Subject]:
    for name, scan in ((SCAN, True), (HEAP, False)):
        floor = FileFloor(here / f"floor-{scan}", sync=False)
        stack.callback(floor.close)
        for _ in range(depth):
            floor.enqueue()
        floor.sync = True
        yield from _pair(name, "floor", _enqueueing(floor, scan=scan), _ending(floor, scan=scan))


def _enqueueing(floor: FileFloor, *, scan: bool) -> Act:
    def enqueue() -> None:
        floor.enqueue()
        if scan:
            floor.scan()

    return enqueue


def _ending(floor: FileFloor, *, scan: bool) -> Act:
    return lambda: floor.claim_and_finish(scan=scan)


def _ours(here: Path, depth: int) -> list[Subject]:
    repo = checkouts.checkout(here / "checkout")
    fill(repo, depth)
    return _pair(WHOLE, "ours", lambda: queue.enqueue(repo, checkouts.mission(("true",))), lambda: _end(repo), RECORDED)


def _queue_alone(here: Path, depth: int, stack: contextlib.ExitStack) -> list[Subject]:
    repo = checkouts.checkout(here / "alone")
    fill(repo, depth)
    kept = stack.enter_context(queues.make_queue(repo))
    key = trusting.keyring(os.environ).current()

    def enqueue() -> None:
        kept.enqueue(sign(checkouts.mission(("true",)), repo.root, key), lambda _: None)

    def end() -> None:
        claimed = kept.claim(next(kept.in_order()), os.getpid(), "0" * 16)
        assert claimed is not None, "nothing could be claimed"
        kept.carry_out(claimed.place, Retire())
        kept.sync()

    return _pair(ALONE, "ours", enqueue, end)


def _end(repo: Checkout) -> None:
    claim = queue.claim_front(repo)
    assert claim is not None, "nothing could be claimed"
    queue.finish_claim(claim)


def _table(measured: Measured, act: str, place: Place, depth: int, absent: list[Row]) -> Table:
    names = {one.name for one in measured.subjects if one.name.endswith(f": {act}")}
    title = f"{act}, {depth:,} waiting, on {place.name}"
    table = measured.of(names).table(title, "ms", HOW[act], base=f"{SCAN}: {act}", absent=absent)
    rows = [replace(row, subject=row.subject.removesuffix(f": {act}")) for row in table.rows]
    return replace(table, rows=rows, base=table.base.removesuffix(f": {act}"))


def _targets(measured: Measured, act: str, place: Place, depth: int) -> Iterator[Target]:
    if depth <= MOST_FOR_PEERS:
        floor = measured.rounds_of(f"{SCAN}: {act}")
        for name in (ALONE, WHOLE):
            what = f"{act}, {name}, {depth:,} waiting, on {place.name}"
            found = figures.ratios(measured.rounds_of(f"{name}: {act}"), floor)
            yield figures.rounds_target(what, found, *LIMITS[act], SCAN)


def _starting(folder: Path, many: int, asked: Asked) -> tuple[Table, Target, list[tuple[float, float]]]:
    """A daemon's start: how much later the first mission begins when many wait behind it."""
    here = folder / "starting"
    here.mkdir()
    with contextlib.ExitStack() as stack:
        subjects = []
        for depth in (1, many):
            repo = checkouts.checkout(here / str(depth))
            fill(repo, depth - 1)
            job = Job(here, f"job-{depth}")
            stack.callback(job.close)
            subjects.append(Subject(f"kranzq daemon, {depth:,} queued", "ours", _starter(repo, job, here)))
        floor = FileFloor(here / "floor", sync=False)
        stack.callback(floor.close)
        for _ in range(many):
            floor.enqueue()
        subjects.append(Subject(f"floor: one scan of {many:,} names", "floor", lambda: timed_ms(floor.scan)))
        measured = measure(subjects, asked.so_many_rounds(12), 1, here)
    checkouts.clear(here)
    how = "Milliseconds from the start of the process to the first instruction of the first mission."
    few, deep, scan = (_median(measured, one.name) for one in subjects)
    extra = (deep - few) / scan if few and deep and scan else None
    judged = figures.target(f"start with {many:,} queued, what it adds", extra, 3, 5, against="one scan of the names")
    return measured.table("a daemon's start", "ms", how), judged, measured.canary


def _starter(repo: Checkout, job: Job, here: Path) -> Callable[[], float]:
    words = [*checkouts.program(), "-C", repo.root, "daemon"]

    def once() -> float:
        queue.enqueue(repo, replace(checkouts.mission(job.argv), priority=0))
        began = time.monotonic_ns()
        with checkouts.started(words, here / "daemon.log", lambda: True):
            return (job.heard_ns() - began) / 1e6

    return once


def _recovering(folder: Path, many: int, asked: Asked) -> tuple[Table, Target, list[tuple[float, float]]]:
    """Claims of a process that is gone, against renaming as many files with one sync."""
    here = folder / "recovering"
    here.mkdir()
    numbers = iter(range(1_000))

    def ours() -> float:
        repo = checkouts.checkout(here / str(next(numbers)))
        fill(repo, many, claimed_by=gone_pid())
        moved = 0

        def recover() -> None:
            nonlocal moved
            moved = queue.recover_dead_claims(repo)

        taken = timed_ms(recover)
        checkouts.clear(Path(repo.root))
        if moved != many:
            raise RuntimeError(f"{moved} of {many} claims were put back")
        return taken

    def renamed() -> float:
        place = here / str(next(numbers))
        place.mkdir()
        for number in range(many):
            (place / f"{number:020d}.json.claimed").touch()
        fd = os.open(place, os.O_RDONLY)

        def rename() -> None:
            for name in os.listdir(place):
                os.rename(name, name.removesuffix(".claimed"), src_dir_fd=fd, dst_dir_fd=fd)
            os.fsync(fd)

        taken = timed_ms(rename)
        os.close(fd)
        checkouts.clear(place)
        return taken

    base = f"floor: {many:,} renames, one sync"
    subjects = [Subject(base, "floor", renamed), Subject("kranzq", "ours", ours)]
    measured = measure(subjects, asked.so_many_rounds(5), 1, here, warm_up=0)
    checkouts.clear(here)
    how = f"Milliseconds until {many:,} claims of a holder that is gone are back in the queue."
    found = figures.ratios(measured.rounds_of("kranzq"), measured.rounds_of(base))
    judged = figures.rounds_target(f"recovery of {many:,} dead claims", found, 2, 5, base)
    return measured.table("recovery", "ms", how, base=base), judged, measured.canary


def _median(measured: Measured, name: str) -> float | None:
    every = [value for one in measured.rounds_of(name) for value in one]
    return statistics.median(every) if every else None
