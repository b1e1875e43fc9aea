"""An open queue in a directory of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from tests.factories import make_queue


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[FileQueue]:
    """The queue below `tmp_path`, which has no git."""
    with make_queue(tmp_path) as opened:
        yield opened


@pytest.fixture
def folder(queue: FileQueue) -> Path:
    """The queue's directory."""
    return Path(queue.folders.checkout.queue)
