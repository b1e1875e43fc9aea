"""The least that a queue in a database can do: one statement an act, by its driver, prepared, one commit each."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg

PAYLOAD = "a payload of some words, as long as that of the others"
COLUMNS = "payload text not null, priority int not null default 0, state text not null default 'open', lease int"
INDEX = "create index if not exists floor_open on floor_items (priority desc, id) where state = 'open'"
FIRST = "select id from floor_items where state = 'open' order by priority desc, id limit 1"


class SqliteFloor:
    """sqlite3 with a write-ahead log, synced at each commit; who finds it busy sleeps and looks again, up to 10 s."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(
            path, isolation_level=None, timeout=10, cached_statements=64, check_same_thread=False
        )
        for setting in ("journal_mode=wal", "synchronous=full"):
            self._connection.execute(f"pragma {setting}")
        self._connection.execute(f"create table if not exists floor_items (id integer primary key, {COLUMNS})")
        self._connection.execute(INDEX)

    def enqueue(self) -> None:
        """One insert."""
        self._connection.execute("insert into floor_items (payload) values (?)", (PAYLOAD,))

    def fill(self, many: int) -> None:
        """So many rows in one commit."""
        self._connection.execute("begin")
        self._connection.executemany("insert into floor_items (payload) values (?)", [(PAYLOAD,)] * many)
        self._connection.execute("commit")

    def claim(self) -> int:
        """One update of the first open row."""
        words = f"update floor_items set state = 'claimed', lease = ? where id = ({FIRST}) returning id, payload"
        found = self._connection.execute(words, (60,)).fetchall()
        return int(found[0][0])

    def finish(self, row: int) -> None:
        """One update of the claimed row."""
        self._connection.execute(
            "update floor_items set state = 'done' where id = ? and state = 'claimed' returning id", (row,)
        ).fetchall()

    def claim_and_finish(self) -> None:
        """Both, a commit each; there must be an open row."""
        self.finish(self.claim())

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PostgresFloor:
    """psycopg on one connection, statements prepared, each its own commit."""

    CHANNEL = "floor_hint"

    def __init__(self, url: str) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self.connection.execute(
            f"create table if not exists floor_items (id bigserial primary key, {COLUMNS})".encode()
        )
        self.connection.execute(INDEX.encode())

    def enqueue(self, *, told: bool = False) -> None:
        """One insert, with a notice where somebody waits."""
        words = b"insert into floor_items (payload) values (%s)"
        if told:
            words = b"with made as (insert into floor_items (payload) values (%s)) select pg_notify('floor_hint', '')"
        self.connection.execute(words, (PAYLOAD,), prepare=True)

    def fill(self, many: int) -> None:
        """So many rows in one commit."""
        words = b"insert into floor_items (payload) select %s from generate_series(1, %s)"
        self.connection.execute(words, (PAYLOAD, many))

    def claim(self) -> int | None:
        """One update of the first open row that nobody else has locked; None when there is none."""
        words = (
            f"update floor_items set state = 'claimed', lease = %s where id = ({FIRST} for update skip locked)"
            " returning id, payload"
        )
        found = self.connection.execute(words.encode(), (60,), prepare=True).fetchone()
        return None if found is None else int(found[0])

    def finish(self, row: int) -> None:
        """One update of the claimed row."""
        words = b"update floor_items set state = 'done' where id = %s and state = 'claimed' returning id"
        self.connection.execute(words, (row,), prepare=True).fetchone()

    def claim_and_finish(self) -> None:
        """Both, a commit each; there must be an open row."""
        row = self.claim()
        assert row is not None, "there were too few items"
        self.finish(row)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def floor_of(url: str) -> SqliteFloor | PostgresFloor:
    """Another connection to the database at a URL as kranzq takes them; the table is made where it is missing."""
    if url.startswith("sqlite://"):
        return SqliteFloor(Path(url.removeprefix("sqlite://")))
    return PostgresFloor(url)
