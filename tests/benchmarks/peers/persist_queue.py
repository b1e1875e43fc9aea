"""persist-queue: on SQLite with acknowledgement, and on files."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.acts import PAYLOAD, Acts, not_installed

NAME = "persist-queue"
PROMISES = "durable"


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return not_installed("persist-queue", "persistqueue")


def version() -> str:
    """Its version."""
    return importlib.metadata.version("persist-queue")


@contextlib.contextmanager
def in_process(folder: Path) -> Iterator[dict[str, Acts]]:
    """Both of its durable kinds."""
    module: Any = importlib.import_module("persistqueue")
    acked = module.SQLiteAckQueue(str(folder / "persist-acked"), auto_commit=True)
    filed = module.Queue(str(folder / "persist-filed"), autosave=True, tempdir=str(folder))

    def filed_end() -> None:
        filed.get(block=False)
        filed.task_done()

    yield {
        "persist-queue, SQLite": Acts(
            lambda: acked.put(PAYLOAD), lambda: acked.ack(acked.get(block=False)), "durable; a claim survives"
        ),
        "persist-queue, files": Acts(lambda: filed.put(PAYLOAD), filed_end, "data synced, index not; a claim is lost"),
    }
    acked.close()


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[dict[str, tuple[Sequence[str], dict[str, str]]]]:
    """A line of Python that enqueues."""
    line = f"import persistqueue; persistqueue.SQLiteAckQueue({str(folder / 'persist')!r}, auto_commit=True).put('x')"
    yield {"python: persist-queue": ([sys.executable, "-c", line], {})}
