"""Deep queues, made quickly: entries as kranzq writes and signs them, under their names at once, nothing synced."""

from __future__ import annotations

import os
import secrets
import subprocess

from kranzq.backends.file.layout import claim_name, entry_name
from kranzq.model.checkout import Checkout
from kranzq.model.entry import Entry, Own, render
from kranzq.model.ids import MissionId
from kranzq.trust.mac import sign
from kranzq.wiring import trusting

FIRST_NUMBER = 1000


def fill(repo: Checkout, many: int, *, claimed_by: int | None = None) -> None:
    """So many entries, queued, or claimed by a process; commands that end at once."""
    key = trusting.keyring(os.environ).current()
    for number in range(FIRST_NUMBER, FIRST_NUMBER + many):
        own = Own(id=secrets.token_hex(16), command=("true",))
        entry = sign(Entry(MissionId(f"deep-{number}"), 2, number=number, own=own), repo.root, key)
        name = entry_name(2, number, entry.mission)
        text = name.text if claimed_by is None else claim_name(name, claimed_by, secrets.token_hex(8)).text
        fd = os.open(f"{repo.queue}/{text}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(fd, render(entry))
        os.close(fd)


def gone_pid() -> int:
    """The pid of a process that is no more."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid
