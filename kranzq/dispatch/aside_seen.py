"""What lies beside the queue's order: entries that wait to be admitted, and files that were quarantined. A look."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from typing import Protocol

from kranzq.disk.read import ENTRY_LIMIT, Unreadable, open_folder, read_regular
from kranzq.errors import BadEntry
from kranzq.model.dropped import asks_admission
from kranzq.model.entry import Entry, parse

_ADMITTING = re.compile(r"\.admitting\.[0-9]+", re.ASCII)
_ENTRY_NAME = re.compile(r"[0-9]{1,20}-([0-9]{1,20})-(.+?)(?:\.json)?(?:\.[0-9]+)?", re.ASCII)
"""An entry's name as the quarantine has it: with a number where it was taken, without an ending that a reason has."""


class Quarantine(Protocol):
    """What tells the files that were quarantined."""

    def quarantined(self) -> Sequence[tuple[str, str]]:
        """Names in the quarantine with their reasons."""
        ...


def inbox(queue: int) -> tuple[list[Entry], dict[str, str]]:
    """The entries that wait to be admitted, and the names of files that are none, each with the reason."""
    entries: list[Entry] = []
    bad: dict[str, str] = {}
    for folder, names in _not_admitted(queue):
        for name in names:
            try:
                entry = _read(queue, folder, name)
            except (Unreadable, BadEntry) as fault:
                bad[f"{folder}/{name}".removeprefix("./")] = fault.why
            else:
                if entry is not None:
                    entries.append(entry)
    return entries, bad


def inbox_names(queue: int) -> list[str]:
    """The names that ask to be admitted, also of what a killed process had begun to admit."""
    return [name for _, names in _not_admitted(queue) for name in names]


def quarantined_as(queue: Quarantine, mission: str, newer_than: int | None) -> tuple[str, str] | None:
    """The quarantined file of a mission and its reason, if its number is above that of the mission's last run."""
    for name, reason in queue.quarantined():
        found = _ENTRY_NAME.fullmatch(name)
        if found is not None and found[2] == mission and (newer_than is None or int(found[1]) > newer_than):
            return name, reason
    return None


def mission_of_aside(name: str) -> str | None:
    """The mission that a quarantined file was for, if its name tells."""
    found = _ENTRY_NAME.fullmatch(name)
    return found[2] if found is not None else None


def means(name: str, mission: str) -> bool:
    """Whether the name of a bad file seems to be meant for a mission."""
    stem = name.rpartition("/")[2].removesuffix(".json").removesuffix(".json.why")
    return re.fullmatch(rf"(?:.*[0-9]-|.*\.)?{re.escape(mission)}", stem, re.DOTALL) is not None


def _not_admitted(queue: int) -> list[tuple[str, list[str]]]:
    admitting = sorted(name for name in os.listdir(queue) if _ADMITTING.fullmatch(name))
    try:
        fd = open_folder("inbox", dir_fd=queue)
    except OSError:
        return [(".", admitting)]
    try:
        dropped = sorted(name for name in os.listdir(fd) if asks_admission(name) and not _is_folder(name, fd))
    finally:
        os.close(fd)
    return [(".", admitting), ("inbox", dropped)]


def _is_folder(name: str, fd: int) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _read(queue: int, folder: str, name: str) -> Entry | None:
    try:
        fd = open_folder(folder, dir_fd=queue)
    except OSError:
        return None
    try:
        found = read_regular(name, dir_fd=fd, limit=ENTRY_LIMIT)
    finally:
        os.close(fd)
    return parse(found.data) if found is not None else None
