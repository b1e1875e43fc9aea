"""Where the outbox of a checkout lies, and what waits in it, for `status`, `check` and `notify list`. Only reads."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Collection

from kranzq.hooks import receivers
from kranzq.model.clock import rfc3339
from kranzq.model.frozen import frozen

FOLDER = "hooks"
MANY = 1000
_READ = 20
_PARTS = 4
Wanted = Callable[[], Collection[tuple[str, ...]] | None]
"""Whom the hooks tell as configured now; None where that cannot be read."""


def folder_name(root: str) -> str:
    """Where a checkout's outbox lies below the state directory."""
    return f"{FOLDER}/{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}"


@frozen
class Waiting:
    """What waits for one receiver: how much, how often it was tried at most and why that failed."""

    receiver: str
    mark: str
    events: int
    tries: int
    why: str
    configured: bool
    """Whether a hook names it still: else it gets what happened before, and no verb but `notify drop` ends that."""

    def to_json(self) -> dict[str, object]:
        """With the documented keys."""
        names = ("receiver", "events", "tries", "why", "configured")
        return {name: getattr(self, name) for name in names}

    def notice(self) -> tuple[str, str]:
        """That it takes nothing, with what to type next."""
        tried, wait = f"{self.tries} {'try' if self.tries == 1 else 'tries'}", events_wait(self.events)
        why = self.why or "it fails"
        if self.configured:
            return (
                f"a hook takes nothing: {why} ({self.receiver}, {tried}; {wait})",
                "Try it by hand: kranzq notify test",
            )
        text = f"{wait} for {self.receiver}, which no hook names any more and which takes nothing: {why} ({tried})"
        return text, "Drop what waits for it: kranzq notify drop"


@frozen
class Backlog:
    """What waits, since when (wall seconds, None: nothing), how often one was tried at most and why it failed."""

    folder: str
    waiting: int
    since: float | None
    tries: int
    why: str
    missed: int
    receivers: tuple[Waiting, ...] = ()

    def to_json(self) -> dict[str, object]:
        """With the documented keys."""
        return {
            "folder": self.folder,
            "waiting": self.waiting,
            "since": rfc3339(self.since) if self.since is not None else None,
            "tries": self.tries,
            "why": self.why,
            "missed": self.missed,
            "receivers": [one.to_json() for one in self.receivers],
        }

    def notices(self) -> tuple[tuple[str, str], ...]:
        """What a person should look at, with what to type next."""
        found = [one.notice() for one in self.receivers if one.tries]
        if not found and self.waiting >= MANY:
            text = f"{events_wait(self.waiting)} for their hooks"
            found.append((text, "Look at them with: kranzq notify list"))
        if self.missed:
            text = f"{self.missed} events were told to no hook: too many waited, or one waited for a day"
            found.append((text, f"The next event says so, too; what happened: kranzq history, {self.folder}/log"))
        return tuple(found)


def events_wait(number: int) -> str:
    """How many wait, as a part of a sentence."""
    return "1 event waits" if number == 1 else f"{number} events wait"


def look(state: str, root: str, wanted: Wanted) -> Backlog:
    """The outbox of the checkout at `root`, below a state directory. What cannot be read counts as not there.

    Only the oldest events of each receiver are read; `wanted` is asked where any wait.
    """
    folder = f"{state}/{folder_name(root)}"
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and name[0] != ".")
    except OSError:
        names = []
    now = wanted() if names else None
    known = None if now is None else {receivers.mark(command) for command in now}
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_mark_in(name), []).append(name)
    found, since = [], None
    for mark, group in groups.items():
        records = [_record(f"{folder}/{name}") for name in group[:_READ]]
        is_known = known is None or not mark or mark in known
        found.append(_waiting_for(mark, len(group), records, configured=is_known))
        began = [float(at) for one in records if isinstance(at := one.get("since"), int | float)]
        since = min([*began, since if since is not None else time.time()]) if began else since
    missed = sum(_size(f"{folder}/{name}") for name in ("missed", "missed.telling"))
    worst = max(found, key=lambda one: one.tries, default=None)
    tries, why = (worst.tries, worst.why) if worst is not None else (0, "")
    return Backlog(folder, len(names), since, tries, why, missed, tuple(found))


def _mark_in(name: str) -> str:
    """The mark of the receiver in a file's name."""
    parts = name.split(".")
    return parts[2] if len(parts) == _PARTS else ""


def _waiting_for(mark: str, events: int, records: list[dict[str, object]], *, configured: bool) -> Waiting:
    whom, tries, why = "", 0, ""
    for record in records:
        command = record.get("command")
        if not whom and isinstance(command, list) and command and isinstance(command[0], str):
            whom = receivers.short(command)
        if isinstance(tried := record.get("tries"), int) and tried > tries:
            tries, why = tried, str(record.get("why", ""))
    return Waiting(whom or "one that cannot be read", mark, events, tries, why, configured)


def _record(path: str) -> dict[str, object]:
    try:
        with open(path, "rb") as file:
            value = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
