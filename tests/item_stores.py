"""The engines of the work queue as stores for the suites, each with a time that passes when it is told to."""

from __future__ import annotations

from pathlib import Path

from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.sqlite import SqliteDatabase
from kranzq.testing.clock import FakeClock
from kranzq.testing.items import ItemStore

BOOT = "one boot"


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
