"""Waiting for work on both engines: told at once, and nothing falls between a claim and the wait."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.hints import Hints
from kranzq.backends.sql.listening import Listener
from kranzq.backends.sql.opening import open_store
from kranzq.backends.sql.postgres import PostgresDatabase
from kranzq.model.claim import Holder
from kranzq.testing.items import given, item
from tests.factories import run_python
from tests.item_stores import settle
from tests.laboratory import PATIENCE, wait_for
from tests.postgres_proxy import Proxy

HOLDER = Holder("ann")
LONG = PATIENCE
ENQUEUE = """
import sys
from kranzq.work import NewItem, open
with open(sys.argv[1]) as store:
    store.enqueue(NewItem("a title", "a payload"))
    sys.stdin.readline()
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each engine's URL."""
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return f"sqlite://{tmp_path}/work.db"


@pytest.fixture
def store(url: str) -> Iterator[SqlBackend]:
    """An empty work queue."""
    with open_store(url) as one:
        yield one


def test_the_first_wait_knows_nothing_and_says_so(store: SqlBackend) -> None:
    """Who has not looked yet is sent to look."""
    assert store.wait_for_work(LONG)


def test_a_wait_ends_in_time_when_nothing_happens(store: SqlBackend) -> None:
    """Silence is told after the seconds that were asked for."""
    settle(store)
    began = time.monotonic()

    assert not store.wait_for_work(0.1)
    assert time.monotonic() - began < LONG / 2


def test_work_from_another_process_wakes_who_waits(store: SqlBackend, url: str) -> None:
    """An item that another program enqueues is told long before any poll would find it."""
    settle(store)
    with run_python(ENQUEUE, url) as process:
        assert store.wait_for_work(LONG)
        assert store.claim(HOLDER) is not None
        process.communicate("\n")


def test_what_comes_between_a_claim_and_the_wait_is_told(store: SqlBackend) -> None:
    """A hint that came while nobody waited ends the next wait at once."""
    settle(store)
    assert store.claim(HOLDER) is None
    store.enqueue(item())

    assert store.wait_for_work(LONG)


def test_everybody_who_waits_is_woken(store: SqlBackend) -> None:
    """Each thread hears each hint, whoever heard it first."""
    settled = threading.Barrier(5)

    def wait() -> bool:
        settle(store)
        settled.wait(LONG)
        return store.wait_for_work(LONG)

    with ThreadPoolExecutor(4) as pool:
        waits = [pool.submit(wait) for _ in range(4)]
        settled.wait(LONG)
        store.enqueue(item())

        assert all(one.result() for one in waits)


def test_a_release_and_a_lapse_are_told(store: SqlBackend) -> None:
    """Whatever makes an item claimable wakes those who wait."""
    store.enqueue(item("w-1"))
    held = given(store.claim(HOLDER))
    settle(store)
    store.release(held)
    assert store.wait_for_work(LONG)

    store.heartbeat(given(store.claim(HOLDER)), 1)
    settle(store)
    wait_for(store.sweep, "the lease is over")
    assert store.wait_for_work(LONG)


def test_hints_are_counted_for_each_thread_alone() -> None:
    """One thread's wait takes nothing from another's."""
    hints = Hints()
    with ThreadPoolExecutor(1) as pool:
        assert hints.wait(0)
        assert pool.submit(hints.wait, 0).result()
        assert not hints.wait(0)
        hints.note()

        assert hints.wait(0)
        assert pool.submit(hints.wait, 0).result()
        assert not pool.submit(hints.wait, 0).result()


def listening(url: str) -> list[int]:
    """The server's processes that wait for hints of this database."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(
            "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
            " and query like 'listen%'"
        ).fetchall()
    return [pid for (pid,) in found]


def test_a_lost_listener_listens_again(postgres_url: str) -> None:
    """After its connection was ended there is one hint, one connection, and every later hint."""
    with open_store(postgres_url) as store:
        settle(store)
        for _ in range(3):
            (pid,) = wait_for(lambda: listening(postgres_url), "it listens")
            with psycopg.connect(postgres_url, autocommit=True) as connection:
                connection.execute("select pg_terminate_backend(%s, 30000)", (pid,))
            assert store.wait_for_work(LONG)
        wait_for(lambda: len(listening(postgres_url)) == 1, "it listens")
        settle(store)
        store.enqueue(item())

        assert store.wait_for_work(LONG)
        assert len(listening(postgres_url)) == 1
    wait_for(lambda: not listening(postgres_url), "a closed store listens no more")


def test_a_half_open_connection_is_found_out(postgres_url: str) -> None:
    """When the cable is gone and nobody says so, the listener asks, gets no answer, and connects anew."""
    with Proxy(postgres_url) as proxy:
        database = PostgresDatabase(proxy.url)
        listener = Listener(database._connections, alive_s=0.05, answer_s=0.1)
        assert listener.wait(LONG)
        wait_for(lambda: listener._hints._count, "it listens")
        wait_for(lambda: not listener.wait(0.2), "it listens in silence")
        before = proxy.connections
        proxy.swallow()
        wait_for(lambda: proxy.connections > before, "it connects anew")
        proxy.flow()

        assert listener.wait(LONG)
        listener.close()
        database.close()


def test_who_never_waits_listens_to_nothing(postgres_url: str) -> None:
    """A program that only enqueues has no listening connection and no thread."""
    before = set(threading.enumerate())  # a listener of another test that was just connecting ends by itself
    with open_store(postgres_url) as store:
        store.enqueue(item())

        wait_for(lambda: not listening(postgres_url), "nobody listens")
        assert "kranzq-listener" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_who_was_interrupted_holds_nobody_up() -> None:
    """Wherever a signal raises in one that waits or tells: others tell and wait as before."""
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("signals are for the main thread")

    def raised(*_: object) -> None:
        raise InterruptedError

    def interrupt() -> None:
        assert main.ident is not None
        while asked.acquire(timeout=PATIENCE):
            time.sleep(random.uniform(0, 1e-4))
            signal.pthread_kill(main.ident, signal.SIGUSR1)

    hints, asked = Hints(), threading.Semaphore(0)
    before = signal.signal(signal.SIGUSR1, raised)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        for _ in range(100):
            try:
                asked.release()
                while True:
                    hints.wait(0)
                    hints.note()
            except InterruptedError:
                pass
            other = threading.Thread(target=hints.note, daemon=True)
            other.start()
            other.join(PATIENCE)
            assert not other.is_alive()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert hints.wait(0)
