"""Every engine of the work queue keeps the same promises: the exported suites on each of them."""

from __future__ import annotations

import pytest

from kranzq.testing.ends import EndsContract
from kranzq.testing.leases import LeasedContract
from kranzq.testing.work import WorkContract
from tests.item_stores import PostgresItems, SqliteItems


class TestSqlite(WorkContract, LeasedContract, EndsContract):
    """One file."""

    @pytest.fixture
    def store(self, sqlite_items: SqliteItems) -> SqliteItems:
        """An empty one."""
        return sqlite_items


class TestPostgres(WorkContract, LeasedContract, EndsContract):
    """A database of a real server."""

    @pytest.fixture
    def store(self, postgres_items: PostgresItems) -> PostgresItems:
        """An empty one."""
        return postgres_items
