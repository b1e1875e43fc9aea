"""PostgreSQL that refuses: one clear line without the password, the exit code of its class, and nothing changed."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from kranzq.backends.sql.opening import open_database, open_store
from kranzq.errors import KranzqError, Refused, SchemaTooNew, StoreUnavailable, StoreUnreachable, UsageFault
from kranzq.model.presence import NewPresence, Subject
from kranzq.testing.items import item
from kranzq.testing.store import HOLDER
from tests.factories import ROOT
from tests.postgres import GIVEN, GUEST

SECRET = "s3cret/w@rd"
QUOTED = "s3cret%2Fw%40rd"


def with_user(url: str, user: str) -> str:
    """The URL with another user, who may have a password."""
    return re.sub(r"://[^/]*@", f"://{user}@", url)


def with_name(url: str, name: str) -> str:
    """The URL with another database."""
    return re.sub(r"(://[^/]*/)[^?]*", rf"\g<1>{name}", url)


def only_on_our_own() -> None:
    """Skip where the server is not made by the tests."""
    if GIVEN:
        pytest.skip("only on a server of the tests' own: another one has its own rules for passwords")


@pytest.fixture
def guest(postgres_url: str) -> Iterator[str]:
    """The URL for a user with a password and no rights."""
    only_on_our_own()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"create role {GUEST} login password '{SECRET}'".encode())
    yield with_user(postgres_url, f"{GUEST}:{QUOTED}")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"drop owned by {GUEST}".encode())
        connection.execute(f"drop role {GUEST}".encode())


def refusal(url: str) -> KranzqError:
    """What opening the store is refused with; its text has no password and its first sentence one line."""
    with pytest.raises(KranzqError) as raised:
        open_store(url)
    text = str(raised.value)
    assert SECRET not in text
    assert QUOTED not in text
    assert "\n" not in raised.value.sentence
    return raised.value


def test_a_wrong_password_is_said_and_not_shown(guest: str) -> None:
    """The operator reads what the server says, never the password."""
    fault = refusal(guest.replace(QUOTED, "an0therw0rd"))

    assert isinstance(fault, StoreUnreachable)
    assert "password authentication failed" in str(fault)
    assert "an0therw0rd" not in str(fault)


def test_a_user_without_rights_is_told_what_is_missing(guest: str) -> None:
    """Whoever may log in and no more reads that, and where it stands what to grant."""
    fault = refusal(guest)

    assert isinstance(fault, StoreUnreachable)
    assert "permission denied" in fault.sentence
    assert "grant" in fault.advice


def test_a_worker_needs_no_more_rights_than_the_page_says(guest: str, postgres_url: str) -> None:
    """The grants of the how-to are enough for every verb, and do not let anybody change the schema."""
    page = (ROOT / "docs/howto/use-postgres.md").read_text()
    grants = re.findall(r"^grant .*;$", page, re.MULTILINE)
    name = psycopg.conninfo.conninfo_to_dict(postgres_url)["dbname"]
    assert len(grants) == 3
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for grant in grants:
            connection.execute(grant.replace(" work to worker", f" {name} to worker").replace("worker", GUEST).encode())

    with open_store(guest) as store:
        store.enqueue_many([item(key="k"), item(), item()])
        held = store.claim_many(HOLDER, limit=3)
        store.heartbeat(held[0])
        store.release(held[0])
        store.finish(held[1])
        store.cancel(held[2].id)
        store.sweep()
        store.grant_grace(1)
        assert store.prune(-10) == 2
        assert store.stats().by_state["open"] == 1
        store.presence.put(NewPresence(HOLDER, Subject(topic="the roof")))
        assert len(store.presence.release(HOLDER)) == 1
        assert store.wait_for_work(5)
    with psycopg.connect(guest) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("alter table kranzq_items add column more text")


def test_a_database_that_is_not_there(postgres_url: str) -> None:
    """Its name is said."""
    fault = refusal(with_name(postgres_url, "no_such_name"))

    assert isinstance(fault, StoreUnreachable)
    assert 'database "no_such_name" does not exist' in fault.sentence


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{QUOTED}@127.0.0.1:1/name",
        f"postgresql://ann:{QUOTED}@/name?host=/nowhere",
        "postgres:///n?host=/",
    ],
)
def test_a_server_that_is_not_there(url: str) -> None:
    """A refused connection is told at once: nobody waits for a server that never was there."""
    fault = refusal(url)

    assert isinstance(fault, StoreUnreachable)
    assert fault.exit_code == StoreUnavailable.exit_code == 6


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@host/name",
        "postgresql://ann:s3cret/word@host/name",
        "postgresql://host/name?colour=blue",
        "postgresql://[::1/name",
        "postgresql://host/name?connect_timeout=%zz",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    """It is told how to write one; no part of it that may be a password is repeated."""
    with pytest.raises(UsageFault) as raised:
        open_database(url)

    assert "s3cret" not in str(raised.value)


def test_a_newer_schema_is_refused_and_not_touched(bare_postgres_url: str) -> None:
    """A step that this program would misunderstand keeps it away; one that only adds does not."""
    open_store(bare_postgres_url).close()
    with psycopg.connect(bare_postgres_url, autocommit=True) as connection:
        connection.execute("insert into kranzq_schema values (98, 1, 0, 'a later kranzq')")
        open_store(bare_postgres_url).close()
        connection.execute("insert into kranzq_schema values (99, 99, 0, 'a later kranzq')")
        with pytest.raises(SchemaTooNew, match="schema 99"):
            open_store(bare_postgres_url)
        database = open_database(bare_postgres_url)
        with pytest.raises(SchemaTooNew):
            database.migrate("this kranzq")
        database.close()
        found = connection.execute("select version from kranzq_schema order by version").fetchall()

    assert [version for (version,) in found][-2:] == [98, 99]


def test_a_database_that_cannot_hold_every_text_is_refused(postgres_server: str, bare_postgres_url: str) -> None:
    """Its encoding is named, and how to make a better one."""
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("drop database if exists kranzq_latin")
        connection.execute("create database kranzq_latin encoding 'LATIN1' template template0 locale 'C'")
    try:
        fault = refusal(with_name(postgres_server, "kranzq_latin"))
    finally:
        with psycopg.connect(postgres_server, autocommit=True) as connection:
            connection.execute("drop database kranzq_latin with (force)")

    assert isinstance(fault, Refused)
    assert "LATIN1" in fault.sentence
    assert "encoding 'UTF8'" in fault.advice


def test_a_standby_is_named_as_one_that_takes_no_writes(postgres_url: str) -> None:
    """After a failover the old address says so instead of something about transactions."""
    with open_store(postgres_url) as store, psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("alter role current_user set default_transaction_read_only = on")
        try:
            store.close()
            with pytest.raises(StoreUnreachable, match="takes no writes"):
                store.enqueue(item())
        finally:
            connection.execute("set default_transaction_read_only = off")
            connection.execute("alter role current_user reset default_transaction_read_only")


def test_a_schema_that_was_dropped_is_told_so(bare_postgres_url: str) -> None:
    """What is missing is said, with the word that makes it anew."""
    with open_store(bare_postgres_url) as store:
        with psycopg.connect(bare_postgres_url, autocommit=True) as connection:
            connection.execute("drop table kranzq_items cascade")
        with pytest.raises(StoreUnreachable, match="schema is not there"):
            store.enqueue(item())


def test_without_the_driver_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is named."""
    monkeypatch.delitem(sys.modules, "kranzq.backends.sql.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "kranzq.backends.sql.connections", None)
    with pytest.raises(ModuleNotFoundError):
        open_database("postgresql://host/name")
    monkeypatch.delitem(sys.modules, "kranzq.backends.sql.connections")
    monkeypatch.setitem(sys.modules, "psycopg", None)

    with pytest.raises(UsageFault, match="kranzq\\[postgres\\]"):
        open_database("postgresql://host/name")


def test_a_server_that_is_full_for_a_moment_is_waited_for(postgres_url: str) -> None:
    """A user who may have one connection gets it as soon as another program has closed it."""
    only_on_our_own()
    with psycopg.connect(postgres_url, autocommit=True) as connection, ThreadPoolExecutor(1) as pool:
        connection.execute("create role guest_of_one login connection limit 1")
        database = open_database(with_user(postgres_url, "guest_of_one"))
        with psycopg.connect(with_user(postgres_url, "guest_of_one")):
            call = pool.submit(database.wall_ms)
            with pytest.raises(TimeoutError):
                call.result(0.3)

        assert call.result(20) > 0
        database.close()
        connection.execute("drop role guest_of_one")
