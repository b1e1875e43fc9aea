"""(d) Many clients of the work queue at once, threads and processes: how fast, who starves, who waits longest.

Beside them the driver alone, by as many clients with a connection each. SQLite's own handler for a busy file sleeps and
looks again, and two writers that make no pause starve each other for seconds: the columns show it.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import psycopg

from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.connections import MOST_CONNECTIONS
from tests import postgres
from tests.benchmarks import clients, figures
from tests.benchmarks.asked import Asked, Result, Table, Target
from tests.benchmarks.charts import figure
from tests.benchmarks.clients import AtOnce, Waits
from tests.benchmarks.floors.sql import PostgresFloor, SqliteFloor, floor_of
from tests.benchmarks.items import claimed, new_item
from tests.benchmarks.places import disk
from tests.benchmarks.rounds import Measured, measure
from tests.benchmarks.work_queue import queue

Floor = SqliteFloor | PostgresFloor

ENQUEUEING = (1, 4, 16, 32)
CLAIMING = (1, 8, 32)
PROCESSES = (1, 2, 8)
PLENTY = {"floor": 40_000, "ours": 8_000}
"""So many items lie there for each second of a turn: nobody has done as many. They are made good after each turn."""
BATCH = 1_000


def enqueueing(folder: Path, asked: Asked) -> Result:
    """Threads of one process that enqueue into one SQLite file."""
    seconds = 0.2 if asked.quick else 1.5
    with queue("sqlite", folder) as (store, _), _floors("sqlite", folder, ENQUEUEING[-1]) as (floors, _):
        all_of = []
        for many in ENQUEUEING:
            by_floor = _threads([one.enqueue for one in floors[:many]], seconds)
            by_ours = _threads([lambda: store.enqueue(new_item())] * many, seconds)
            all_of.append(_pair(many, "thread", seconds, by_floor, by_ours))
        measured = _measured(all_of, asked.so_many_rounds(5), folder)
    how = (
        f"Items a second, durable each, from threads that enqueue one by one for {seconds:g} s. Ours share a store, and"
        " commits; the floor's have a connection each and wait by SQLite's busy handler, up to 10 s."
    )
    return Result([_table("enqueue by threads, SQLite", how, all_of, measured)], canary=measured.canary)


def claiming(url: str, asked: Asked) -> Result:
    """Threads of one process that claim and finish on PostgreSQL."""
    here, seconds = disk(asked.folder).there, 0.2 if asked.quick else 1.5
    with queue(url, here) as (store, ours), _floors(url, here, CLAIMING[-1]) as (floors, its):
        _stock(floors[0], store, seconds, ours, its)
        all_of = []
        for many in CLAIMING:
            by_floor = _threads([one.claim_and_finish for one in floors[:many]], seconds)
            by_ours = _threads([lambda: store.finish(claimed(store))] * many, seconds)
            pair = _pair(
                many, "client", seconds, _refilled(by_floor, floors[0].fill), _refilled(by_ours, _filler(store))
            )
            all_of.append(pair)
        measured = _measured(all_of, asked.so_many_rounds(5), here)
    how = (
        f"Claims with their ends a second, a commit each, by threads of a process that make no pause for {seconds:g} s."
        f" Ours share a store, which has at most {MOST_CONNECTIONS} connections; the floor's have one each."
    )
    return Result([_table("claim + finish by clients, PostgreSQL", how, all_of, measured)], canary=measured.canary)


def processes(engine: str, name: str, folder: Path, asked: Asked) -> tuple[Result, Sequence[tuple[AtOnce, AtOnce]]]:
    """Processes that claim and finish; the engine is `sqlite` or the URL of a server."""
    seconds = 0.3 if asked.quick else 4.0
    counts = PROCESSES[:2] if asked.quick and engine != "sqlite" else PROCESSES  # many take their time to start
    with contextlib.ExitStack() as stack:
        store, ours = stack.enter_context(queue(engine, folder))
        floors, its = stack.enter_context(_floors(engine, folder, 1))
        _stock(floors[0], store, seconds, ours, its)
        its_workers = stack.enter_context(clients.processes("floor", its, counts[-1]))
        our_workers = stack.enter_context(clients.processes("ours", ours, counts[-1]))
        all_of = []
        for many in counts:
            by_floor = _refilled(_processes(its_workers, many, seconds), floors[0].fill)
            by_ours = _refilled(_processes(our_workers, many, seconds), _filler(store))
            all_of.append(_pair(many, "process", seconds, by_floor, by_ours))
        measured = _measured(all_of, asked.so_many_rounds(3), folder)
    how = f"Claims with their ends a second, a commit each, from processes that make no pause for {seconds:g} s."
    if engine == "sqlite":
        how += " The floor's wait by SQLite's busy handler, up to 10 s."
    return Result([_table(f"processes at once, {name}", how, all_of, measured)], canary=measured.canary), all_of


def fairness(all_of: Sequence[tuple[AtOnce, AtOnce]]) -> Iterator[Target]:
    """What is promised of many processes on SQLite."""
    one, most = all_of[0][1], all_of[-1][1]
    what = f"SQLite, {most.clients} processes"
    waits = most.waits()
    fair = statistics.median(most.fairness()) if most.rounds else None
    yield figures.target(f"{what}: slowest / fastest", fair, 0.8, 0.5, at_most=False)
    yield figures.target(
        f"{what}: wait, 99.9 %", figures.quantile(waits, 0.999) if waits else None, 100, 2000, unit="ms"
    )
    yield figures.target(f"{what}: longest wait", max(waits, default=None), 1000, 2000, unit="ms")
    found = figures.ratios([[rate] for rate in most.rates()], [[rate] for rate in one.rates()])
    yield figures.rounds_target(f"{what}: rate", found, 0.8, 0.5, "one process", at_most=False)


def _pair(
    many: int, what: str, seconds: float, floor: Callable[[], Waits], ours: Callable[[], Waits]
) -> tuple[AtOnce, AtOnce]:
    plural = "es" if what.endswith("s") else "s"
    told = f"{many} {what}{plural if many > 1 else ''}"
    return (
        AtOnce(f"floor, {told}", "floor", many, seconds, floor),
        AtOnce(f"kranzq, {told}", "ours", many, seconds, ours),
    )


def _measured(all_of: Sequence[tuple[AtOnce, AtOnce]], rounds: int, folder: Path) -> Measured:
    return measure([one.subject() for pair in all_of for one in pair], rounds, 1, folder, warm_up=0)


def _table(title: str, how: str, all_of: Sequence[tuple[AtOnce, AtOnce]], measured: Measured) -> Table:
    """With who starved and who waited; the waits are those of all rounds together, the fairness is their median."""
    more = {one.name: columns(one, floor) for floor, ours in all_of for one in (floor, ours)}
    table = measured.table(title, "a second", how)
    rows = [replace(row, more=more.get(row.subject, {}) if row.median else {}) for row in table.rows]
    return replace(table, rows=rows, better="higher")


def columns(one: AtOnce, floor: AtOnce) -> Mapping[str, float | str]:
    """Who starved, who waited, and the rate beside that of as many clients of the floor."""
    if not one.rounds:
        return {}
    waits = one.waits()
    beside = figures.ratios([[rate] for rate in one.rates()], [[rate] for rate in floor.rates()])
    told = ""
    if beside and one is not floor:
        told = f"{figure(statistics.median(beside))} ({figure(min(beside))} to {figure(max(beside))})"
    return {
        "x floor of as many (lowest to highest round)": told,
        "slowest / fastest": round(statistics.median(one.fairness()), 2),
        "median, ms": statistics.median(waits),
        "99.9 %, ms": figures.quantile(waits, 0.999),
        "longest, ms": max(waits),
    }


@contextlib.contextmanager
def _floors(engine: str, folder: Path, most: int) -> Iterator[tuple[list[Floor], str]]:
    """So many connections of the driver alone to an empty table of their own, and its URL."""
    with contextlib.ExitStack() as stack:
        if engine == "sqlite":
            url = f"sqlite://{folder}/floor-of-{most}.db"
        else:
            url = stack.enter_context(postgres.database(engine))
        floors = [floor_of(url) for _ in range(most)]
        for one in floors:
            stack.callback(one.close)
        yield floors, url


def _stock(floor: Floor, store: SqlBackend, seconds: float, *urls: str) -> None:
    """As much as one turn could need; a server is told how much there is."""
    floor.fill(int(PLENTY["floor"] * seconds))
    _filler(store)(int(PLENTY["ours"] * seconds))
    for url in urls:
        if url.startswith("postgres"):
            with psycopg.connect(url, autocommit=True) as server:
                server.execute(b"vacuum analyze")


def _filler(store: SqlBackend) -> Callable[[int], object]:
    def fill(many: int) -> None:
        for done in range(0, many, BATCH):
            store.enqueue_many([new_item()] * min(BATCH, many - done))

    return fill


def _threads(acts: Sequence[Callable[[], object]], seconds: float) -> Callable[[], Waits]:
    return lambda: clients.by_threads(acts, seconds)


def _processes(workers: clients.Processes, many: int, seconds: float) -> Callable[[], Waits]:
    return lambda: workers.run(many, seconds)


def _refilled(turn: Callable[[], Waits], fill: Callable[[int], object]) -> Callable[[], Waits]:
    """What a turn took out of the queue is put back before the next one."""

    def both() -> Waits:
        waits = turn()
        fill(sum(len(one) for one in waits))
        return waits

    return both
