"""The busy record: for people, replaced whole, removed only by whom it names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.busy import record
from kranzq.busy.record import BUSY_JSON, BusyRecord
from kranzq.liveness import me


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[int]:
    """A descriptor of an empty queue, which is `tmp_path`."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_a_record_comes_back(queue: int) -> None:
    """Who holds the checkout, since when and for which run is read as it was written."""
    shown = BusyRecord("keeper", me(), "2026-12-01T10:00:00.000Z", "0.1.0", "m-1", 3, "0" * 32)
    assert not record.exists(queue)
    record.write(queue, shown)

    assert record.exists(queue)
    assert record.read(queue) == shown


def test_a_record_is_removed_by_whom_it_names(queue: int) -> None:
    """Whoever lets go removes its own record and leaves that of a later holder alone."""
    other = replace(me(), pid=1)
    record.write(queue, BusyRecord("keeper", other, "", ""))
    record.remove(queue, me())
    assert record.exists(queue)
    record.remove(queue, other)

    assert not record.exists(queue)


@pytest.mark.parametrize("data", [b"", b"{", b"\0" * 100, b"[]", b'{"process": {"pid": 1}}', b"[" * 8000])
def test_b38_a_damaged_record_tells_nothing_but_that_it_is_there(queue: int, tmp_path: Path, data: bytes) -> None:
    """A record that was cut off decides nothing; that it lies there is a reason to look for leftovers."""
    (tmp_path / BUSY_JSON).write_bytes(data)

    assert record.read(queue) is None
    assert record.exists(queue)


def test_a_record_that_is_a_link_is_not_followed(queue: int, tmp_path: Path) -> None:
    """A link in the record's place is not read."""
    (tmp_path / "elsewhere").write_text("{}")
    (tmp_path / BUSY_JSON).symlink_to("elsewhere")

    assert record.read(queue) is None
    assert record.exists(queue)
