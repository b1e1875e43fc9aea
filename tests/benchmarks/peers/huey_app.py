"""What a consumer of huey runs: a task that tells when it began. `BENCH_HUEY` names the database."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

huey: Any = importlib.import_module("huey").SqliteHuey(filename=os.environ["BENCH_HUEY"], fsync=True, results=False)


@huey.task()  # type: ignore[untyped-decorator, unused-ignore]
def tell(pipe: str) -> None:
    """Say when this began; the consumer starts no process for it."""
    began = time.monotonic_ns()
    with open(pipe, "w", encoding="ascii") as told:
        told.write(f"{began}\n")


@huey.task()  # type: ignore[untyped-decorator, unused-ignore]
def nothing() -> None:
    """Do nothing."""
