"""What lies beside the queue's order: entries that wait to be admitted, and files that were quarantined. A look."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Protocol

from kranzq.disk.read import ENTRY_LIMIT, Unreadable, open_folder, read_regular
from kranzq.errors import BadEntry
from kranzq.model.entry import Entry, parse

_ENTRY_NAME = re.compile(r"[0-9]{1,20}-([0-9]{1,20})-(.+)\.json(?:\.[0-9]+)?", re.ASCII)


class Quarantine(Protocol):
    """What tells the files that were quarantined."""

    def quarantined(self) -> Sequence[tuple[str, str]]:
        """Names in the quarantine with their reasons."""
        ...


def inbox(queue: int) -> tuple[list[Entry], dict[str, str]]:
    """The entries that wait to be admitted, and the names of files that are none, each with the reason."""
    entries: list[Entry] = []
    bad: dict[str, str] = {}
    for name in inbox_names(queue):
        try:
            entry = _read(queue, name)
        except (Unreadable, BadEntry) as fault:
            bad[f"inbox/{name}"] = fault.why
        else:
            if entry is not None:
                entries.append(entry)
    return entries, bad


def inbox_names(queue: int) -> list[str]:
    """The names in the inbox that ask to be admitted."""
    try:
        fd = open_folder("inbox", dir_fd=queue)
    except OSError:
        return []
    try:
        return sorted(name for name in os.listdir(fd) if not name.startswith("."))
    finally:
        os.close(fd)


def quarantined_as(queue: Quarantine, mission: str, newer_than: int | None) -> tuple[str, str] | None:
    """The quarantined file of a mission and its reason, if its number is above that of the mission's last run."""
    for name, reason in queue.quarantined():
        found = _ENTRY_NAME.fullmatch(name)
        if found is not None and found[2] == mission and (newer_than is None or int(found[1]) > newer_than):
            return name, reason
    return None


def _read(queue: int, name: str) -> Entry | None:
    try:
        fd = open_folder("inbox", dir_fd=queue)
    except OSError:
        return None
    try:
        found = read_regular(name, dir_fd=fd, limit=ENTRY_LIMIT)
    finally:
        os.close(fd)
    return parse(found.data) if found is not None else None
