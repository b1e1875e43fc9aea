"""(d) The work queue on SQLite and on PostgreSQL: one client, batches, threads, processes, and a waiter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from kranzq import work
from kranzq.backends.sql.backend import SqlBackend
from tests.benchmarks import figures, work_queue
from tests.benchmarks.asked import Asked, Kind, Result, Row, Table, Target
from tests.benchmarks.floors.sql import SqliteFloor
from tests.benchmarks.items import claimed, new_item
from tests.benchmarks.peers.known import taking_part
from tests.benchmarks.places import disk
from tests.benchmarks.rounds import Measured, Subject, measure, timed_ms
from tests.benchmarks.sql_server import on_postgres

FLOOR, OURS = "floor: sqlite3, synchronous=FULL", "kranzq"
WAITING = 1_000
PROCESSES = (1, 2, 8)
THREADS = (1, 4, 16, 32)


def run(asked: Asked) -> Result:
    """SQLite first, then PostgreSQL where there is a server."""
    here = disk(asked.folder).there / "d"
    here.mkdir()
    parts = [_one_client(here, asked), _together(here, asked), _processes(here, asked)]
    parts.append(on_postgres(asked))
    return Result(
        [table for part in parts for table in part.tables],
        [target for part in parts for target in part.targets],
        [remark for part in parts for remark in part.remarks],
        [sang for part in parts for sang in part.canary],
    )


def _one_client(folder: Path, asked: Asked) -> Result:
    """Enqueue, claim, and claim with finish, a thousand items waiting."""
    with contextlib.ExitStack() as stack:
        floor = SqliteFloor(folder / "floor.db")
        stack.callback(floor.close)
        store = stack.enter_context(work.open(f"sqlite://{folder}/ours.db"))
        for _ in range(WAITING):
            floor.enqueue()
        store.enqueue_many([new_item()] * WAITING)
        acts: dict[str, list[Subject]] = {"enqueue": [], "claim": [], "claim + finish": []}
        _three(acts, FLOOR, "floor", floor.enqueue, floor.claim, floor.finish)
        _three(acts, OURS, "ours", lambda: store.enqueue(new_item()), lambda: claimed(store), store.finish)
        peers, absent = taking_part("in_process")
        for peer in peers:
            for name, offered in stack.enter_context(peer.in_process(folder)).items():
                for _ in range(WAITING):
                    offered.enqueue()
                acts["enqueue"].append(_timed(name, "peer", offered.enqueue, offered.promises))
                acts["claim + finish"].append(_timed(name, "peer", offered.claim_and_finish, offered.promises))
        tables, canary, targets = [], [], []
        for act, subjects in acts.items():
            measured = measure(subjects, asked.so_many_rounds(15), asked.so_many(5, 20), folder, warm_up=3)
            how = (
                f"Milliseconds of a call, one client, some {WAITING:,} items waiting, durable where not said otherwise."
            )
            tables.append(measured.table(f"{act}, SQLite", "ms", how, base=FLOOR, absent=absent))
            canary += measured.canary
            if act == "claim":
                targets.append(_against_floor("SQLite claim, one client", measured))
    return Result(tables, targets, canary=canary)


def _three(
    acts: dict[str, list[Subject]],
    name: str,
    kind: Kind,
    enqueue: Callable[[], object],
    claim: Callable[[], object],
    finish: Callable[..., object],
) -> None:
    def claim_alone() -> float:
        found: list[object] = []
        taken = timed_ms(lambda: found.append(claim()))
        finish(found[0])
        enqueue()
        return taken

    def claim_and_finish() -> float:
        taken = timed_ms(lambda: finish(claim()))
        enqueue()
        return taken

    acts["enqueue"].append(_timed(name, kind, enqueue, "durable"))
    acts["claim"].append(Subject(name, kind, claim_alone, "durable"))
    acts["claim + finish"].append(Subject(name, kind, claim_and_finish, "durable"))


def _timed(name: str, kind: Kind, act: Callable[[], object], note: str) -> Subject:
    return Subject(name, kind, lambda: timed_ms(act), note)


def _against_floor(what: str, measured: Measured) -> Target:
    found = figures.ratios(measured.rounds_of(OURS), measured.rounds_of(FLOOR))
    return figures.rounds_target(what, found, 1.3, 2.0, FLOOR)


def _together(folder: Path, asked: Asked) -> Result:
    """Threads of one process, and the batch verbs."""
    seconds = 0.3 if asked.quick else 1.5
    with work_queue.queue("sqlite", folder) as (store, _):
        subjects = [
            Subject(f"kranzq, {_counted(threads, 'thread')}", "ours", _rate(store, threads, seconds))
            for threads in THREADS
        ]
        measured = measure(subjects, asked.so_many_rounds(5), 1, folder, warm_up=0)
        how = "Items a second, durable each, from threads that enqueue one by one; they share commits."
        threads = measured.table("enqueue by threads, SQLite", "items/s", how)
        batches = [
            Subject(f"kranzq, {verb}, {size} at once", "ours", _per_item(act, size))
            for size in (10, 100)
            for verb, act in work_queue.batches(store, size)
        ]
        many = measure(batches, asked.so_many_rounds(10), 3, folder, warm_up=0)
    how = "Milliseconds an item, all of a batch in one call and one commit."
    tables = [replace(threads, better="higher"), many.table("batches, SQLite", "ms", how)]
    return Result(tables, canary=[*measured.canary, *many.canary])


def _counted(many: int, what: str) -> str:
    return f"{many} {what}" if many == 1 else f"{many} {what}{'es' if what.endswith('s') else 's'}"


def _rate(store: SqlBackend, threads: int, seconds: float) -> Callable[[], float]:
    return lambda: work_queue.by_threads(store, threads, seconds)[0]


def _per_item(act: Callable[[], object], size: int) -> Callable[[], float]:
    return lambda: timed_ms(act) / size


def _processes(folder: Path, asked: Asked) -> Result:
    """Processes that claim and finish without a pause: who starves, and how long the longest wait is."""
    seconds = 1.0 if asked.quick else 4.0
    rows: list[Row] = []
    found: dict[int, tuple[float, float, float, float]] = {}
    for processes in PROCESSES:
        with work_queue.queue("sqlite", folder) as (store, url):
            for _ in range(5 if asked.quick else 60):
                store.enqueue_many([new_item()] * 1000)
            each = work_queue.by_processes(url, processes, seconds)
        waits = [wait for one in each for wait in one]
        done = [len(one) for one in each]
        found[processes] = (len(waits) / seconds, min(done) / max(done), figures.quantile(waits, 0.999), max(waits))
        more = {
            "claims with ends/s": round(found[processes][0]),
            "slowest / fastest process": round(found[processes][1], 2),
            "99.9 %, ms": found[processes][2],
            "longest, ms": found[processes][3],
        }
        row = figures.row_of(f"kranzq, {_counted(processes, 'process')}", "ours", [waits], more=more)
        rows.append(replace(row, spread=None))
    how = f"Milliseconds of a claim with its end, from processes that make no pause for {seconds:g} s."
    return Result([Table("processes at once, SQLite", "ms", how, rows)], [*_fairness(found)])


def _fairness(found: dict[int, tuple[float, float, float, float]]) -> Iterator[Target]:
    rate, fair, tail, longest = found[PROCESSES[-1]]
    what = f"SQLite, {PROCESSES[-1]} processes"
    yield figures.target(f"{what}: slowest / fastest", fair, 0.8, 0.5, at_most=False)
    yield figures.target(f"{what}: wait, 99.9 %", tail, 100, 2000, unit="ms")
    yield figures.target(f"{what}: longest wait", longest, 1000, 2000, unit="ms")
    yield figures.target(f"{what}: rate", rate / found[1][0], 0.8, 0.5, at_most=False, against="one process")
