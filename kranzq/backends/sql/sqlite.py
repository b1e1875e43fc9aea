"""SQLite as an engine: one file, one writer at a time, any number of readers, every commit synced.

Callers of one process that write in the same moment share a commit: the first of them leads, runs its own act and those
that came meanwhile, each under a savepoint of its own, commits once, and wakes them. So a lone caller pays no hop
between threads, and sixty-four pay one sync.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kranzq.backends.sql.database import Row, Size, Transaction
from kranzq.backends.sql.hints import Glances
from kranzq.backends.sql.schema import COMPATIBLE, Schema, check
from kranzq.backends.sql.statements import migrations, statements
from kranzq.backends.sql.write_lock import WriteLock
from kranzq.disk.mounts import network_mount
from kranzq.errors import KranzqError, Refused, StoreLocked, StoreUnavailable, StoreUnreachable, UnsafePath
from kranzq.liveness import boot_id
from kranzq.model.clock import Clock, SystemClock, to_ms

R = TypeVar("R")
_SCHEMA_TABLE = """create table if not exists kranzq_schema (
    version integer primary key, compatible integer not null, applied_at integer not null, program text not null
) strict"""
PATIENCE_S = 10.0
_MOST_TOGETHER = 64
_MOST_IDLE = 4
_LOG_LIMIT = 64 * 1024 * 1024
_LEFT_OPEN: list[object] = []
"""Connections of a parent process: closing them in the child would touch the parent's files."""
_READ_ONLY = frozenset({"SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"})


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
        self._lock = WriteLock(path + ".lock")
        self._mutex = threading.Lock()
        self._pending: deque[_Call] = deque()
        self._leading = False
        self._writer: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []
        self._watcher: sqlite3.Connection | None = None
        self._glances = Glances(self._data_version)
        self._pid = os.getpid()
        _prepare(path)

    @property
    def where(self) -> str:
        """The file."""
        return self._path

    def wall_ms(self) -> int:
        """The host's wall clock."""
        return to_ms(self._clock.now())

    def write(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:  # noqa: ARG002 - no way to save
        """Run `act` in a transaction, alone or together with those of other threads; each is whole by itself."""
        self._after_fork()
        call = _Call(act)
        with self._mutex:
            self._pending.append(call)
            lead = not self._leading
            self._leading = True
        if lead or call.wait():
            self._lead()
        return call.result()  # type: ignore[no-any-return]  # what its own act gave

    def read(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:  # noqa: ARG002 - as above
        """Run `act` on a snapshot that ends with it."""
        self._after_fork()
        with self._mutex:
            connection = self._idle.pop() if self._idle else None
        with self._faults():
            connection = connection or self._connect()
            try:
                connection.execute("begin")
                found = act(self._transaction(connection))
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")
                with self._mutex:
                    keep = len(self._idle) < _MOST_IDLE
                    if keep:
                        self._idle.append(connection)
                if not keep:
                    connection.close()
        return found

    def wait_for_change(self, seconds: float) -> bool:
        """Wait until any other connection has committed, of this process or another."""
        self._after_fork()
        return self._glances.wait(seconds)

    def schema(self) -> Schema:
        """What the file has. Changes nothing."""
        with self._faults():
            connection = self._connect()
            try:
                return _schema(connection)
            finally:
                connection.close()

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
            return _schema(connection)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """A connection of one's own with the lock in hand and no transaction begun."""
        lock = WriteLock(self._path + ".lock")
        with self._faults():
            lock.take(self._patience)
            try:
                connection = self._connect()
                try:
                    yield connection
                finally:
                    connection.close()
            finally:
                lock.close()

    def size(self) -> Size:
        """Bytes of the file and of the log beside it."""
        return Size(_size(self._path), _size(self._path + "-wal"))

    def close(self) -> None:
        """Close every connection; the next call opens anew."""
        with self._mutex:
            connections = [*self._idle, *(one for one in (self._writer, self._watcher) if one is not None)]
            self._idle, self._writer, self._watcher = [], None, None
        for connection in connections:
            connection.close()
        self._lock.close()

    def _lead(self) -> None:
        with self._mutex:
            batch = [self._pending.popleft() for _ in range(min(len(self._pending), _MOST_TOGETHER))]
        try:
            self._commit(batch)
        except Exception as fault:  # noqa: BLE001 - whatever it was, nobody may wait for ever
            for call in batch:
                call.fail(fault)
        except BaseException:
            for call in batch:
                call.fail(StoreUnreachable(self._path, "the writing thread was interrupted"))
            raise
        finally:
            with self._mutex:
                self._hand_over()
            for call in batch:
                call.wake()

    def _hand_over(self) -> None:
        if self._pending:
            self._pending[0].promote()
        else:
            self._leading = False

    def _commit(self, batch: Sequence[_Call]) -> None:
        with self._faults(), self._locked():
            connection = self._writing()
            connection.execute("begin immediate")
            try:
                transaction = self._transaction(connection)
                for call in batch:
                    _run(connection, transaction, call, alone=len(batch) == 1)
                if connection.in_transaction:
                    connection.execute("commit")
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._lock.take(self._patience)
        try:
            yield
        finally:
            self._lock.let_go()

    def _writing(self) -> sqlite3.Connection:
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def _data_version(self) -> int:
        """A number that any commit of another connection changes; only one connection's numbers can be compared."""
        with self._faults():
            with self._mutex:
                watcher = self._watcher = self._watcher or self._connect()
            return int(watcher.execute("pragma data_version").fetchone()[0])

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._patience, isolation_level=None, check_same_thread=False, cached_statements=256
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
        except sqlite3.Error as fault:
            raise self._named(fault) from fault

    def _named(self, fault: sqlite3.Error) -> KranzqError:
        name = getattr(fault, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return StoreLocked(self._path, self._patience)
        if name.startswith("SQLITE_FULL"):
            return StoreUnavailable(self._path, "the disk is full")
        if name.startswith("SQLITE_IOERR"):
            return StoreUnavailable(self._path, "the disk reports an error")
        if name.split("_", 2)[:2] in [known.split("_") for known in _READ_ONLY]:
            return StoreUnavailable(self._path, str(fault))
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            advice = f"Move it away ({self._path} and what lies beside it), keep it for rescue, and begin a new one."
            return StoreUnreachable(self._path, "the file is damaged or is no database", advice)
        return StoreUnreachable(self._path, str(fault))

    def _after_fork(self) -> None:
        """A child never uses its parent's connections: SQLite forbids it, and the lock would be shared."""
        if self._pid != os.getpid():
            _LEFT_OPEN.append((self._writer, self._idle, self._watcher))
            self._watcher, self._glances = None, Glances(self._data_version)
            self._pid, self._writer, self._idle, self._leading = os.getpid(), None, [], False
            self._mutex, self._pending, self._lock = threading.Lock(), deque(), WriteLock(self._path + ".lock")


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
                self._connection.execute(command, parameters | dict(zip(row.keys(), row, strict=True)))
        return rows

    def one(self, statement: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        return next(iter(self.all(statement, **values)), None)

    def run(self, statement: str, /, **values: object) -> None:
        """Run it for what it does."""
        self.all(statement, **values)

    def each(self, statement: str, many: Sequence[Mapping[str, object]], /) -> list[Row | None]:
        """One after the other: there is no way to save."""
        return [self.one(statement, **values) for values in many]


class _Call:
    """One act that waits for its turn, and what came of it."""

    __slots__ = ("_act", "_fault", "_gate", "_leads", "_result")

    def __init__(self, act: Callable[[Transaction], Any]) -> None:
        self._act = act
        self._gate = threading.Lock()
        self._gate.acquire()
        self._leads = False
        self._result: Any = None
        self._fault: BaseException | None = None

    def wait(self) -> bool:
        """Wait until it was run, or is to lead: whether it is to lead."""
        self._gate.acquire()
        return self._leads

    def promote(self) -> None:
        """Let it lead."""
        self._leads = True
        self._gate.release()

    def wake(self) -> None:
        """It was run. The one that led itself has nobody to wake."""
        if not self._leads:
            with contextlib.suppress(RuntimeError):
                self._gate.release()

    def run(self, transaction: Transaction) -> None:
        """Run the act."""
        self._result = self._act(transaction)

    def fail(self, fault: BaseException) -> None:
        """Nothing of it counts, for that reason; the first reason stays."""
        self._fault = self._fault or fault

    def result(self) -> Any:
        """What the act gave, or its fault."""
        if self._fault is not None:
            raise self._fault
        return self._result


def boot_now() -> tuple[str, int]:
    """This boot and its clock in milliseconds; the clock goes on while the host sleeps."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return boot_id(), time.clock_gettime_ns(clock) // 1_000_000


def _run(connection: sqlite3.Connection, transaction: _Transaction, call: _Call, *, alone: bool) -> None:
    """One act of a batch. Its own fault undoes it alone; a fault of the engine that ended all is raised."""
    if not alone:
        connection.execute("savepoint act")
    try:
        call.run(transaction)
    except Exception as fault:
        if isinstance(fault, sqlite3.Error) and (alone or not connection.in_transaction):
            raise
        call.fail(fault)
        if alone:
            connection.execute("rollback")
            return
        connection.execute("rollback to act")
    if not alone:
        connection.execute("release act")


def _schema(connection: sqlite3.Connection) -> Schema:
    if connection.execute("select 1 from sqlite_schema where name = 'kranzq_schema'").fetchone() is None:
        return Schema(0, 0)
    row = connection.execute("select max(version), max(compatible) from kranzq_schema").fetchone()
    return Schema(row[0] or 0, row[1] or 0)


def _prepare(path: str) -> None:
    """The folder and the file, nobody else's to read, on a disk of this host."""
    folder = os.path.dirname(path)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if (mount := network_mount(folder)) is not None:
            raise Refused(
                f"{path} lies on {mount}, a network file system, where SQLite's locks do not hold.",
                "Name a path on a local disk, or use PostgreSQL for many machines.",
            )
        # An existing file is only looked at: closing any descriptor of it would free the locks of this process on it.
        if not os.path.lexists(path):
            with contextlib.suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        regular = stat.S_ISREG(os.lstat(path).st_mode)
    except OSError as fault:
        raise StoreUnavailable(path, fault.strerror or str(fault)) from fault
    if not regular:
        raise UnsafePath(path, "it is no regular file")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
