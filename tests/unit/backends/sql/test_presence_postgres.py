"""Presence on PostgreSQL: what has piled up goes in small batches, nobody waits in a circle, indexes find claims."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg
import pytest

from kranzq.backends.sql.opening import open_store
from kranzq.backends.sql.presence import PURGED_AT_ONCE, SqlPresence
from kranzq.backends.sql.statements import statements
from kranzq.model.claim import Holder
from kranzq.model.presence import NewPresence, Subject
from kranzq.model.who import Question
from kranzq.testing.store import together
from tests.unit.backends.sql.test_postgres import nodes_of

ANN, SRV = Holder("ann"), Subject("hub.example/o/r", "srv")
INSERT = """insert into kranzq_presence (id, holder, subject, agent, agent_uid, channel, repo, tail, path, branch, note,
    created_at, expires_at)
select 'id-' || n, 'n:ann', 'subject-' || n, 'ann', '', '', 'h/o/r-' || n, 'o/r-' || n, 'srv', 'b-' || n, '', 1,
    %(ends)s + n
from generate_series(1, %(count)s) n"""
LATER = 4_000_000_000_000


@pytest.fixture
def store(postgres_url: str) -> Iterator[SqlPresence]:
    """Nobody says anything."""
    with open_store(postgres_url) as one:
        yield one.presence


@pytest.fixture
def server(postgres_url: str) -> Iterator[psycopg.Connection]:
    """Beside it, the database itself."""
    with contextlib.closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        yield connection


def rows(server: psycopg.Connection) -> int:
    """How many rows there are, whatever became of them."""
    found = server.execute("select count(*) from kranzq_presence").fetchone()
    assert found is not None
    return int(found[0])


@contextlib.contextmanager
def all_plans_but_row_by_row_forbidden(server: psycopg.Connection) -> Iterator[None]:
    """For new connections: the server has to join by looking for each row."""
    (name,) = server.execute("select current_database()").fetchone() or ("",)
    for kind in ("hashjoin", "mergejoin", "hashagg", "sort", "material"):
        server.execute(f'alter database "{name}" set enable_{kind} = off'.encode())
    try:
        yield
    finally:
        server.execute(f'alter database "{name}" reset all'.encode())


@pytest.mark.parametrize("plan", ["as it comes", "row by row"])
def test_ten_thousand_expired_rows_go_in_small_batches(
    store: SqlPresence, server: psycopg.Connection, plan: str
) -> None:
    """Nobody sees them, they count for no limit, and each put and release takes a hundred of them away.

    Whatever plan the server makes of its guesses, also one that asks a subquery for each row.
    """
    forbidden = all_plans_but_row_by_row_forbidden(server) if plan == "row by row" else contextlib.nullcontext()
    with forbidden:
        store._database.close()
        server.execute(INSERT, {"ends": 1000, "count": 10_000})
        assert (store.live(), store.about(Question("o/r-1")), store.release(ANN, "id-1")) == ([], [], [])
        claim = store.put(NewPresence(ANN, SRV)).claim

        assert rows(server) == 10_000 - 2 * PURGED_AT_ONCE + 1
        assert store.live() == [claim]


def test_claims_are_found_by_indexes(store: SqlPresence, server: psycopg.Connection) -> None:
    """Among ten thousand live claims a question about a repository or branch looks at its own."""
    server.execute(INSERT, {"ends": LATER, "count": 10_000})
    server.execute("analyze kranzq_presence")
    assert store.about(Question("o/r-70000")) == []
    assert [one.id for one in store.about(Question("o/r-7", branch="b-9"))] == ["id-7", "id-9"]

    (command,) = statements("postgres")["presence_about"]
    values = {"tail": "o/r-7", "branch": "b-9", "absolute": 1, "words": 0}
    found = psycopg.ClientCursor(server).execute(f"explain (format json) {command}".encode(), values).fetchone()
    assert found is not None
    nodes = list(nodes_of(found[0][0]["Plan"]))
    used = {node.get("Index Name") for node in nodes}
    assert {"kranzq_presence_tail", "kranzq_presence_branch"} <= used
    assert "Seq Scan" not in {node["Node Type"] for node in nodes}


def test_those_who_claim_what_has_expired_do_not_wait_for_each_other_in_a_circle(
    store: SqlPresence, server: psycopg.Connection
) -> None:
    """Eight that revive each other's expired rows, and sweep on the way, all get their claims."""
    abouts = [Subject(topic=str(number)) for number in range(8)]
    deadlocks = "select deadlocks from pg_stat_database where datname = current_database()"
    before = server.execute(deadlocks).fetchone()
    for _ in range(5):
        for about in abouts:
            store.put(NewPresence(ANN, about))
        server.execute("update kranzq_presence set expires_at = 1")

        def claim(number: int) -> None:
            for step in range(len(abouts)):
                assert store.put(NewPresence(ANN, abouts[(number + step) % len(abouts)])).claim.agent == "ann"

        together(8, claim)
        assert len(store.live()) == rows(server) == len(abouts)
    assert server.execute(deadlocks).fetchone() == before
