"""Every store of agents keeps the same promises: the exported suites on each of them."""

from __future__ import annotations

import pytest

from kranzq.testing.agents import AgentsContract
from kranzq.testing.token_life import TokenLifeContract
from tests.door_stores import MemoryDoor, SqlDoor
from tests.item_stores import PostgresItems, SqliteItems


class TestMemory(AgentsContract, TokenLifeContract):
    """The fake."""

    @pytest.fixture
    def door(self) -> MemoryDoor:
        """An empty one."""
        return MemoryDoor()


class TestSqlite(AgentsContract, TokenLifeContract):
    """One file."""

    @pytest.fixture
    def door(self, sqlite_items: SqliteItems) -> SqlDoor:
        """An empty one."""
        return SqlDoor(sqlite_items)


class TestPostgres(AgentsContract, TokenLifeContract):
    """A database of a real server."""

    @pytest.fixture
    def door(self, postgres_items: PostgresItems) -> SqlDoor:
        """An empty one."""
        return SqlDoor(postgres_items)
