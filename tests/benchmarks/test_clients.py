"""Clients at once, and a peer's worker that waits for a job: what is told of them, and that faults are heard."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks import clients, sql_clients
from tests.benchmarks.clients import AtOnce
from tests.benchmarks.floors.sql import floor_of
from tests.benchmarks.peers.server_jobs import Pickup, tells


def at_once(name: str, *rounds: clients.Waits) -> AtOnce:
    """Clients whose turns are known beforehand."""
    given = iter(rounds)
    one = AtOnce(name, "ours", len(rounds[0]), 2.0, lambda: next(given))
    for _ in rounds:
        one.subject().sample()
    return one


def test_who_starved_and_who_waited_is_told() -> None:
    """The fairness is the median of the rounds, the longest wait is that of all of them."""
    floor = at_once("floor", [[1.0] * 8, [9.0] * 0], [[1.0] * 8, [900.0]], [[1.0] * 4, [2.0] * 4])
    ours = at_once("kranzq", [[1.0] * 2, [2.0] * 2], [[1.0] * 9, [1.0] * 9], [[1.0] * 2, [5.0] * 2])

    assert floor.rates() == [4.0, 4.5, 4.0]
    assert floor.fairness() == [0.0, 0.125, 1.0]
    assert dict(sql_clients.columns(ours, floor)) == {
        "x floor of as many (lowest to highest round)": "0.5 (0.5 to 2)",
        "slowest / fastest": 1.0,
        "median, ms": 1.0,
        "99.9 %, ms": 5.0,
        "longest, ms": 5.0,
    }
    assert sql_clients.columns(floor, floor)["longest, ms"] == 900.0


def test_a_thread_that_fails_is_heard() -> None:
    """The others come to their end, and the fault is raised."""

    def fails() -> None:
        raise OSError("it is gone")

    with pytest.raises(OSError, match="it is gone"):
        clients.by_threads([lambda: None, fails], 0.01)


def test_processes_act_in_turns_and_one_that_runs_out_is_heard(tmp_path: Path) -> None:
    """Each gives what its acts took; when nothing is left to claim, the turn is a fault and no figure."""
    floor = floor_of(f"sqlite://{tmp_path}/floor.db")
    floor.fill(5_000)
    with clients.processes("floor", f"sqlite://{tmp_path}/floor.db", 2) as started:
        each = started.run(2, 0.01)
        with contextlib.closing(sqlite3.connect(tmp_path / "floor.db", isolation_level=None)) as other:
            other.execute("update floor_items set state = 'done'")
        with pytest.raises(RuntimeError, match="has ended"):
            started.run(2, 0.01)
    floor.close()

    assert len(each) == 2
    assert all(wait > 0 for waits in each for wait in waits)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop of a peer."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


def test_a_worker_that_waits_tells_when_it_began(loop: asyncio.AbstractEventLoop) -> None:
    """One worker for all calls, ended at the end."""
    jobs: asyncio.Queue[None] = asyncio.Queue()
    ended = []

    async def work() -> None:
        try:
            while True:
                await jobs.get()
                await tells()
        finally:
            ended.append("worker")

    pickup = Pickup(loop, lambda: jobs.put(None), work)
    taken = [pickup.once() for _ in range(3)]

    assert all(one > 0 for one in taken)
    assert ended == []
    pickup.close()
    assert ended == ["worker"]


def test_a_worker_that_fails_is_heard(loop: asyncio.AbstractEventLoop) -> None:
    """Nobody waits for a job that will never begin."""

    async def work() -> None:
        raise OSError("no such table")

    async def enqueue() -> None:
        pass

    pickup = Pickup(loop, enqueue, work)
    with pytest.raises(OSError, match="no such table"):
        pickup.once()
    pickup.close()
