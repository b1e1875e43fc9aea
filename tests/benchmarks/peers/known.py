"""The peers, one adapter each: NAME, PROMISES, `missing`, `version`, and a function for each question it can answer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

from tests.benchmarks.asked import Row

ADAPTERS = (
    "nq",
    "task_spooler",
    "huey",
    "persist_queue",
    "litequeue",
    "dirq",
    "beanstalkd",
    "procrastinate",
    "pgqueuer",
    "chancy",
)


def adapters() -> Iterator[ModuleType]:
    """All of them, whether they are here or not."""
    for name in ADAPTERS:
        yield importlib.import_module(f"tests.benchmarks.peers.{name}")


def taking_part(function: str) -> tuple[list[ModuleType], list[Row]]:
    """Those that can answer a question, and a row for each that could but is not here."""
    able = [one for one in adapters() if hasattr(one, function)]
    here = [one for one in able if not one.missing()]
    return here, [Row(one.NAME, "absent", note=one.missing()) for one in able if one not in here]


def versions() -> dict[str, str]:
    """The versions of all that are here."""
    return {one.NAME: one.version() for one in adapters() if not one.missing()}
