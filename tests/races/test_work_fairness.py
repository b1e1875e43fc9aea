"""Processes that write to one SQLite file without a pause all get on, and none waits for seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from kranzq.backends.sql.opening import open_store
from kranzq.testing.items import item
from tests.benchmarks.work_queue import by_processes

pytestmark = [pytest.mark.race, pytest.mark.slow]


def test_no_writer_starves(tmp_path: Path) -> None:
    """Left to SQLite alone, one of several writers gets everything and the others sleep until it is done."""
    url = f"sqlite:///{tmp_path}/work.db"
    with open_store(url) as store:
        for _ in range(10):
            store.enqueue_many([item() for _ in range(1000)])
    waits = by_processes(url, 4, 2.0)
    done = [len(each) for each in waits]

    assert min(done) > 0.3 * max(done), done
    assert max(max(each) for each in waits) < 1500, "milliseconds for one claim and its end"
