"""What was measured on, and with: without it a figure says nothing."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
import subprocess
from pathlib import Path

from tests.benchmarks.peers.known import versions

REPO = Path(__file__).resolve().parents[2]
PARTS = ("click", "filelock", "msgspec", "psutil", "psycopg", "starlette", "uvicorn", "watchdog")


def machine() -> dict[str, str]:
    """The machine in a few words, with how busy it was at the moment."""
    load = os.getloadavg()[0]
    return {
        "cores": str(os.cpu_count()),
        "processor": _processor(),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "commit": commit(),
        "load": f"{load:.1f}",
    }


def commit() -> str:
    """The commit that is measured, marked where files differ from it."""
    words = ["git", "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def all_versions() -> dict[str, str]:
    """Versions of the peers that are here and of the parts that kranzq is made of."""
    found = {}
    for name in PARTS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found | versions()


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()
