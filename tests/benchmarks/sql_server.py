"""(d) on PostgreSQL: a server of the benchmark's own that syncs, beside the driver alone and the queues of others."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kranzq import work
from tests import postgres
from tests.benchmarks import figures, sql_clients
from tests.benchmarks.asked import Asked, Result, Row, Table, Target
from tests.benchmarks.floors.sql import PostgresFloor
from tests.benchmarks.items import HOLDER, LEASE_MS, claimed, new_item
from tests.benchmarks.peers.acts import PATIENCE_S, PAUSE_S, ServerActs
from tests.benchmarks.peers.known import taking_part
from tests.benchmarks.places import disk
from tests.benchmarks.rounds import Measured, Subject, measure

FLOOR, OURS = "floor: psycopg, one connection", "kranzq"
BATCH = 100
ONE_BY_ONE = "Milliseconds an item, of calls one after the other from one client, each durable when it returns."
JOBS = "Milliseconds a job that does nothing, from the first claim until the last end is recorded; enqueued before."
PICKUP = (
    "Milliseconds from the call that enqueues to the claim of somebody who waits for work, nothing else happening;"
    " of peers until the job's first line."
)
WORKER = "its worker on the loop that enqueues"


def on_postgres(asked: Asked) -> Result:
    """All tables, or the reason why there are none."""
    if not postgres.is_there():
        return Result([], remarks=[f"Nothing on PostgreSQL: {postgres.MISSING}."])
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgres.running(durable=True))

        def database() -> str:
            return stack.enter_context(postgres.database(server.url()))

        floor = PostgresFloor(database())
        stack.callback(floor.close)
        store = stack.enter_context(work.open(database()))
        peers, rows = taking_part("on_postgres")
        offered: dict[str, ServerActs] = {}
        for peer in peers:
            try:
                offered[peer.NAME] = stack.enter_context(peer.on_postgres(database()))
            except Exception as fault:  # noqa: BLE001 (the others are measured all the same)
                rows.append(Row(peer.NAME, "absent", note=f"failed: {type(fault).__name__}: {fault}"[:200]))
        parts = [_enqueueing(floor, store, offered, rows, asked), _jobs(floor, store, offered, rows, asked)]
        parts.append(sql_clients.claiming(server.url(), asked))
        parts.append(sql_clients.processes(server.url(), "PostgreSQL", _here(asked), asked)[0])
        parts.append(_pickup(server.url, offered, rows, asked))
    return Result(
        [table for part in parts for table in part.tables],
        [target for part in parts for target in part.targets],
        canary=[sang for part in parts for sang in part.canary],
    )


def _each(act: Callable[[], object]) -> Callable[[int], float]:
    def many(times: int) -> float:
        began = time.perf_counter()
        for _ in range(times):
            act()
        return (time.perf_counter() - began) / times * 1000

    return many


def _enqueueing(
    floor: PostgresFloor, store: work.SharedStore, offered: dict[str, ServerActs], absent: list[Row], asked: Asked
) -> Result:
    many = asked.so_many(20, 100)
    subjects = [
        Subject(FLOOR, "floor", _with(_each(floor.enqueue), many), "durable"),
        Subject(OURS, "ours", _with(_each(lambda: store.enqueue(new_item())), many), "durable"),
    ]
    subjects += [Subject(name, "peer", _with(one.enqueue, many), one.promises) for name, one in offered.items()]
    measured = measure(subjects, asked.so_many_rounds(12), 1, _here(asked))
    table = measured.table("enqueue one by one, PostgreSQL", "ms", ONE_BY_ONE, base=FLOOR, absent=absent)
    targets = [
        _faster("PostgreSQL, enqueue one by one", measured, OURS, FLOOR, 0.8, 0.5),
        _faster("PostgreSQL, enqueue", measured, OURS, "pgqueuer", 1.5, 1.0),
        _faster("PostgreSQL, enqueue", measured, OURS, "procrastinate", 2.5, 1.0),
    ]
    return Result([table], targets, canary=measured.canary)


def _jobs(
    floor: PostgresFloor, store: work.SharedStore, offered: dict[str, ServerActs], absent: list[Row], asked: Asked
) -> Result:
    many = asked.so_many(40, 500)
    subjects = [
        Subject(FLOOR, "floor", _with(_floor_jobs(floor), many), "durable; claim and end a commit each"),
        Subject(OURS, "ours", _with(_our_jobs(store), many), "durable; claim and end a commit each"),
        Subject(f"{OURS}, batches of {BATCH}", "ours", _with(_our_batches(store), many), "durable, ends too"),
    ]
    subjects += [
        Subject(f"{name}, {how}", "peer", _with(work_off, many), one.promises)
        for name, one in offered.items()
        for how, work_off in one.work.items()
    ]
    measured = measure(subjects, asked.so_many_rounds(8), 1, _here(asked), warm_up=asked.so_many(0, 1))
    table = measured.table("jobs, PostgreSQL", "ms", JOBS, base=FLOOR, absent=absent)
    best = _best(table, "pgqueuer")
    its = _best(table, "procrastinate")
    targets = [
        _faster("PostgreSQL, claim + finish one by one", measured, OURS, FLOOR, 0.8, 0.5),
        _faster("PostgreSQL, claim + finish one by one", measured, OURS, its, 2.0, 1.0),
        _faster(f"PostgreSQL, batches of {BATCH}", measured, f"{OURS}, batches of {BATCH}", best, 0.5, 0.25),
        _faster(f"PostgreSQL, batches of {BATCH}", measured, f"{OURS}, batches of {BATCH}", FLOOR, 1.0, 1.0),
    ]
    return Result([table], targets, canary=measured.canary)


def _with(act: Callable[[int], float], many: int) -> Callable[[], float]:
    return lambda: act(many)


def _best(table: Table, peer: str) -> str:
    """The fastest setting of a peer."""
    rows = [row for row in table.rows if row.subject.startswith(f"{peer},") and row.median is not None]
    return min(rows, key=lambda row: row.median or 0.0).subject if rows else peer


def _faster(what: str, measured: Measured, ours: str, other: str, wanted: float, acceptable: float) -> Target:
    """Rates as a ratio: how many of ours are done in the time of one of the others'."""
    found = figures.ratios(measured.rounds_of(other), measured.rounds_of(ours))
    return figures.rounds_target(what, found, wanted, acceptable, other, at_most=False)


def _floor_jobs(floor: PostgresFloor) -> Callable[[int], float]:
    return _after(_each(floor.enqueue), _each(floor.claim_and_finish))


def _our_jobs(store: work.SharedStore) -> Callable[[int], float]:
    return _after(lambda many: store.enqueue_many([new_item()] * many), _each(lambda: store.finish(claimed(store))))


def _our_batches(store: work.SharedStore) -> Callable[[int], float]:
    def work_off(many: int) -> float:
        began, left = time.perf_counter(), many
        while left:
            claims = store.claim_many(HOLDER, limit=min(BATCH, left), lease_ms=LEASE_MS)
            assert claims, "there were too few items"
            store.finish_many([work.Finish(one) for one in claims])
            left -= len(claims)
        return (time.perf_counter() - began) / many * 1000

    return _after(lambda many: store.enqueue_many([new_item()] * many), work_off)


def _after(prepare: Callable[[int], object], act: Callable[[int], float]) -> Callable[[int], float]:
    def both(many: int) -> float:
        prepare(many)
        return act(many)

    return both


def _pickup(url: Callable[[], str], offered: dict[str, ServerActs], absent: list[Row], asked: Asked) -> Result:
    """Somebody waits for work, and claims as soon as it is told."""
    with contextlib.ExitStack() as stack:
        floor = stack.enter_context(_floor_waiting(stack.enter_context(postgres.database(url()))))
        ours = stack.enter_context(_ours_waiting(stack.enter_context(postgres.database(url()))))
        subjects = [Subject("floor: LISTEN, then a claim", "floor", floor), Subject(OURS, "ours", ours)]
        subjects += [Subject(name, "peer", one.pickup, WORKER) for name, one in offered.items() if one.pickup]
        measured = measure(subjects, asked.so_many_rounds(10), asked.so_many(3, 10), _here(asked), warm_up=2)
    base = subjects[0].name
    table = measured.table("how soon a waiter has the item, PostgreSQL", "ms", PICKUP, base=base, absent=absent)
    found = figures.ratios(measured.rounds_of(OURS), measured.rounds_of(base))
    return Result([table], [figures.rounds_target("NOTIFY pickup", found, 1.5, 2.5, base)], canary=measured.canary)


@contextlib.contextmanager
def _floor_waiting(url: str) -> Iterator[Callable[[], float]]:
    sender, waiter = PostgresFloor(url), PostgresFloor(url)
    waiter.connection.execute(f"listen {PostgresFloor.CHANNEL}".encode())
    stop = threading.Event()

    def wait() -> None:
        while not stop.is_set():
            list(waiter.connection.notifies(timeout=0.2, stop_after=1))  # nothing else may use the connection meanwhile
            while (row := waiter.claim()) is not None:
                heard.put(time.perf_counter())
                waiter.finish(row)

    heard: queue.Queue[float] = queue.Queue()
    with _thread(wait, stop):
        yield _sender(lambda: sender.enqueue(told=True), heard)
    sender.close()
    waiter.close()


@contextlib.contextmanager
def _ours_waiting(url: str) -> Iterator[Callable[[], float]]:
    heard: queue.Queue[float] = queue.Queue()
    stop = threading.Event()
    with work.open(url) as sender, work.open(url) as waiter:

        def wait() -> None:
            while not stop.is_set():
                found = waiter.claim(HOLDER, lease_ms=LEASE_MS)
                if found is None:
                    waiter.wait_for_work(0.2)
                    continue
                heard.put(time.perf_counter())
                waiter.finish(found)

        with _thread(wait, stop):
            yield _sender(lambda: sender.enqueue(new_item()), heard)


@contextlib.contextmanager
def _thread(act: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)


def _sender(enqueue: Callable[[], object], heard: queue.Queue[float]) -> Callable[[], float]:
    def once() -> float:
        time.sleep(PAUSE_S)
        began = time.perf_counter()
        enqueue()
        return (heard.get(timeout=PATIENCE_S) - began) * 1000

    return once


def _here(asked: Asked) -> Path:
    return disk(asked.folder).there
