"""dirq: a file an item, claimed by a link; nothing is synced, and nothing can make it so."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.acts import PAYLOAD, Acts, not_installed

NAME = "dirq"
PROMISES = "not durable: dirq syncs nothing"


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return not_installed("dirq")


def version() -> str:
    """Its version."""
    return importlib.metadata.version("dirq")


@contextlib.contextmanager
def in_process(folder: Path) -> Iterator[dict[str, Acts]]:
    """Add, and lock the first with remove."""
    module: Any = importlib.import_module("dirq.QueueSimple")
    queue = module.QueueSimple(str(folder / "dirq"))

    def end() -> None:
        name = queue.first()
        while name:
            if queue.lock(name):
                queue.get(name)
                queue.remove(name)
                return
            name = queue.next()

    yield {"dirq": Acts(lambda: queue.add(PAYLOAD), end, PROMISES)}


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[dict[str, tuple[Sequence[str], dict[str, str]]]]:
    """A line of Python that enqueues."""
    line = f"from dirq.QueueSimple import QueueSimple; QueueSimple({str(folder / 'dirq-sh')!r}).add('x')"
    yield {"python: dirq": ([sys.executable, "-c", line], {})}
