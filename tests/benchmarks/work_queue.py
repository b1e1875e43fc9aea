"""How fast the work queue is, and whether it stays so: prints the tables of docs/explanation/work-queue-speed.md.

    python -m tests.benchmarks.work_queue backlog|together|fairness [--most ROWS] [--folder PATH] [--no-postgres]

`backlog`: one claim behind ever more rows. `together`: threads of one process, and batch verbs. `fairness`: processes
that write at once. A throw-away PostgreSQL is started where there is one. Rows are made by one statement, not enqueued.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psycopg

from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.opening import open_store
from kranzq.model.claim import Holder
from kranzq.model.work import Finish
from kranzq.testing.items import item
from tests import postgres
from tests.benchmarks import clients

ANN = Holder("ann")
SIZES = (1_000, 10_000, 100_000, 1_000_000)
MINE, CLAIMS = 2_000, 200
COLUMNS = (
    "id, title, kind, target, target_agent, target_agent_uid, target_group, priority, state, max_attempts, created_by,"
    " created_by_uid, created_at, updated_at, digest, not_before"
)
ROW = (
    "select {tag} || n, 'a title', {kind}, {target}, '', '', '', {priority}, {state}, 3, 'bench', '',"
    " 1700000000000 + n, 1700000000000 + n, '', {due} from n"
)


class Case(NamedTuple):
    """The rows that lie in front of one's own or beside them, in the words of SQL."""

    tag: str
    target: str
    priority: int
    state: str
    kind: str = "''"


CASES = {
    "others' in front": Case("'other'", "'n:other' || (n % 100)", 5, "'open'"),
    "all one's own": Case("'own'", "'n:ann'", 0, "'open'"),
    "ended beside": Case("'ended'", "'n:ann'", 5, "'done'"),
    "not due yet": Case("'late'", "'n:ann'", 5, "'delayed'"),
}
OWN = Case("'last'", "'n:ann'", 0, "'open'")
SERIES = {
    "sqlite": "with recursive n(n) as (select 1 union all select n + 1 from n where n < {many}) ",
    "postgres": "with n(n) as (select generate_series(1, {many})) ",
}


def fill(store: SqlBackend, case: Case, many: int, url: str, own: Case = OWN) -> None:
    """So many rows of a case, and behind them some of one's own."""
    dialect = "postgres" if url.startswith("postgres") else "sqlite"
    rows = [
        *(_inserted(one, SERIES[dialect].format(many=size)) for one, size in ((case, many), (own, MINE))),
        "insert into kranzq_payloads (seq, payload) select seq, 'a payload' from kranzq_items",
    ]
    if dialect == "sqlite":
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute("pragma synchronous=off")
            for row in rows:
                connection.execute(row)
            connection.commit()
            connection.execute("pragma wal_checkpoint(truncate)")
    else:
        with psycopg.connect(url, autocommit=True) as server:
            for row in rows:
                server.execute(row.encode())
            server.execute("vacuum analyze")
    store.stats()


def _inserted(case: Case, series: str) -> str:
    due = "4102444800000 + n" if case.state == "'delayed'" else "null"  # the year 2100
    return f"insert into kranzq_items ({COLUMNS}) {series}{ROW.format(**case._asdict(), due=due)}"


@contextlib.contextmanager
def queue(url: str, folder: Path) -> Iterator[tuple[SqlBackend, str]]:
    """An empty queue: a new file, or a new database of the server at the URL."""
    if url == "sqlite":
        with tempfile.TemporaryDirectory(dir=folder) as place:
            path = f"sqlite:///{place}/work.db"
            with open_store(path) as store:
                yield store, path
        return
    with postgres.database(url) as database, open_store(database) as store:
        yield store, database


def timed(act: Callable[[], object], times: int) -> tuple[float, float]:
    """The median time of a call in milliseconds, and this process's processor time for each."""
    walls, cpu = [], time.process_time()
    for _ in range(times):
        began = time.perf_counter()
        act()
        walls.append(time.perf_counter() - began)
    return statistics.median(walls) * 1000, (time.process_time() - cpu) / times * 1000


def backlog(engines: list[str], folder: Path, most: int) -> None:
    """One claim behind ever more rows."""
    sizes = [size for size in SIZES if size <= most]
    print("| engine | what lies there | " + " | ".join(f"{size:,}" for size in sizes) + " | last / first |")
    print("|---|---|" + "---|" * (len(sizes) + 1))
    for engine in engines:
        name = "SQLite" if engine == "sqlite" else "PostgreSQL"
        for what, case in CASES.items():
            walls, cpus = [], []
            for many in sizes:
                with queue(engine, folder) as (store, url):
                    fill(store, case, many, url)
                    for _ in range(20):
                        store.claim(ANN)
                    wall, cpu = timed(lambda store=store: store.claim(ANN), CLAIMS)  # type: ignore[misc]
                walls.append(wall)
                cpus.append(cpu)
            line = " | ".join(f"{wall:.2f} ({cpu:.2f})" for wall, cpu in zip(walls, cpus, strict=True))
            print(f"| {name} | {what} | {line} | {walls[-1] / walls[0]:.1f} ({cpus[-1] / cpus[0]:.1f}) |", flush=True)


def together(engines: list[str], folder: Path) -> None:
    """Threads of one process that each enqueue one after the other, against the batch verbs."""
    print("| engine | how | items/s | each call takes ms, median / 99 % / longest |")
    print("|---|---|---|---|")
    for engine in engines:
        name = "SQLite" if engine == "sqlite" else "PostgreSQL"
        for threads in (1, 4, 16, 64):
            with queue(engine, folder) as (store, _):
                many, waits = by_threads(store, threads, 1.5)
            told = f"{statistics.median(waits):.2f} / {percentile(waits):.1f} / {max(waits):.0f}"
            print(f"| {name} | enqueue, {threads} threads | {many:,.0f} | {told} |", flush=True)
        for size in (10, 100, 1000):
            with queue(engine, folder) as (store, _):
                for verb, act in batches(store, size):
                    wall, _ = timed(act, max(3, 1000 // size))
                    print(f"| {name} | {verb}, {size} at once | {size / wall * 1000:,.0f} | {wall:.1f} |", flush=True)


def by_threads(store: SqlBackend, threads: int, seconds: float) -> tuple[float, list[float]]:
    """Items a second, and what each call took in milliseconds."""
    each = clients.by_threads([lambda: store.enqueue(item())] * threads, seconds)
    waits = [wait for one in each for wait in one]
    return len(waits) / seconds, waits


def batches(store: SqlBackend, size: int) -> list[tuple[str, Callable[[], object]]]:
    """The batch verbs, each of which finds what the one before left."""
    claims: list[Finish] = []

    def claim() -> None:
        claims.extend(Finish(one) for one in store.claim_many(ANN, limit=size))

    def finish() -> None:
        store.finish_many([claims.pop() for _ in range(size)])

    return [
        ("enqueue_many", lambda: store.enqueue_many([item() for _ in range(size)])),
        ("claim_many", claim),
        ("finish_many", finish),
    ]


def percentile(waits: list[float]) -> float:
    """What 99 of 100 calls did not exceed."""
    return sorted(waits)[int(len(waits) * 0.99)]


def fairness(engines: list[str], folder: Path) -> None:
    """Processes that claim and finish without a pause."""
    print("| engine | processes | claims and ends/s | slowest / fastest process | median ms | 99 % | longest ms |")
    print("|---|---|---|---|---|---|---|")
    for engine in engines:
        name = "SQLite" if engine == "sqlite" else "PostgreSQL"
        for processes in (1, 2, 4, 8):
            with queue(engine, folder) as (store, url):
                for _ in range(20):
                    store.enqueue_many([item() for _ in range(1000)])
                each = by_processes(url, processes, 4.0)
            done = [len(waits) for waits in each]
            waits = [wait for one in each for wait in one]
            ratio = min(done) / max(done)
            print(
                f"| {name} | {processes} | {sum(done) / 4:,.0f} | {ratio:.2f} | {statistics.median(waits):.2f} |"
                f" {percentile(waits):.1f} | {max(waits):.0f} |",
                flush=True,
            )


def by_processes(url: str, processes: int, seconds: float) -> list[list[float]]:
    """For each process what a claim and its end took together, in milliseconds."""
    with clients.processes("ours", url, processes) as started:
        return started.run(processes, seconds)


def main() -> None:
    """Print the table that was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["backlog", "together", "fairness"])
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--no-postgres", action="store_true")
    told = parser.parse_args()
    with contextlib.ExitStack() as stack:
        engines = ["sqlite"]
        if not told.no_postgres and postgres.is_there():
            given = os.environ.get(postgres.VARIABLE)
            engines.append(given or stack.enter_context(postgres.running()).url())
        if told.what == "backlog":
            backlog(engines, told.folder, told.most)
        elif told.what == "together":
            together(engines, told.folder)
        else:
            fairness(engines, told.folder)


if __name__ == "__main__":
    main()
