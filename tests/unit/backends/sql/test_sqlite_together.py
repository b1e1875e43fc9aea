"""Callers that share one commit of SQLite: each act is whole by itself, whatever becomes of those beside it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kranzq.backends.sql.database import Transaction
from kranzq.backends.sql.sqlite import SqliteDatabase
from kranzq.errors import KranzqError
from kranzq.testing.store import together
from tests.laboratory import PATIENCE, wait_for

Act = Callable[[Transaction], object]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    """An empty one."""
    database = SqliteDatabase(str(tmp_path / "work.db"))
    database.migrate("test")
    yield database
    database.close()


def shared(database: SqliteDatabase, acts: list[Act]) -> list[object]:
    """Run them in one commit, behind one that is held up until all have come; what each gave, or its fault."""
    answers: list[object] = [None] * len(acts)
    begun, free = threading.Event(), threading.Event()

    def first(_: Transaction) -> None:
        begun.set()
        assert free.wait(PATIENCE)

    def run(number: int) -> None:
        if number == len(acts):
            database.write(first)
            return
        assert begun.wait(PATIENCE)
        try:
            answers[number] = database.write(acts[number])
        except (KranzqError, ValueError, sqlite3.Error) as fault:
            answers[number] = fault

    def let_go() -> None:
        wait_for(lambda: len(database._commits._pending) == len(acts), "all have come")
        free.set()

    threading.Thread(target=let_go, daemon=True).start()
    together(len(acts) + 1, run)
    return answers


def seen(target: str) -> Act:
    """Note one name."""
    return lambda transaction: transaction.run("seen", target=target)


def seen_and_failed(transaction: Transaction) -> None:
    """Note a name, and then be refused."""
    transaction.run("seen", target="refused")
    raise ValueError("refused")


def seen_and_broken(transaction: Transaction) -> None:
    """Note a name, and then do what the engine does not take."""
    transaction.run("seen", target="broken")
    transaction.run("seen", target=None)


def names(database: SqliteDatabase) -> list[str]:
    """What was noted."""
    with sqlite3.connect(database.where) as connection:
        found = connection.execute("select target from kranzq_seen order by target").fetchall()
    connection.close()
    return [target for (target,) in found]


def test_one_that_is_refused_undoes_itself_alone(database: SqliteDatabase) -> None:
    """Those before and behind it are committed, and it gets its own fault."""
    answers = shared(database, [seen("a"), seen_and_failed, seen("b"), seen_and_broken, seen("c")])

    assert names(database) == ["a", "b", "c"]
    told = sorted(type(answer).__name__ for answer in answers)
    assert told == ["NoneType", "NoneType", "NoneType", "StoreUnreachable", "ValueError"]


def test_alone_it_is_undone_too(database: SqliteDatabase) -> None:
    """A lone caller's act has no savepoint, and is undone with its transaction; the next one finds nothing of it."""
    with pytest.raises(ValueError, match="refused"):
        database.write(seen_and_failed)
    with pytest.raises(KranzqError):
        database.write(seen_and_broken)
    database.write(seen("a"))

    assert names(database) == ["a"]


def test_what_one_did_the_next_one_sees(database: SqliteDatabase) -> None:
    """Acts of one commit come one after the other, as if each were committed before the next."""
    counts: list[int] = []

    def count(transaction: Transaction) -> None:
        transaction.run("seen", target=f"n-{len(counts)}")
        row = transaction.one("unseen_count")
        counts.append(row["many"] if row is not None else -1)

    shared(database, [count] * 5)

    assert len(counts) == len(names(database)) == 5
