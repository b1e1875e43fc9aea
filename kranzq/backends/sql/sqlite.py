"""SQLite as an engine: one file, one writer at a time, any number of readers, every commit synced.

Callers of one process that write in the same moment share a commit, in which each act has a savepoint of its own.
Processes write one after the other, by a lock beside the file.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

from kranzq.backend.watching import Waits
from kranzq.backends.sql.commits import Call, Commits
from kranzq.backends.sql.database import Row, Size, StatementCall, Transaction
from kranzq.backends.sql.hints import Glances
from kranzq.backends.sql.schema import COMPATIBLE, Schema, check, newest
from kranzq.backends.sql.sqlite_connections import SqliteConnections
from kranzq.backends.sql.sqlite_faults import Fault, named
from kranzq.backends.sql.sqlite_file import bytes_of, place_of, prepare, still_there
from kranzq.backends.sql.statements import migrations, statements
from kranzq.backends.sql.write_lock import WriteLock
from kranzq.liveness import boot_id
from kranzq.model.clock import Clock, SystemClock, to_ms
from kranzq.progress import advance

R = TypeVar("R")
_SCHEMA_TABLE = """create table if not exists kranzq_schema (
    version integer primary key, compatible integer not null, applied_at integer not null, program text not null
) strict"""
PATIENCE_S = 10.0
_LOG_LIMIT = 64 * 1024 * 1024


class SqliteDatabase:
    """Satisfies `Database`. `boot_ms` is the boot clock: it goes on while the host sleeps, and no one can set it."""

    dialect = "sqlite"
    is_near = True

    def __init__(
        self,
        path: str,
        *,
        clock: Clock | None = None,
        boot: Callable[[], tuple[str, int]] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._path, self._clock, self._boot = path, clock or SystemClock(), boot or boot_now
        self._patience = patience_s
        self._begin()
        self._connections = SqliteConnections(self._connect, self._in_child)
        prepare(path)
        self._place = place_of(path)

    def _begin(self) -> None:
        self._lock = WriteLock(self._path + ".lock")
        self._to_close = False
        self._commits = Commits(self._commit, self._path)
        self._glances = Glances(self._data_version)

    @property
    def where(self) -> str:
        """The file."""
        return self._path

    def wall_ms(self) -> int:
        """The host's wall clock."""
        return to_ms(self._clock.now())

    def write(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:  # noqa: ARG002 - no way to save
        """Run `act` in a transaction, alone or together with those of other threads; each is whole by itself."""
        return self._commits.run(act)

    def read(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:  # noqa: ARG002 - as above
        """Run `act` on a snapshot that ends with it."""
        still_there(self._path, self._place)
        with self._faults(), self._connections.borrowed("read") as connection:
            connection.execute("begin")
            try:
                return act(self._transaction(connection))
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def wait_for_change(self, seconds: float) -> bool:
        """Wait until any other connection has committed, of this process or another."""
        return self._glances.wait(seconds)

    def schema(self) -> Schema:
        """What the file has. Changes nothing."""
        with self._faults(), self._connections.borrowed("read") as connection:
            return _schema(connection)

    def migrate(self, program: str) -> Schema:
        """Take every step that is missing, each in a transaction of its own; what there is then."""
        with self._alone() as connection:
            if connection.execute("pragma journal_mode").fetchone()[0] != "wal":
                connection.execute("pragma auto_vacuum=incremental")
                connection.execute("pragma journal_mode=wal")
            for number, _, commands in migrations("sqlite"):
                connection.execute("begin immediate")
                if check(self._path, _schema(connection)) and _schema(connection).version < number:
                    for command in (_SCHEMA_TABLE, *commands):
                        connection.execute(command)
                    row = (number, COMPATIBLE[number], self.wall_ms(), program)
                    connection.execute("insert into kranzq_schema values (?, ?, ?, ?)", row)
                connection.execute("commit")
                advance("steps of the schema", number, newest())
            return _schema(connection)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own with the lock in hand and no transaction begun."""
        lock = WriteLock(self._path + ".lock")
        with self._faults():
            lock.take(self._patience)
            try:
                with self._connections.borrowed("write") as connection:
                    yield connection
            finally:
                lock.close()

    def size(self) -> Size:
        """Bytes of the file and of the log beside it."""
        return Size(bytes_of(self._path), bytes_of(self._path + "-wal"))

    def waits(self) -> Waits:
        """How callers waited for writers of other processes."""
        return self._lock.waits

    def close(self) -> None:
        """Close every connection, those in use as soon as their act has ended; the next call opens anew."""
        self._connections.close()
        self._to_close = True
        self._commits.between(self._close_lock)

    def _close_lock(self) -> None:
        if self._to_close:
            self._to_close = False
            self._lock.close()

    def _commit(self, batch: Sequence[Call]) -> None:
        with self._faults(), self._locked(), self._connections.borrowed("write") as connection:
            still_there(self._path, self._place)
            connection.execute("begin immediate")
            try:
                transaction = self._transaction(connection)
                for call in batch:
                    self._run(connection, transaction, call, alone=len(batch) == 1)
                if connection.in_transaction:
                    connection.execute("commit")
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    def _run(self, connection: sqlite3.Connection, transaction: Transaction, call: Call, *, alone: bool) -> None:
        """One act of a batch. Its own fault undoes it alone; a fault of the engine that ended all is raised."""
        if not alone:
            connection.execute("savepoint act")
        try:
            call.run(transaction)
        except Fault as fault:
            if alone or not connection.in_transaction:
                raise
            call.fail(named(fault, self._path, self._patience))
            connection.execute("rollback to act")
        except Exception as fault:  # noqa: BLE001 - it is its caller's
            call.fail(fault)
            if alone:
                connection.execute("rollback")
                return
            connection.execute("rollback to act")
        if not alone:
            connection.execute("release act")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._lock.take(self._patience)
        try:
            yield
        finally:
            self._lock.let_go()
            self._close_lock()

    def _data_version(self) -> int:
        """A number that any commit of another connection changes; only one connection's numbers can be compared."""
        with self._faults(), self._connections.borrowed("watch") as watcher:
            return int(watcher.execute("pragma data_version").fetchone()[0])

    def _connect(self) -> sqlite3.Connection:
        # Never made here: an empty file in the place of one that was moved away would take over, and spoil, its log.
        where = f"file:{quote(os.fsencode(self._path))}?mode=rw"
        connection = sqlite3.connect(
            where,
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
            uri=True,
        )
        connection.row_factory = sqlite3.Row
        for setting in ("synchronous=full", "foreign_keys=on", f"journal_size_limit={_LOG_LIMIT}"):
            connection.execute(f"pragma {setting}")
        return connection

    def _transaction(self, connection: sqlite3.Connection) -> _Transaction:
        boot, now = self._boot()
        return _Transaction(connection, {"boot": boot, "now": now, "wall": self.wall_ms()})

    @contextlib.contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except Fault as fault:
            raise named(fault, self._path, self._patience) from fault

    def _in_child(self) -> None:
        """In the child of a fork: its copy of the lock would keep it if the parent died, and no thread came along."""
        self._lock.forget()
        self._begin()


class _Transaction:
    """Runs statements on one connection at one moment."""

    def __init__(self, connection: sqlite3.Connection, clocks: dict[str, object]) -> None:
        self._connection, self._clocks = connection, clocks
        self._statements = statements("sqlite")

    def all(self, statement: str, /, **values: object) -> list[Row]:
        """The rows of the first command, after those behind it were run for each."""
        first, *rest = self._statements[statement]
        parameters = self._clocks | values
        rows: list[Any] = self._connection.execute(first, parameters).fetchall()
        for command in rest if rows else ():
            for row in rows:
                self._connection.execute(command, parameters | dict(zip(row.keys(), row, strict=True))).fetchall()
        return rows

    def one(self, statement: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        return next(iter(self.all(statement, **values)), None)

    def run(self, statement: str, /, **values: object) -> None:
        """Run it for what it does."""
        self.all(statement, **values)

    def several(self, calls: Sequence[StatementCall]) -> list[list[Row]]:
        """One after the other: there is no way to save."""
        return [self.all(statement, **values) for statement, values in calls]

    def each(self, statement: str, many: Sequence[Mapping[str, object]], /) -> list[Row | None]:
        """As `several`."""
        return [self.one(statement, **values) for values in many]


def boot_now() -> tuple[str, int]:
    """This boot and its clock in milliseconds; the clock goes on while the host sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return boot_id(), time.clock_gettime_ns(clock) // 1_000_000


def _schema(connection: sqlite3.Connection) -> Schema:
    if connection.execute("select 1 from sqlite_schema where name = 'kranzq_schema'").fetchone() is None:
        return Schema(0, 0)
    row = connection.execute("select max(version), max(compatible) from kranzq_schema").fetchone()
    return Schema(row[0] or 0, row[1] or 0)
