"""nq: a job is a file with a lock; the command that enqueues starts it. Nothing is synced, nor can it be made so."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks.job import Job

NAME = "nq"
PROMISES = "not durable: nq syncs nothing"


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    return "" if shutil.which("nq") else "not installed here (package nq)"


def version() -> str:
    """Its version; nq does not tell."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "nq"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


@contextlib.contextmanager
def dispatching(folder: Path, job: Job) -> Iterator[dict[str, Callable[[], float]]]:
    """Milliseconds from its start to the job's first instruction."""
    here = folder / "nq"
    here.mkdir()
    environ = os.environ | {"NQDIR": str(here)}

    def send() -> float:
        began = time.monotonic_ns()
        os.waitpid(os.posix_spawnp("nq", ["nq", "-q", *job.argv], environ), 0)
        heard = job.heard_ns()
        for name in os.listdir(here):  # it never removes what it kept, and looks through all of it
            with contextlib.suppress(OSError):
                os.unlink(here / name)
        return (heard - began) / 1e6

    yield {NAME: send}


@contextlib.contextmanager
def commands(folder: Path) -> Iterator[dict[str, tuple[Sequence[str], dict[str, str]]]]:
    """The command by which a person enqueues."""
    here = folder / "nq"
    here.mkdir(exist_ok=True)
    yield {"nq -q true": (["nq", "-q", "true"], {"NQDIR": str(here)})}
