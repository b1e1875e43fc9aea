"""What tests are made of: entries, checkouts and files as strangers write them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from kranzq.backends.file.backend import FileQueue
from kranzq.liveness import identity_of
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Holder
from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId

ROOT = Path(__file__).resolve().parents[1]
NO_PID = 4_194_303
"""The largest pid there can be; no machine that runs tests has come so far."""

PATIENT = """
from kranzq.backends.file import backend, bad_files, change
backend.PATIENCE_S = bad_files.PATIENCE_S = 100.0
for lock in (change.change, change.number_lock):
    lock.__wrapped__.__kwdefaults__["patience"] = 100.0
"""
"""Begins a program that races others for the queue's lock: on a loaded machine one of them may wait for very long."""


def make_entry(mission: str = "m-1", priority: int = 2, *command: str, number: int = 0) -> Entry:
    """An entry as the backend is handed one, with a random id."""
    return Entry(MissionId(mission), priority, number, own=Own(id=os.urandom(16).hex(), command=command))


def make_holder(pid: int | None = None) -> Holder:
    """A holder; with `pid`, that living process."""
    return Holder("a test", identity_of(pid) if pid is not None else None)


def make_queue(root: Path) -> FileQueue:
    """An open queue in a directory; the caller closes it."""
    return FileQueue.make(Checkout(str(root), has_git=(root / ".git").exists()))


def enqueue(queue: FileQueue, mission: str = "m-1", priority: int = 2, *command: str) -> str:
    """Queue a mission without a signature; the name of its file."""
    made = queue.enqueue(make_entry(mission, priority, *command), lambda _: None).entry
    return f"{made.priority:03d}-{made.number:020d}-{made.mission}.json"


def kranz_entry(mission: str, priority: int = 2, seq: int = 0, ticket: str | None = None) -> bytes:
    """An entry byte for byte as kranz writes one."""
    ticket_line = f'  "ticketSlug": {json.dumps(ticket)},\n' if ticket is not None else ""
    return f'{{\n  "missionId": "{mission}",\n{ticket_line}  "priority": {priority},\n  "seq": {seq}\n}}'.encode()


def kranz_name(mission: str, priority: int = 2, seq: int = 0) -> str:
    """The name under which kranz writes it."""
    return f"{priority:03d}-{seq:020d}-{mission}.json"


def names(root: Path, *below: str) -> list[str]:
    """The names in a directory of the queue, sorted, without hidden ones and the inbox, which is always there."""
    folder = root.joinpath(".kranz", "queue", *below)
    return sorted(name for name in os.listdir(folder) if name[0] != "." and name != "inbox") if folder.is_dir() else []


def gone_pid() -> int:
    """The pid of a process that was and is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def run_python(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Another process that runs `code`, with pipes to it."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def remove(queue: FileQueue, mission: str) -> int:
    """Take the entries of a mission out as a stranger does, who leaves no record; how many."""
    with queue.change():
        return len(queue.take_out(queue.unclaimed({mission})))
