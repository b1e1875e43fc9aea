"""The stores on which the suites of items run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.item_stores import SqliteItems


@pytest.fixture
def sqlite_items(tmp_path: Path) -> Iterator[SqliteItems]:
    """An empty SQLite file."""
    store = SqliteItems(tmp_path / "work.db")
    yield store
    store.close()
