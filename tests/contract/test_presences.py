"""Every store of presence keeps the same promises: the exported suite on each of them."""

from __future__ import annotations

import pytest

from kranzq.testing.clock import FakeClock
from kranzq.testing.memory_presence import MemoryPresence
from kranzq.testing.presence import PresenceContract
from tests.item_stores import SqliteItems
from tests.presence_stores import MemoryPresences, SqlitePresences


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
