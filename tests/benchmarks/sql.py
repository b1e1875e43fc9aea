"""(d) The work queue on SQLite and on PostgreSQL: one client, batches, threads, processes, and a waiter."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from kranzq import work
from tests.benchmarks import figures, sql_clients, work_queue
from tests.benchmarks.asked import Asked, Kind, Result, Target
from tests.benchmarks.floors.sql import SqliteFloor
from tests.benchmarks.items import claimed, new_item
from tests.benchmarks.peers.known import taking_part
from tests.benchmarks.places import disk
from tests.benchmarks.rounds import Measured, Subject, measure, timed_ms
from tests.benchmarks.sql_server import on_postgres

FLOOR, OURS = "floor: sqlite3, synchronous=FULL", "kranzq"
WAITING = 1_000


def run(asked: Asked) -> Result:
    """SQLite first, then PostgreSQL where there is a server."""
    here = disk(asked.folder).there / "d"
    here.mkdir()
    parts = [_one_client(here, asked), sql_clients.enqueueing(here, asked), _batches(here, asked)]
    processes, all_of = sql_clients.processes("sqlite", "SQLite", here, asked)
    parts += [processes, Result([], [*sql_clients.fairness(all_of)]), on_postgres(asked)]
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


def _batches(folder: Path, asked: Asked) -> Result:
    """The batch verbs."""
    with work_queue.queue("sqlite", folder) as (store, _):
        subjects = [
            Subject(f"kranzq, {verb}, {size} at once", "ours", _per_item(act, size))
            for size in (10, 100)
            for verb, act in work_queue.batches(store, size)
        ]
        many = measure(subjects, asked.so_many_rounds(10), 3, folder, warm_up=0)
    how = "Milliseconds an item, all of a batch in one call and one commit."
    return Result([many.table("batches, SQLite", "ms", how)], canary=many.canary)


def _per_item(act: Callable[[], object], size: int) -> Callable[[], float]:
    return lambda: timed_ms(act) / size
