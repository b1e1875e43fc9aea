"""Connections to PostgreSQL: made, kept for the next call, and thrown away once they are in doubt.

A few lines of our own instead of a pool that connects in the background: such a one can only say that nothing came in
time, and an operator needs to read "password authentication failed". It also starts no threads.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from kranzq.backends.sql.faults import comes_back
from kranzq.errors import StoreLocked, UsageFault

MOST_CONNECTIONS, MOST_IDLE = 16, 8
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 0.5
_ROLLBACK_S = 1.0
_ADVICE = "Write special characters of user and password as %XX, as in postgresql://me:p%40ss@host/name."
_SETTINGS: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "fallback_application_name": "kranzq",
}
"""What a URL that says nothing else gets: a peer that has vanished is found out within half a minute."""
_LEFT_OPEN: list[object] = []
"""Connections of a parent process: closing them in the child would end the parent's."""


class Connection(psycopg.Connection[dict[str, Any]]):
    """One that waits for no answer beyond `until` (monotonic seconds), whatever the server does or does not."""

    until: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the generator. Raises psycopg's time-out; the connection is of no use then."""
        if self.until is not None:
            left = max(0.0, self.until - time.monotonic())
            timeout = left if timeout is None else min(left, timeout)
        return super().wait(gen, interval, timeout)


class Connections:
    """The connections of one process to one database. May be shared by threads."""

    def __init__(self, url: str) -> None:
        try:
            found = conninfo_to_dict(url)
            if not str(found.get("port") or "").replace(",", "").isdigit() and found.get("port"):
                raise psycopg.ProgrammingError("no port")  # mostly a part of a password with a slash in it
            # The answer is read as UTF-8 and literals are written in it, whatever the database speaks.
            self._conninfo = make_conninfo(url, **(_SETTINGS | found), client_encoding="UTF8")
        except psycopg.Error:  # its text may show a part of the password
            raise UsageFault(
                "The URL of the database is none that PostgreSQL's library understands.", _ADVICE
            ) from None
        self.where = _where(found)
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._idle: list[Connection] = []
        self._mutex = threading.Lock()
        self._places = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._known = False

    @contextlib.contextmanager
    def borrowed(self, until: float) -> Iterator[Connection]:
        """A connection that is in no transaction; put back when the block leaves it whole, else closed.

        Raises StoreLocked when all are in use for too long, psycopg's errors when none can be made.
        """
        self._after_fork()
        places, patience_s = self._places, max(0.0, until - time.monotonic())
        if not places.acquire(timeout=patience_s):
            raise StoreLocked(
                self.where, patience_s, "other threads, on all its connections", "Try again, with fewer threads."
            )
        try:
            connection = self._kept() or self.connect(until)
            try:
                yield connection
            except BaseException:
                self._put_back(connection, undo=True)
                raise
            self._put_back(connection, undo=False)
        finally:
            places.release()

    def connect(self, until: float) -> Connection:
        """A new one. Tries again while the server starts, or is away and was there before. Raises psycopg's errors."""
        pause = _FIRST_PAUSE_S
        while True:
            try:
                made = Connection.connect(self._conninfo, autocommit=True, prepare_threshold=None, row_factory=dict_row)
            except psycopg.OperationalError as fault:
                if not comes_back(fault, was_there=self._known) or time.monotonic() + pause > until:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, _LAST_PAUSE_S)
            else:
                self._known = True
                made.cursor_factory = psycopg.ClientCursor
                return made

    def drop_idle(self) -> None:
        """Close what is kept: it is as dead as the one that was lost, or speaks to a server that is to be left."""
        self._after_fork()
        with self._mutex:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            _LEFT_OPEN.append(self._idle)
            self._reset()

    def _kept(self) -> Connection | None:
        while True:
            with self._mutex:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if _is_fresh(connection):
                return connection
            connection.close()

    def _put_back(self, connection: Connection, *, undo: bool) -> None:
        if undo and not connection.closed and connection.info.transaction_status != pq.TransactionStatus.IDLE:
            connection.until = time.monotonic() + _ROLLBACK_S
            if connection.info.transaction_status != pq.TransactionStatus.ACTIVE:
                with contextlib.suppress(psycopg.Error):
                    connection.execute("rollback")
        whole = not connection.closed and connection.info.transaction_status == pq.TransactionStatus.IDLE
        if whole:
            with self._mutex:
                whole = len(self._idle) < MOST_IDLE
                if whole:
                    self._idle.append(connection)
        if not whole:
            connection.close()


def _is_fresh(connection: Connection) -> bool:
    """Whether the server has said nothing meanwhile: what it says unasked is mostly good-bye."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _where(found: dict[str, Any]) -> str:
    """A URL for people, which also connects: no password and no options."""
    user = f"{found['user']}@" if found.get("user") else ""
    host = str(found.get("host") or found.get("hostaddr") or "")
    port = f":{found['port']}" if found.get("port") else ""
    name = found.get("dbname") or ""
    if host.startswith("/"):
        return f"postgresql://{user}{port}/{name}?host={host}"
    return f"postgresql://{user}{host}{port}/{name}"
