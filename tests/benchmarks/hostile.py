"""(e) A claim among what was made to be in its way costs what it costs among a thousand, and no item is given twice.

Rows are made by one statement, as `tests.benchmarks.work_queue` does it for its own table.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from kranzq.backend import Wanted
from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.claiming import SWEEP_EVERY_S
from kranzq.backends.sql.claims import SWEEP_MOST
from kranzq.backends.sql.opening import open_store
from kranzq.model.claim import Holder
from kranzq.model.work import MOST_BATCH
from kranzq.testing.items import item
from tests import postgres
from tests.benchmarks import figures
from tests.benchmarks.asked import Asked, Result, Table
from tests.benchmarks.places import disk
from tests.benchmarks.rounds import Subject, measure, timed_ms
from tests.benchmarks.work_queue import ANN, CASES, OWN, Case, fill, queue

BASE = "1,000 of one's own"
TOGETHER = 8
KIND = "mine"
OF_ANOTHER_KIND, OF_MY_KIND = CASES["all one's own"]._replace(kind="'others'"), OWN._replace(kind=f"'{KIND}'")
FOR_ANYBODY = Case("'left'", "'*'", 0, "'open'")
GONE = Holder("gone")
PATIENCE_S = 20.0
HOW = (
    "Milliseconds of one claim. The items lie in front of the claimer's own, or beside them. Leases that have run out"
    " are swept by the claims themselves, a part each time, and each lease costs that once: this row is in no target."
)
SWEEPING = {
    "sqlite": f"each claim first lets {SWEEP_MOST} of them lapse",
    "server": f"every {SWEEP_EVERY_S:g} s a claim first lets {SWEEP_MOST} of them lapse",
}


def run(asked: Asked) -> Result:
    """Both engines: the cases, then eight at once, then an old snapshot on PostgreSQL."""
    here = disk(asked.folder).there / "e"
    here.mkdir()
    parts = [_cases("sqlite", "SQLite", here, asked), _together("sqlite", "SQLite", here, asked)]
    if postgres.is_there():
        with postgres.running(durable=True) as server:
            url = server.url()
            parts += [_cases(url, "PostgreSQL", here, asked), _together(url, "PostgreSQL", here, asked)]
            parts.append(_snapshot(url, here, asked))
    else:
        parts.append(Result([], remarks=[f"Nothing on PostgreSQL: {postgres.MISSING}."]))
    return Result(
        [table for part in parts for table in part.tables],
        [target for part in parts for target in part.targets],
        [remark for part in parts for remark in part.remarks],
        [sang for part in parts for sang in part.canary],
    )


def _cases(engine: str, name: str, here: Path, asked: Asked) -> Result:
    many = asked.so_many(10_000, 100_000)
    ended = asked.so_many(10_000, 1_000_000)
    cases = {
        BASE: (CASES["all one's own"], 1_000),
        f"{many:,} others' in front, of higher priority": (CASES["others' in front"], many),
        f"{many:,} of one's own": (CASES["all one's own"], many),
        f"{many:,} of one's own in front, not due yet": (CASES["not due yet"], many),
        f"{ended:,} that ended beside": (CASES["ended beside"], ended),
    }
    another = f"{many:,} of one's own in front, of another kind"
    lapsed = f"{many:,} of another holder in front, whose leases have run out"
    with contextlib.ExitStack() as stack:

        def filled(case: Case, rows: int, own: Case = OWN) -> SqlBackend:
            store, url = stack.enter_context(queue(engine, here))
            fill(store, case, rows, url, own)
            return store

        subjects = [
            Subject(what, "floor" if what == BASE else "ours", _claiming(filled(case, rows)))
            for what, (case, rows) in cases.items()
        ]
        mine = _claiming(filled(OF_ANOTHER_KIND, many, OF_MY_KIND), Wanted(kind=KIND))
        subjects.append(Subject(another, "ours", mine, f"claims name a kind: {KIND}"))
        left = filled(FOR_ANYBODY, many)
        _abandon(left, many)
        note = SWEEPING["sqlite" if engine == "sqlite" else "server"]
        subjects.append(Subject(lapsed, "ours", _claiming(left), note))
        measured = measure(subjects, asked.so_many_rounds(12), asked.so_many(5, 20), here, warm_up=20)
    table = measured.table(f"a claim among others, {name}", "ms", HOW, base=BASE)
    worst = max((row.ratio or 0.0 for row in table.rows if row.subject != lapsed), default=None)
    target = figures.target(f"worst case on {name}", worst, 2, 5, against=BASE)
    return Result([table], [target], canary=measured.canary)


def _abandon(store: SqlBackend, many: int) -> None:
    """Claim all but the last of so many rows for the shortest time, and leave them: their leases have run out.

    Each of these claims sweeps some of those before it, and takes them again.
    """
    taken: set[str] = set()
    while len(taken) <= many - MOST_BATCH:
        taken.update(str(one.id) for one in store.claim_many(GONE, limit=MOST_BATCH, lease_ms=1))
    deadline = time.monotonic() + PATIENCE_S
    while (overdue := store.stats().overdue) < 0.8 * many:
        assert time.monotonic() < deadline, f"only {overdue} leases have run out"


def _claiming(store: SqlBackend, wanted: Wanted | None = None) -> Callable[[], float]:
    def once() -> float:
        found: list[object] = []
        taken = timed_ms(lambda: found.append(store.claim(ANN, wanted)))
        assert found[0] is not None, "there were too few items"
        return taken

    return once


def _together(engine: str, name: str, here: Path, asked: Asked) -> Result:
    """Eight that claim until nothing is left: which items were given twice, how often nothing was found too early."""
    many = asked.so_many(200, 4_000)
    given: list[str] = []
    early: list[int] = []
    with queue(engine, here) as (store, url):
        store.enqueue_many([item() for _ in range(many)])

        def claim_all() -> None:
            with open_store(url) as mine:
                got: list[str] = []
                empty = 0
                while len(given) + len(got) < many and empty < 1_000:
                    found = mine.claim(ANN)
                    if found is None:
                        empty += 1
                        if not store.entries(limit=1):
                            break
                    else:
                        got.append(str(found.item.id))
                given.extend(got)
                early.append(empty)

        threads = [threading.Thread(target=claim_all) for _ in range(TOGETHER)]
        taken = timed_ms(lambda: _all_of(threads))
    twice = len(given) - len(set(given))
    more = {"given twice": twice, "never given": many - len(set(given)), "empty answers": sum(early)}
    row = figures.row_of(f"{TOGETHER} stores, {many:,} items", "ours", [[taken / many]], more=more)
    how = f"Milliseconds an item, {TOGETHER} threads with a store each that claim until nothing is left."
    table = Table(f"claims at once, {name}", "ms", how, [row])
    return Result([table], [figures.target(f"double claims on {name}", twice, 0, 0, unit="items")])


def _all_of(threads: list[threading.Thread]) -> None:
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def _snapshot(engine: str, here: Path, asked: Asked) -> Result:
    """Claims with ends while a transaction elsewhere keeps an old snapshot, against the same without one."""
    many = asked.so_many(100, 20_000)
    part = many // 5
    rows, lasts = [], {}
    for what, held in (("no old snapshot", False), ("one held open", True)):
        with queue(engine, here) as (store, url), _holding(url, held=held):
            for _ in range(0, many, 1_000):
                store.enqueue_many([item() for _ in range(min(many, 1_000))])
            spans = [[_claim_and_end(store) for _ in range(part)] for _ in range(5)]
        lasts[what] = statistics.median(spans[-1]) / statistics.median(spans[0])
        more = {f"median of fifth {number}, ms": statistics.median(one) for number, one in enumerate(spans, 1)}
        rows.append(figures.row_of(what, "ours", spans, more=more))
    how = (
        f"Milliseconds of a claim with its end, {many:,} of them one after the other. Dead entries of an index cannot"
        " be removed while somebody may still look at them; every queue on PostgreSQL has this."
    )
    table = Table("an old snapshot, PostgreSQL", "ms", how, rows)
    worse = figures.target(
        "an old snapshot held, last fifth", lasts["one held open"], 7.5, 7.5, against="the first fifth"
    )
    return Result([table], [worse])


def _claim_and_end(store: SqlBackend) -> float:
    def once() -> None:
        found = store.claim(ANN)
        assert found is not None, "there were too few items"
        store.finish(found)

    return timed_ms(once)


@contextlib.contextmanager
def _holding(url: str, *, held: bool) -> Iterator[None]:
    """A transaction elsewhere that has looked once and stays open."""
    if not held:
        yield
        return
    with psycopg.connect(url) as other:
        other.execute(b"set transaction isolation level repeatable read")
        other.execute(b"select count(*) from kranzq_items")
        yield
        other.rollback()
