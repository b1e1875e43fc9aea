"""The stores of presence for its suite, each with a time that passes when it is told to."""

from __future__ import annotations

from dataclasses import dataclass

from kranzq.backend.presence import Presence
from kranzq.testing.clock import FakeClock
from kranzq.testing.memory_presence import MemoryPresence
from tests.item_stores import PostgresItems, SqliteItems


@dataclass
class MemoryPresences:
    """The fake, and its clock."""

    presence: MemoryPresence
    clock: FakeClock

    def open(self) -> Presence:
        """The same one: it lies in this process."""
        return self.presence

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.advance(seconds)


@dataclass
class SqlitePresences:
    """Presence beside the items of one file."""

    items: SqliteItems

    def open(self) -> Presence:
        """As another process would have it."""
        return self.items.open().presence

    def pass_time(self, seconds: float) -> None:
        """Move the clocks."""
        self.items.pass_time(seconds)


@dataclass
class PostgresPresences:
    """Presence beside the items of one database of a real server."""

    items: PostgresItems

    def open(self) -> Presence:
        """As another process would have it."""
        return self.items.open().presence

    def pass_time(self, seconds: float) -> None:
        """Move what has happened into the past."""
        self.items.pass_time(seconds)
