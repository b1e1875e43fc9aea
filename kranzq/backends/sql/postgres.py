"""PostgreSQL as an engine: many machines, any number of writers, the server's clock.

Every message to the server is one transaction, or a part of one that begins with its limits: nothing outlives it in the
session, so a pooler may hand each transaction to another connection. Values are bound here and not by the server: so a
whole transaction is one message and one way there and back, and nothing is prepared that a pooler would lose.
"""

from __future__ import annotations

import functools
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import psycopg

from kranzq.backend.watching import Waits
from kranzq.backends.sql.connections import Connection, Connections
from kranzq.backends.sql.database import Row, Size, StatementCall, Transaction
from kranzq.backends.sql.faults import is_clash, is_lost, named
from kranzq.backends.sql.listening import CHANNEL, Listener
from kranzq.backends.sql.schema import COMPATIBLE, Schema, check, newest
from kranzq.backends.sql.statements import commands, migrations, statements
from kranzq.errors import Refused
from kranzq.progress import advance

R = TypeVar("R")
PATIENCE_S, MIGRATION_PATIENCE_S = 10.0, 300.0
_ANSWER_S = 2.0
"""The server's own limit comes first; so much later the client gives up on a server that answers nothing at all."""
_MOST_CLASHES, _MOST_LOSSES = 20, 3
"""So often an act is run again. A server may be restarted twice in a row; one that falls at each run is left alone."""
_MOST_TEXT = 4 * 1024 * 1024
_MOST_AT_ONCE = 500
"""One message holds so many characters and sets of values at most, or one set that is larger."""
_WRITE = "begin isolation level read committed"
_READ = "begin isolation level repeatable read read only"
_HINTING = frozenset({"enqueue", "release"})
_HINT = f"begin; set local synchronous_commit = off; select pg_notify('{CHANNEL}', ''); commit"
"""After what makes work, in the same message but a transaction of its own that waits for no disk: transactions with
notices are committed one at a time, and ours would queue for the disk one behind the other."""
_LOCK_LIMIT = "set local lock_timeout = 10000"
"""A step that waits for a table keeps everybody else from it: so it waits no longer than anybody would."""
_MIGRATION_LOCK = 7_305_808_869_231_717_985
_SCHEMA_TABLE = """create table if not exists kranzq_schema (
    version integer primary key, compatible integer not null, applied_at bigint not null, program text not null
)"""
# Read as a table: to_regclass answers from a cache that knows nothing of what was committed while the lock was awaited.
_HAS_SCHEMA = """select exists (select 1 from pg_class
where relname = 'kranzq_schema' and relkind = 'r' and pg_table_is_visible(oid)) as there"""
_NOTE_STEP = """insert into kranzq_schema
values (:version, :compatible, (extract(epoch from statement_timestamp()) * 1000)::bigint, :program)"""
_SIZE = """select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint as bytes from pg_class
where relkind = 'r' and relname like 'kranzq\\_%' and pg_table_is_visible(oid)"""


class PostgresDatabase:
    """Satisfies `Database`. Connects when it is first used."""

    dialect = "postgres"
    is_near = False

    def __init__(self, url: str, *, patience_s: float = PATIENCE_S) -> None:
        self._connections = Connections(url)
        self._patience = patience_s
        self._listener = Listener(self._connections)
        self._pid = os.getpid()
        self._clashes, self._clashed_s = 0, 0.0

    @property
    def where(self) -> str:
        """The URL without its password and options."""
        return self._connections.where

    def write(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:
        """Run `act` in a transaction; again when others were in the way, or when the connection was lost."""
        return self._run(act, _WRITE, self._patience, single=single)

    def read(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:
        """Run `act` on one snapshot."""
        return self._run(act, _READ, self._patience, single=single)

    def wait_for_change(self, seconds: float) -> bool:
        """Wait for a notice of another program, or of this one."""
        self._after_fork()
        return self._listener.wait(seconds)

    def wall_ms(self) -> int:
        """The server's clock."""
        row = self._run(lambda transaction: transaction.ask("select kranzq_now() as now")[0], _READ, self._patience)
        return int(row["now"])

    def schema(self) -> Schema:
        """What the database has. Changes nothing."""
        return self._run(_schema, _READ, self._patience)

    def migrate(self, program: str) -> Schema:
        """Take every step that is missing, each in a transaction of its own; what there is then."""
        for number, _, step in migrations("postgres"):
            act = functools.partial(_take_step, number=number, step=step, program=program, where=self.where)
            self._run(act, _WRITE, MIGRATION_PATIENCE_S)
            advance("steps of the schema", number, newest())
        return self.schema()

    def size(self) -> Size:
        """Bytes of the tables and their indexes. The server's log belongs to all its databases and is not told."""
        row = self._run(lambda transaction: transaction.ask(_SIZE)[0], _READ, self._patience)
        return Size(int(row["bytes"]), 0)

    def waits(self) -> Waits:
        """How often an act was run again because another one was in the way, and how long those runs took."""
        return Waits(self._clashes, self._clashed_s)

    def close(self) -> None:
        """Close the connections; the next call opens anew. A child of a fork leaves those of its parent alone."""
        self._after_fork()
        self._listener.close()
        self._connections.drop_idle()

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._pid, self._listener = os.getpid(), Listener(self._connections)

    def _run(self, act: Callable[[_Transaction], R], head: str, patience: float, *, single: bool = False) -> R:
        until = time.monotonic() + patience
        clashes = losses = 0
        while True:
            connection: Connection | None = None
            begun = time.monotonic()
            try:
                with self._connections.borrowed(until) as connection:
                    return _once(connection, act, head, until, single=single)
            except psycopg.Error as fault:
                lost = connection is not None and is_lost(fault, closed=connection.closed)
                again = False
                if lost:
                    losses += 1
                    again = losses <= _MOST_LOSSES
                    self._connections.drop_idle()
                elif is_clash(fault):
                    clashes += 1
                    again = clashes < _MOST_CLASHES
                    time.sleep(random.uniform(0, 0.002 * clashes))  # noqa: S311 - only so that two do not meet again
                    self._clashes, self._clashed_s = self._clashes + 1, self._clashed_s + time.monotonic() - begun
                if not again or time.monotonic() >= until:
                    raise named(fault, self.where, patience) from fault


class _Transaction:
    """Runs statements on one connection. Begins with the first one and with the limits of its time."""

    def __init__(self, connection: Connection, head: Sequence[str], *, single: bool) -> None:
        self._connection, self._head, self._single = connection, head, single
        self._open = self._hints = False
        self._statements = statements("postgres")

    def all(self, statement: str, /, **values: object) -> list[Row]:
        """The rows of the first command, after those behind it were run for each."""
        first, *rest = self._statements[statement]
        self._hints |= statement in _HINTING
        rows = self._send([(first, values)], last=not rest)[0]
        for row in rows if rest else ():
            self._send([(command, {**values, **row}) for command in rest], last=False)
        if rest and self._single:
            self.end()
        return rows

    def one(self, statement: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        return next(iter(self.all(statement, **values)), None)

    def run(self, statement: str, /, **values: object) -> None:
        """Run it for what it does."""
        self.all(statement, **values)

    def several(self, calls: Sequence[StatementCall]) -> list[list[Row]]:
        """Statements of one command each, in one message."""
        wanted = []
        for statement, values in calls:
            (command,) = self._statements[statement]
            self._hints |= statement in _HINTING
            wanted.append((command, values))
        return self._send(wanted, last=True)

    def each(self, statement: str, many: Sequence[Mapping[str, object]], /) -> list[Row | None]:
        """One statement with many values: as one command where there is one for many, else in few messages."""
        first, *rest = self._statements[statement]
        if rest:
            return [self.one(statement, **values) for values in many]
        self._hints |= statement in _HINTING
        together = self._statements.get(f"{statement}_many")
        found: list[Row | None] = []
        for part in parts(many):
            if together is None or len(part) == 1:
                answers = self._send([(first, values) for values in part], last=len(found) + len(part) == len(many))
                found += [next(iter(rows), None) for rows in answers]
            else:
                rows = self._send(
                    [(together[0], {"many": json.dumps(part, ensure_ascii=False)})],
                    last=len(found) + len(part) == len(many),
                )[0]
                by_place = {row["place"]: row for row in rows}
                found += [by_place.get(place) for place in range(1, len(part) + 1)]
        return found

    def ask(self, text: str, **values: object) -> list[Row]:
        """The rows of a command that has no name: of a schema that may not be there yet."""
        (command,) = commands(text, "postgres")
        return self._send([(command, values)], last=False)[0]

    def execute(self, command: str) -> None:
        """Run a command of a migration."""
        self._send([(command, {})], last=False)

    def end(self) -> None:
        """Keep what was done."""
        if self._open:
            psycopg.ClientCursor(self._connection).execute("; ".join(self._closing()).encode())
            self._open = False

    def _closing(self) -> tuple[str, ...]:
        hints, self._hints = self._hints, False
        return ("commit", _HINT) if hints else ("commit",)

    def _send(self, wanted: Sequence[tuple[str, Mapping[str, object]]], *, last: bool) -> list[list[Row]]:
        """Send commands in one message; the rows of each. The `last` message of a single act commits."""
        cursor = psycopg.ClientCursor(self._connection)
        return self._exchange(cursor, [cursor.mogrify(command, values) for command, values in wanted], last=last)

    def _exchange(self, cursor: psycopg.Cursor[Row], texts: Sequence[str], *, last: bool) -> list[list[Row]]:
        head = () if self._open else self._head
        closing = self._closing() if last and self._single else ()
        self._open = True
        cursor.execute(";\n".join((*head, *texts, *closing)).encode())
        for _ in head:
            cursor.nextset()
        answers: list[list[Row]] = []
        for _ in texts:
            answers.append(cursor.fetchall() if cursor.description is not None else [])
            cursor.nextset()
        self._open = not closing
        return answers


def parts(many: Sequence[Mapping[str, object]]) -> Iterator[Sequence[Mapping[str, object]]]:
    """Sets of values in parts that fit into a message."""
    start = size = 0
    for place, values in enumerate(many):
        more = sum(len(value) for value in values.values() if isinstance(value, str))
        if place > start and (size + more > _MOST_TEXT or place - start == _MOST_AT_ONCE):
            yield many[start:place]
            start, size = place, 0
        size += more
    if start < len(many):
        yield many[start:]


def _once(connection: Connection, act: Callable[[_Transaction], R], head: str, until: float, *, single: bool) -> R:
    """Run the act in a transaction. An exception leaves it open, for whoever owns the connection to undo."""
    left_ms = max(1, round((until - time.monotonic()) * 1000))
    connection.until = until + _ANSWER_S
    limits = [f"set local statement_timeout = {left_ms}"]
    if not single:  # a program that vanishes in the middle must not keep its rows locked
        limits.append(f"set local idle_in_transaction_session_timeout = {left_ms}")
    transaction = _Transaction(connection, (head, *limits), single=single)
    result = act(transaction)
    transaction.end()
    return result


def _take_step(transaction: _Transaction, number: int, step: Sequence[str], program: str, where: str) -> None:
    """One step, under a lock that ends with its transaction; nothing when another program has taken it."""
    transaction.ask("select pg_advisory_xact_lock(:key)", key=_MIGRATION_LOCK)
    transaction.ask(_LOCK_LIMIT)
    found = _schema(transaction)
    if not check(where, found) or found.version >= number:
        return
    encoding = transaction.ask(
        "select pg_encoding_to_char(encoding) as name from pg_database where datname = current_database()"
    )
    if encoding[0]["name"] != "UTF8":
        raise Refused(
            f"The database {where} is encoded as {encoding[0]['name']}, which cannot hold every text.",
            "Make one with: create database NAME encoding 'UTF8' template template0",
        )
    for command in (_SCHEMA_TABLE, *step):
        transaction.execute(command)
    transaction.ask(_NOTE_STEP, version=number, compatible=COMPATIBLE[number], program=program)


def _schema(transaction: _Transaction) -> Schema:
    if not transaction.ask(_HAS_SCHEMA)[0]["there"]:
        return Schema(0, 0)
    row = transaction.ask("select max(version) as version, max(compatible) as compatible from kranzq_schema")[0]
    return Schema(row["version"] or 0, row["compatible"] or 0)
