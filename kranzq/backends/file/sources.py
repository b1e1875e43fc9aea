"""Producer bindings: an outside program writes one before it enqueues, so that any dispatcher may run its mission.

Format and names are kranz's (`enqueue-source.json`, schema version 1); a binding that was returned or cancelled is the
same bytes under another name.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator

from kranzq.backends.file.folders import Folders
from kranzq.disk import atomic
from kranzq.disk.read import Unreadable, open_folder, read_regular
from kranzq.errors import UnsafePath, UsageFault
from kranzq.model.ids import MissionId
from kranzq.model.source import Source

SOURCE = "enqueue-source.json"
RETURNED = "enqueue-source.returned.json"
CANCELLED = "enqueue-source.cancelled.json"
VERSION = 1


def write(folders: Folders, mission: MissionId, producer: str, reference: str) -> Source:
    """Bind a mission to a producer's item, durably; an earlier binding is replaced. Raises UsageFault when blank."""
    if not producer.strip() or not reference.strip():
        raise UsageFault("A binding needs a producer and a reference.", "For example: --source tracker:TICKET-7")
    source = Source(mission, producer, reference, int(time.time()))
    shown = {
        "schemaVersion": VERSION,
        "missionId": str(mission),
        "producer": producer,
        "externalRef": reference,
        "createdUnixSecs": source.created_at,
    }
    try:
        with _folder(folders, mission, make=True) as fd:
            atomic.replace(fd, SOURCE, json.dumps(shown, indent=2, ensure_ascii=False).encode(), sync=True)
    except OSError as fault:
        raise atomic.store_fault(f"{folders.checkout.missions}/{mission}", fault) from fault
    return source


def read(folders: Folders, mission: MissionId, name: str = SOURCE) -> Source | None:
    """The binding of a mission, or None when there is none that counts (blank, other version, other mission)."""
    try:
        with _folder(folders, mission) as fd:
            found = read_regular(name, dir_fd=fd)
    except (FileNotFoundError, Unreadable):
        return None
    return _parse(found.data, mission) if found is not None else None


def remove(folders: Folders, mission: MissionId) -> bool:
    """Take a binding back, as a producer does whose enqueue failed. False when there was none."""
    return _with_binding(folders, mission, lambda fd: atomic.remove(fd, SOURCE))


def give_back(folders: Folders, mission: MissionId) -> bool:
    """Mark a binding as returned: its producer has seen its own transition. False when there was none."""
    return _with_binding(folders, mission, lambda fd: _rename(fd, RETURNED))


def cancel(folders: Folders, mission: MissionId) -> bool:
    """Mark a binding as cancelled. False when there was none."""
    return _with_binding(folders, mission, lambda fd: _rename(fd, CANCELLED))


def _with_binding(folders: Folders, mission: MissionId, act: Callable[[int], bool]) -> bool:
    try:
        with _folder(folders, mission) as fd:
            return act(fd)
    except FileNotFoundError:
        return False


def _rename(fd: int, name: str) -> bool:
    try:
        atomic.put_over(fd, SOURCE, name)
    except FileNotFoundError:
        return False
    return True


def _parse(data: bytes, mission: MissionId) -> Source | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or value.get("schemaVersion") != VERSION or value.get("missionId") != mission:
        return None
    producer, reference, created = value.get("producer"), value.get("externalRef"), value.get("createdUnixSecs", 0)
    if not isinstance(producer, str) or not isinstance(reference, str) or not producer.strip() or not reference.strip():
        return None
    return Source(mission, producer, reference, created if type(created) is int and created >= 0 else 0)


@contextlib.contextmanager
def _folder(folders: Folders, mission: MissionId, *, make: bool = False) -> Iterator[int]:
    with contextlib.ExitStack() as stack:
        parent = folders.kranz
        for name in ("missions", str(mission)):
            if make:
                atomic.make_folder(name, dir_fd=parent)
            try:
                parent = open_folder(name, dir_fd=parent)
            except NotADirectoryError as fault:
                raise UnsafePath(f"{folders.checkout.missions}/{mission}", "it is a link or no directory") from fault
            stack.callback(os.close, parent)
        yield parent
