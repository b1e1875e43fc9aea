"""Every store of presence keeps the same promises: the exported suite on each of them."""

from __future__ import annotations

import pytest

from kranzq.testing.clock import FakeClock
from kranzq.testing.memory_presence import MemoryPresence
from kranzq.testing.presence import PresenceContract
from tests.item_stores import PostgresItems, SqliteItems
from tests.presence_stores import MemoryPresences, PostgresPresences, SqlitePresences


class TestMemory(PresenceContract):
    """The fake."""

    @pytest.fixture
    def presences(self) -> MemoryPresences:
        """An empty one."""
        clock = FakeClock()
        return MemoryPresences(MemoryPresence(clock), clock)


class TestSqlite(PresenceContract):
    """One file."""

    @pytest.fixture
    def presences(self, sqlite_items: SqliteItems) -> SqlitePresences:
        """An empty one."""
        return SqlitePresences(sqlite_items)


class TestPostgres(PresenceContract):
    """A database of a real server."""

    @pytest.fixture
    def presences(self, postgres_items: PostgresItems) -> PostgresPresences:
        """An empty one."""
        return PostgresPresences(postgres_items)
