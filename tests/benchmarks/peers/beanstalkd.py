"""beanstalkd with its log synced at each write: a server in C, spoken to over TCP by greenstalk."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.checkouts import started
from tests.benchmarks.peers.acts import PAYLOAD, Acts, not_installed

NAME = "beanstalkd"
PROMISES = "durable (-b -f0)"


def missing() -> str:
    """Why it cannot take part; empty when it can."""
    if shutil.which("beanstalkd") is None:
        return "not installed here (package beanstalkd)"
    return not_installed("greenstalk")


def version() -> str:
    """Its version."""
    done = subprocess.run(["beanstalkd", "-v"], capture_output=True, text=True, check=False)
    return done.stdout.removeprefix("beanstalkd").strip()


@contextlib.contextmanager
def in_process(folder: Path) -> Iterator[dict[str, Acts]]:
    """Put, and reserve with delete, on a server of the benchmark's own."""
    module: Any = importlib.import_module("greenstalk")
    with _running(folder) as (port, _):
        client = module.Client(("127.0.0.1", port))
        yield {
            "beanstalkd": Acts(
                lambda: client.put(PAYLOAD),
                lambda: client.delete(client.reserve(timeout=5)),
                "durable (-b -f0); a server of its own",
            )
        }
        client.close()


@contextlib.contextmanager
def resident(folder: Path) -> Iterator[dict[str, int]]:
    """Its server."""
    with _running(folder) as (_, pid):
        yield {"beanstalkd": pid}


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[tuple[int, int]]:
    """Its port and its process."""
    log = folder / "beanstalkd"
    log.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", str(log), "-f", "0"]
    with started(words, folder / "beanstalkd.log", lambda: _answers(port)) as process:
        yield port, process.pid


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
