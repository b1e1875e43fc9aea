"""The stores on which the suites of items run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.testing.items import ItemStore
from tests.item_stores import PostgresItems, SqliteItems


@pytest.fixture
def sqlite_items(tmp_path: Path) -> Iterator[SqliteItems]:
    """An empty SQLite file."""
    store = SqliteItems(tmp_path / "work.db")
    yield store
    store.close()


@pytest.fixture
def postgres_items(postgres_url: str) -> Iterator[PostgresItems]:
    """An empty database of a real PostgreSQL."""
    store = PostgresItems(postgres_url)
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def engine(request: pytest.FixtureRequest) -> ItemStore:
    """An empty store of each engine."""
    store: ItemStore = request.getfixturevalue(f"{request.param}_items")
    return store
