"""`.busy.json`: who holds the checkout and which run, for people and for finding leftovers. It decides nothing."""

from __future__ import annotations

import json

from kranzq.disk import atomic
from kranzq.disk.modes import counts
from kranzq.disk.read import Unreadable, read_regular
from kranzq.model.frozen import frozen
from kranzq.model.process import ProcessIdentity

BUSY_JSON = ".busy.json"


@frozen
class BusyRecord:
    """What the holder says of itself. `role` is `dispatcher` or `keeper`; `since` is RFC 3339."""

    role: str
    process: ProcessIdentity
    since: str
    version: str
    mission: str | None = None
    run: int | None = None
    nonce: str | None = None


def write(queue: int, record: BusyRecord) -> None:
    """Replace the record; not synced, for the kernel's lock is the truth."""
    shown = {
        "role": record.role,
        "process": record.process.to_json(),
        "since": record.since,
        "version": record.version,
        "mission": record.mission,
        "run": record.run,
        "nonce": record.nonce,
    }
    atomic.replace(queue, BUSY_JSON, json.dumps(shown).encode(), mode=0o644, sync=False)


def read(queue: int) -> BusyRecord | None:
    """The record, or None when there is none that can be read."""
    try:
        found = read_regular(BUSY_JSON, dir_fd=queue)
        value = json.loads(found.data) if found is not None and counts(found.stat, queue) else None
    except (Unreadable, ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or (process := ProcessIdentity.from_json(value.get("process"))) is None:
        return None
    texts = [value.get(key) for key in ("role", "since", "version", "mission", "nonce")]
    role, since, version, mission, nonce = (text if isinstance(text, str) else None for text in texts)
    run = value.get("run")
    return BusyRecord(
        role or "unknown", process, since or "", version or "", mission, run if type(run) is int else None, nonce
    )


def exists(queue: int) -> bool:
    """Whether a record lies there; one that does after the lock was taken tells of a holder that was killed."""
    try:
        return read_regular(BUSY_JSON, dir_fd=queue) is not None
    except Unreadable:
        return True


def remove(queue: int, ours: ProcessIdentity | None) -> None:
    """Remove the record if it names `ours` (or anybody, with None)."""
    if ours is not None and ((found := read(queue)) is None or found.process != ours):
        return
    atomic.remove(queue, BUSY_JSON)
