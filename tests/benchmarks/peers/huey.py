"""huey on SQLite, synced: a consumer that polls, by default ever more rarely while nothing comes.

Its task is a function of the consumer: no process is started for it, which every other subject does.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks.checkouts import started
from tests.benchmarks.job import Job
from tests.benchmarks.peers.acts import PAYLOAD, Acts, not_installed

NAME = "huey"
PROMISES = "durable (fsync=True); the job is a function of its consumer, no process is started"
POLLS = {"huey, polling each 10 ms": ("-d", "0.01", "-m", "0.01"), "huey as it comes": ()}
APP = "tests.benchmarks.peers.huey_app"


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return not_installed("huey")


def version() -> str:
    """Its version."""
    return importlib.metadata.version("huey")


@contextlib.contextmanager
def dispatching(folder: Path, job: Job) -> Iterator[dict[str, Callable[[], float]]]:
    """Milliseconds from the call that enqueues to the first line of the task."""
    acts: dict[str, Callable[[], float]] = {}
    with contextlib.ExitStack() as stack:
        for number, (name, words) in enumerate(POLLS.items()):
            database = str(folder / f"huey-{number}.db")
            os.environ["BENCH_HUEY"] = database
            sys.modules.pop(APP, None)
            app = importlib.import_module(APP)
            command = [sys.executable, "-m", "huey.bin.huey_consumer", f"{APP}.huey", "-w", "1", "-q", *words]
            stack.enter_context(started(command, folder / f"huey-{number}.log", lambda: True))
            acts[name] = _sender(app.tell, job)
        yield acts


def _sender(tell: Callable[[str], object], job: Job) -> Callable[[], float]:
    def send() -> float:
        began = time.monotonic_ns()
        tell(str(job.pipe))
        return (job.heard_ns() - began) / 1e6

    return send


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[dict[str, tuple[Sequence[str], dict[str, str]]]]:
    """A line of Python that enqueues."""
    line = f"from {APP} import nothing; nothing()"
    yield {"python: huey": ([sys.executable, "-c", line], {"BENCH_HUEY": str(folder / "huey.db")})}


@contextlib.contextmanager
def in_process(folder: Path) -> Iterator[dict[str, Acts]]:
    """Enqueue a task, and take it off: its consumer keeps nothing of what it has taken."""
    module = importlib.import_module("huey")
    queue = module.SqliteHuey(filename=str(folder / "huey-in-process.db"), fsync=True, results=False)
    yield {
        "huey, SQLite": Acts(
            lambda: queue.storage.enqueue(PAYLOAD.encode()), queue.storage.dequeue, "durable; a claim is lost"
        )
    }
    queue.storage.close()


@contextlib.contextmanager
def resident(folder: Path) -> Iterator[dict[str, int]]:
    """Its consumer, with one worker."""
    words = [sys.executable, "-m", "huey.bin.huey_consumer", f"{APP}.huey", "-w", "1", "-q"]
    environ = {"BENCH_HUEY": str(folder / "huey.db")}
    with started(words, folder / "huey.log", lambda: True, env=environ) as process:
        yield {"huey's consumer": process.pid}
