"""What an adapter of a queue that is used from Python offers: one call that enqueues, one that takes and ends."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass

PAYLOAD = '{"missionId": "a-mission", "priority": 2, "command": ["true"]}'.ljust(200)
PAUSE_S = 0.02
"""Before a pickup is measured: whoever waits for work has ended the last job, and waits again."""
PATIENCE_S = 20.0
"""A job that has not begun by then is a fault."""


@dataclass(frozen=True)
class Acts:
    """The two calls, and what of an item survives what."""

    enqueue: Callable[[], object]
    claim_and_finish: Callable[[], object]
    promises: str


def not_installed(package: str, module: str = "") -> str:
    """Why a package of Python cannot take part; empty when it is here."""
    there = importlib.util.find_spec(module or package.replace("-", "_"))
    return "" if there else f"not installed here (Python package {package})"


@dataclass(frozen=True)
class ServerActs:
    """What a queue on PostgreSQL offers. Each call does so many and gives the milliseconds of one."""

    enqueue: Callable[[int], float]
    """One by one, each its own call."""
    work: Mapping[str, Callable[[int], float]]
    """By setting: jobs that do nothing, enqueued before and not counted, until the last one is recorded as done."""
    promises: str
    pickup: Callable[[], float] | None = None
    """Milliseconds from the call that enqueues until its job begins, in a worker that listens and has nothing to do.

    The worker begins with the first call, and ends with the peer."""
