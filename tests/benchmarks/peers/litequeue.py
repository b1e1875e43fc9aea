"""litequeue: one table of SQLite. Set to sync each commit, which it does not do by itself."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.acts import PAYLOAD, Acts, not_installed

NAME = "litequeue"
PROMISES = "durable as it is set here (synchronous=FULL)"


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return not_installed("litequeue")


def version() -> str:
    """Its version."""
    return importlib.metadata.version("litequeue")


@contextlib.contextmanager
def in_process(folder: Path) -> Iterator[dict[str, Acts]]:
    """Put, and pop with done."""
    module: Any = importlib.import_module("litequeue")
    queue = module.LiteQueue(str(folder / "litequeue.db"))
    queue.conn.execute("pragma synchronous=full")

    def end() -> None:
        queue.done(queue.pop().message_id)

    yield {"litequeue": Acts(lambda: queue.put(PAYLOAD), end, "durable (synchronous=FULL); a claim survives")}
    queue.conn.close()


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[dict[str, tuple[Sequence[str], dict[str, str]]]]:
    """A line of Python that enqueues."""
    line = (
        f"import litequeue; q = litequeue.LiteQueue({str(folder / 'litequeue-sh.db')!r});"
        " q.conn.execute('pragma synchronous=full'); q.put('x')"
    )
    yield {"python: litequeue": ([sys.executable, "-c", line], {})}
