"""task-spooler: a server that keeps its queue in memory; what waits is lost with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks.job import Job

NAME = "task-spooler"
PROMISES = "not durable: the queue is in memory"


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return "" if shutil.which("tsp") else "not installed here (package task-spooler)"


def version() -> str:
    """Its version."""
    done = subprocess.run(["tsp", "-V"], capture_output=True, text=True, check=False)
    return done.stdout.partition(" - ")[0].strip()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which its server is this benchmark's own; its socket lies on a short path."""
    here = folder / "tsp"
    here.mkdir(exist_ok=True)
    socket = f"/tmp/kranzq-bench-{os.getpid()}-{abs(hash(folder)) % 10**8}.tsp"
    environ = {"TS_SOCKET": socket, "TMPDIR": str(here), "TS_MAXFINISHED": "10"}
    subprocess.run(["tsp", "-n", "true"], env=os.environ | environ, check=True, capture_output=True)
    try:
        yield environ
    finally:
        subprocess.run(["tsp", "-K"], env=os.environ | environ, check=False, capture_output=True)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(socket)


@contextlib.contextmanager
def dispatching(folder: Path, job: Job) -> Iterator[dict[str, Callable[[], float]]]:
    """Milliseconds from the start of its command to the job's first instruction."""
    with served(folder) as environ:
        whole = os.environ | environ

        def send() -> float:
            began = time.monotonic_ns()
            quiet = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
            os.waitpid(os.posix_spawnp("tsp", ["tsp", "-n", *job.argv], whole, file_actions=quiet), 0)
            return (job.heard_ns() - began) / 1e6

        yield {NAME: send}


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[dict[str, tuple[Sequence[str], dict[str, str]]]]:
    """The command by which a person enqueues, its server up."""
    with served(folder) as environ:
        yield {"tsp -n true": (["tsp", "-n", "true"], environ)}
