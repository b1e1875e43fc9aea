"""The engines of the work queue as stores for the suites, each with a time that passes when it is told to."""

from __future__ import annotations

from pathlib import Path

import psycopg

from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.opening import open_store
from kranzq.backends.sql.postgres import PostgresDatabase
from kranzq.backends.sql.sqlite import SqliteDatabase
from kranzq.testing.clock import FakeClock
from kranzq.testing.items import ItemStore
from tests.laboratory import wait_for

BOOT = "one boot"
MOMENTS = {
    "kranzq_items": ("claim_expires", "created_at", "updated_at", "not_before"),
    "kranzq_attempts": ("claimed_at", "ended_at"),
    "kranzq_seen": ("first_at",),
    "kranzq_grace": ("until",),
    "kranzq_presence": ("expires_at",),
    "kranzq_agents": ("expires_at", "created_at", "rotated_at"),
}
"""The columns of PostgreSQL's tables that are compared with the clock, and those beside them."""


def settle(store: SqlBackend) -> None:
    """Hear, in this thread, everything that has been until now, and the beginning of the hearing itself."""
    store.wait_for_work(0)
    database = store.database
    if isinstance(database, PostgresDatabase):
        wait_for(lambda: database._listener._hints._count, "it listens")
    wait_for(lambda: not store.wait_for_work(0.2), "nothing changes any more")


class SqliteItems(ItemStore):
    """A file of its own, and a clock that only moves when it is told to."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock, self.boot = path, FakeClock(), BOOT
        self._open: list[SqlBackend] = []
        self.database().migrate("test")

    def database(self) -> SqliteDatabase:
        """The engine as another process would have it, on this store's clocks."""
        return SqliteDatabase(
            str(self.path), clock=self.clock, boot=lambda: (self.boot, round(self.clock.monotonic() * 1000))
        )

    def open(self) -> SqlBackend:
        """The work queue."""
        self._open.append(SqlBackend(self.database()))
        return self._open[-1]

    def pass_time(self, seconds: float) -> None:
        """Move both clocks."""
        self.clock.advance(seconds)

    def close(self) -> None:
        """Let go of everything that was opened."""
        for one in self._open:
            one.close()


class PostgresItems(ItemStore):
    """A database of a real server. Its clock cannot be moved, so all that has happened is moved into the past."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._open: list[SqlBackend] = []

    def open(self) -> SqlBackend:
        """The work queue, with connections of its own."""
        self._open.append(open_store(self.url))
        return self._open[-1]

    def pass_time(self, seconds: float) -> None:
        """Take that time from everything that the tables tell of moments."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            for table, columns in MOMENTS.items():
                changes = ", ".join(f"{name} = {name} - {round(seconds * 1000)}" for name in columns)
                connection.execute(f"update {table} set {changes}".encode())

    def close(self) -> None:
        """Let go of everything that was opened."""
        for one in self._open:
            one.close()
