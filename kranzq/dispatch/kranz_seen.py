"""What kranz says of a mission, whether a kranz engine works in this checkout, and what it would not see in an entry.

Looks that decide nothing: bounded, through no link, and whatever cannot be read says nothing.
"""

from __future__ import annotations

import os
import re

from kranzq.disk.read import open_folder
from kranzq.errors import BadMissionId
from kranzq.model.checkout import EVENTS
from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.state import State

_WORD = r"[a-z][a-z_-]{0,31}"
_MOST = 500
"""So many missions are looked at: an engine that works here has left its trace in most of them."""


def kranz_says(kranz_fd: int, mission: str | None) -> str | None:
    """The mission's status in kranz's own words, None where kranz does not know it or says something strange."""
    from kranzq.dispatch.predecessors import kranz_status  # noqa: PLC0415 - an enqueue asks the next one only

    try:
        status = kranz_status(kranz_fd, MissionId(mission)) if mission is not None else None
    except BadMissionId:
        return None
    return status if status is not None and re.fullmatch(_WORD, status) is not None else None


def kranz_works_here(kranz_fd: int) -> bool:
    """Whether a kranz engine was at work in this checkout: its settings or a mission's events lie here."""
    if _is_there(kranz_fd, "config.json"):
        return True
    try:
        missions = open_folder("missions", dir_fd=kranz_fd)
    except OSError:
        return False
    try:
        return any(_is_there(missions, f"{name}/{EVENTS}") for name in os.listdir(missions)[:_MOST])
    finally:
        os.close(missions)


def ignored_by_kranz(entry: Entry, state: State) -> str | None:
    """What a kranz dispatcher would make of an entry of ours that is not what it says; None when it is the same."""
    own = entry.own
    if own is None:
        return None
    if state is State.WAITING:
        return "never sees it while it waits; only kranzq lets it go"
    said = {
        "command": own.command,
        "timeout": own.timeout_seconds,
        "retries": own.retries,
        "environment": own.env,
        "directory": own.cwd,
    }
    ignored = [word for word, value in said.items() if value]
    return f"ignores its {' and '.join(ignored)}, and runs kranz's own plan" if ignored else None


def _is_there(dir_fd: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except OSError:
        return False
    return True
