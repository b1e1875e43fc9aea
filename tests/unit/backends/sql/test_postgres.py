"""PostgreSQL as an engine: few messages, nothing left in the session, and plans that go by an index."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from kranzq.backend import Wanted
from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.opening import open_store
from kranzq.backends.sql.postgres import PostgresDatabase
from kranzq.backends.sql.statements import statements
from kranzq.errors import StoreLocked, StoreUnreachable
from kranzq.model.claim import Holder
from kranzq.model.work import Finish, ItemClaim
from kranzq.testing.items import given, item
from kranzq.testing.store import together
from tests.item_stores import settle
from tests.laboratory import PATIENCE, wait_for
from tests.postgres_proxy import Proxy

HOLDER = Holder("ann")


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlBackend]:
    """An empty work queue."""
    with open_store(postgres_url) as one:
        yield one


@contextlib.contextmanager
def watched(url: str) -> Iterator[tuple[SqlBackend, Callable[[], int]]]:
    """A store that is warm, and a function that tells how many messages went to the server since its last call."""
    with Proxy(url) as proxy, open_store(proxy.url) as store:
        store.enqueue(item("first"))
        store.finish(given(store.claim(HOLDER)))
        told = proxy.queries

        def count() -> int:
            nonlocal told
            told, before = proxy.queries, told
            return told - before

        yield store, count


def test_what_holders_do_often_is_one_message(postgres_url: str) -> None:
    """Enqueue, heartbeat, release and finish go to the server and back once; a key costs three ways more."""
    with watched(postgres_url) as (store, count):

        def claimed() -> ItemClaim:
            return given(store.claim(HOLDER, lease_ms=600_000))

        def messages(act: Callable[[], object]) -> int:
            count()
            act()
            return count()

        told = {"enqueue": messages(lambda: store.enqueue(item("w-1"))), "show": messages(lambda: store.show("w-1"))}
        held = claimed()
        told["heartbeat"] = messages(lambda: store.heartbeat(held))
        told["release"] = messages(lambda: store.release(held))
        again = claimed()
        told["finish"] = messages(lambda: store.finish(again))
        told["keyed"] = messages(lambda: store.enqueue(item("w-2", key="k")))
        told["cancel"] = messages(lambda: store.cancel("w-2"))

    assert told == {"enqueue": 1, "show": 1, "heartbeat": 1, "release": 1, "finish": 1, "keyed": 4, "cancel": 3}


def test_a_claim_is_one_message(postgres_url: str) -> None:
    """Also when it sweeps; an empty one looks twice."""
    with watched(postgres_url) as (store, count):
        store.enqueue_many([item() for _ in range(3)])
        count()
        told = []
        for passed in (False, True, False, False):
            if passed:
                store._claiming._swept = float("-inf")
            store.claim(HOLDER)
            told.append(count())

        assert told == [1, 1, 1, 2]


def test_many_items_are_few_messages(postgres_url: str) -> None:
    """A thousand items are enqueued, claimed and finished in a dozen messages."""
    with watched(postgres_url) as (store, count):
        store.enqueue_many([item(key=f"k-{number}") for number in range(1000)])
        held = store.claim_many(HOLDER, limit=1000)
        answers = store.finish_many([Finish(one) for one in held])

        assert (len(held), answers) == (1000, [None] * 1000)
        assert count() < 30


def test_nothing_stays_in_the_session(postgres_url: str) -> None:
    """No setting, prepared statement, advisory lock or channel outlives a transaction: a pooler may sit between."""
    with open_store(postgres_url) as store:
        database = store.database
        assert isinstance(database, PostgresDatabase)
        store.enqueue_many([item(key="k"), item()])
        for held in store.claim_many(HOLDER, limit=2):
            store.heartbeat(held)
            store.release(held)
        store.claim(HOLDER, request_id="r")
        store.sweep()
        store.page()
        store.prune(0)
        with database._connections.borrowed(float("inf")) as connection:
            left = connection.execute(
                "select (select count(*) from pg_prepared_statements) as prepared,"
                " (select count(*) from pg_listening_channels()) as channels,"
                " (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()) as locks,"
                " (select string_agg(name, ' ') from pg_settings"
                " where source = 'session' and name <> 'application_name') as settings"
            ).fetchone()

    assert left == {"prepared": 0, "channels": 0, "locks": 0, "settings": None}


ODD = [
    "\\",
    "it's",
    "\\' or 1=1 --",
    "'; drop table kranzq_items; --",
    "%s %(id)s :id ::text",
    "E'\\x'",
    "$$",
    "/* */",
    "\u2028é🙂",
]


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_any_text_is_kept_as_it_came(postgres_url: str, conforming: str) -> None:
    """Values are bound on our side: no text ends a literal, whatever the server takes a backslash for."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"alter role current_user set standard_conforming_strings = {conforming}".encode())
    try:
        with open_store(postgres_url) as store:
            for place, text in enumerate(ODD):
                name = f"{text}{place}"
                holder = Holder(text, uid=f"u{text}")
                new = item(name, title=text, payload=text, kind=text, agent=text, created_by=text, key=text)
                assert (store.enqueue(new).created, store.enqueue(new).created) == (True, False)
                assert all(
                    one.created for one in store.enqueue_many([item(f"{name}-1", kind=text), item(payload=text)])
                )
                held = given(store.claim(holder, Wanted(missions=frozenset({name})), request_id=text))
                assert given(store.claim(holder, request_id=text)).id == store.heartbeat(held).id == name
                shown = store.show(name)
                assert (shown.title, shown.payload, shown.kind, shown.claimed_by) == (text, text, text, text)
                assert store.finish_many([Finish(held, result=text)]) == [None]
                assert store.show(name).result == text
            assert len(store.page(limit=500).items) == 3 * len(ODD)
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("alter role current_user reset standard_conforming_strings")


def filled(url: str) -> None:
    """Two thousand open items of others before one's own, as many that have ended, some claimed, some delayed."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "insert into kranzq_items (id, title, kind, target, target_agent, target_agent_uid, target_group, priority,"
            " state, max_attempts, created_by, created_by_uid, created_at, updated_at, not_before, digest,"
            " claim_expires) select n::text, 't', 'k' || n % 5,"
            " case when n % 4 = 0 then 'n:ann' else 'n:other' || n % 300 end, '', '', '', 0,"
            " case when n % 50 = 1 then 'claimed' when n % 50 = 2 then 'delayed'"
            " when n % 2 = 0 then 'open' else 'done' end,"
            " 3, '', '', n, n, 4000000000000 + n, '', 4000000000000 + n from generate_series(1, 20000) n"
        )
        connection.execute("insert into kranzq_payloads (seq, payload) select seq, 'p' from kranzq_items")
        connection.execute("vacuum analyze")


PLANS: dict[str, tuple[str, dict[str, object]]] = {
    "claim": ("kranzq_ready", {"targets": json.dumps(["*", "n:ann"])}),
    "claim_kind": ("kranzq_ready_kind", {"targets": json.dumps(["*", "n:ann"]), "kind": "k1"}),
    "claim_named": ("kranzq_items_id_key", {"targets": json.dumps(["*", "n:ann"]), "ids": '["4"]', "kind": ""}),
    "lapse": ("kranzq_leases", {}),
    "open_due": ("kranzq_due", {}),
    "newest": ("kranzq_listed", {"state": "done"}),
    "page_keys": ("kranzq_listed", {"state": "done", "before": 2**62, "before_seq": 2**62}),
    "heartbeat": ("kranzq_items_id_key", {"id": "51", "attempt": 0}),
    "finish": ("kranzq_items_id_key", {"id": "51", "attempt": 0, "state": "done", "result": ""}),
    "release": ("kranzq_items_id_key", {"id": "51", "attempt": 0, "declined": 0, "delay": 0, "why": ""}),
}


def test_each_statement_goes_by_its_index(postgres_url: str) -> None:
    """No statement of a claim's life reads the table or sorts a backlog, whatever lies in front."""
    filled(postgres_url)
    common: dict[str, object] = {"holder": "ann", "holder_uid": "", "lease": 1000, "request_id": "r", "most": 1}

    for name, (index, values) in PLANS.items():
        with psycopg.connect(postgres_url, cursor_factory=psycopg.ClientCursor) as connection:
            command = f"explain (format json) {statements('postgres')[name][0]}".encode()
            (plan,) = connection.execute(command, common | values).fetchone() or ([],)
            connection.rollback()
        nodes = list(nodes_of(plan[0]["Plan"]))
        scanned = {node["Relation Name"] for node in nodes if node["Node Type"] == "Seq Scan"}

        assert index in {node.get("Index Name") for node in nodes}, (name, plan)
        assert "kranzq_items" not in scanned, (name, plan)
        assert all(node["Plan Rows"] <= 1000 for node in nodes if node["Node Type"] == "Sort"), (name, plan)


def test_a_claim_touches_a_handful_of_pages(postgres_url: str) -> None:
    """Whatever lies in front or beside: the pages that a claim looks at hardly grow, so its time does not either."""
    filled(postgres_url)
    values = {"holder": "ann", "holder_uid": "", "lease": 1000, "request_id": "r", "most": 1, **PLANS["claim"][1]}
    with psycopg.connect(postgres_url, cursor_factory=psycopg.ClientCursor) as connection:
        command = f"explain (analyze, buffers, format json) {statements('postgres')['claim'][0]}".encode()
        pages = []
        for _ in range(2):  # the first one also reads what it plans by
            (plan,) = connection.execute(command, values).fetchone() or ([],)
            connection.rollback()
            pages.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
        whole = connection.execute("select pg_relation_size('kranzq_items') / 8192").fetchone()

    assert pages[1] < 60 < (whole or (0,))[0]


def nodes_of(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """All nodes of a plan."""
    yield plan
    for one in plan.get("Plans", []):
        yield from nodes_of(one)


def test_a_database_that_is_strict_about_order_is_served(postgres_url: str) -> None:
    """A default of serializable, or of reading only, is not ours: transactions say what they need."""
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"alter database {name} set default_transaction_isolation = 'serializable'".encode())
    try:
        with open_store(postgres_url) as store:
            store.enqueue_many([item() for _ in range(30)])
            taken: list[str] = []
            together(6, lambda _: taken.extend(given(store.claim(HOLDER)).id for _ in range(5)))
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"alter database {name} reset default_transaction_isolation".encode())

    assert len(taken) == len(set(taken)) == 30


def test_a_forgotten_lock_is_waited_for_and_then_named(postgres_url: str) -> None:
    """Whoever keeps a row locked for too long is told of, nothing is changed, and the connection is used again."""
    with open_store(postgres_url) as store:
        store.enqueue(item("w-1"))
        held = given(store.claim(HOLDER))
        database = PostgresDatabase(postgres_url, patience_s=0.3)
        short = SqlBackend(database)
        with psycopg.connect(postgres_url) as forgotten:
            forgotten.execute("select * from kranzq_items for update")
            with pytest.raises(StoreLocked, match="nothing was changed"):
                short.finish(held)
        database._patience = PATIENCE
        short.finish(held)
        short.close()


def test_a_server_that_answers_nothing_is_given_up(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call ends at its deadline even when neither an answer nor an end of the connection comes."""
    monkeypatch.setattr("kranzq.backends.sql.postgres._ANSWER_S", 0.1)
    with Proxy(postgres_url) as proxy:
        database = PostgresDatabase(proxy.url, patience_s=PATIENCE)
        database.schema()
        proxy.swallow()
        database._patience = 0.3
        with pytest.raises(StoreUnreachable, match="no answer within"):
            database.schema()
        proxy.flow()
        database._patience = PATIENCE
        database.schema()
        database.close()


def test_more_threads_than_connections_take_turns(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads wait for a connection; past their patience they are told so."""
    monkeypatch.setattr("kranzq.backends.sql.connections.MOST_CONNECTIONS", 2)
    with open_store(postgres_url) as store:

        def enqueue_one(_: int) -> None:
            store.enqueue(item())

        together(8, enqueue_one)
        assert len(store.entries()) == 8

    database = PostgresDatabase(postgres_url, patience_s=0.2)
    holding, done = threading.Barrier(3), threading.Event()

    def hold() -> None:
        with database._connections.borrowed(float("inf")):
            holding.wait(PATIENCE)
            done.wait(PATIENCE)

    threads = [threading.Thread(target=hold) for _ in range(2)]
    for thread in threads:
        thread.start()
    holding.wait(PATIENCE)
    with pytest.raises(StoreLocked, match="on all its connections"):
        database.schema()
    done.set()
    for thread in threads:
        thread.join()
    database.close()


def test_a_child_process_makes_connections_of_its_own(store: SqlBackend) -> None:
    """After a fork neither of the two speaks through the other's connection."""
    store.enqueue(item("w-1"))
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            store.enqueue(item("w-2"))
            store.close()
            os._exit(0)
        os._exit(1)
    for number in range(20):
        store.enqueue(item(f"p-{number}"))
    _, code = os.waitpid(pid, 0)

    assert code == 0
    assert len(store.entries()) == 22


def test_a_child_process_that_only_closes_takes_nothing_from_its_parent(store: SqlBackend) -> None:
    """The parent still hears of work, on the connection that it had."""
    store.enqueue(item("w-1"))
    settle(store)
    pid = os.fork()
    if pid == 0:
        store.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    database = store.database
    assert isinstance(database, PostgresDatabase)
    before = list(database._connections._idle)
    store.enqueue(item("w-2"))

    assert store.wait_for_work(PATIENCE)
    assert database._connections._idle == before


def test_waiting_while_others_close_leaves_nothing_open(store: SqlBackend) -> None:
    """A listener that is closed and asked for at once ends with its pipe."""
    over = threading.Event()

    def wait() -> None:
        while not over.is_set():
            store.wait_for_work(0.001)

    store.enqueue(item("w-1"))
    before = len(os.listdir("/proc/self/fd"))
    waiters = [threading.Thread(target=wait) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    for _ in range(40):
        store.close()
    over.set()
    for waiter in waiters:
        waiter.join()
    store.close()

    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= before, "all is closed")
