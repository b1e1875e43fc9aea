"""Where the outbox of a checkout lies, and what waits in it, for `status`, `check` and `notify list`. Only reads."""

from __future__ import annotations

import hashlib
import json
import os
import time

from kranzq.model.clock import rfc3339
from kranzq.model.frozen import frozen

FOLDER = "hooks"
MANY = 1000
_READ = 20


def folder_name(root: str) -> str:
    """Where a checkout's outbox lies below the state directory."""
    return f"{FOLDER}/{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}"


@frozen
class Backlog:
    """What waits, since when (wall seconds, None: nothing), how often the oldest was tried and why it failed."""

    folder: str
    waiting: int
    since: float | None
    tries: int
    why: str
    missed: int

    def to_json(self) -> dict[str, object]:
        """With the documented keys."""
        return {
            "folder": self.folder,
            "waiting": self.waiting,
            "since": rfc3339(self.since) if self.since is not None else None,
            "tries": self.tries,
            "why": self.why,
            "missed": self.missed,
        }

    def notices(self) -> tuple[tuple[str, str], ...]:
        """What a person should look at, with what to type next."""
        found = []
        if self.tries:
            tried = f"{self.tries} {'try' if self.tries == 1 else 'tries'}; {events_wait(self.waiting)}"
            text = f"a hook takes nothing: {self.why or 'it fails'} ({tried})"
            found.append((text, "Try it by hand: kranzq notify test"))
        elif self.waiting >= MANY:
            text = f"{events_wait(self.waiting)} for their hooks"
            found.append((text, "Look at them with: kranzq notify list"))
        if self.missed:
            text = f"{self.missed} events were told to no hook: too many waited, or one waited for a day"
            found.append((text, f"The next event says so, too; what happened: kranzq history, {self.folder}/log"))
        return tuple(found)


def events_wait(number: int) -> str:
    """How many wait, as a part of a sentence."""
    return "1 event waits" if number == 1 else f"{number} events wait"


def look(state: str, root: str) -> Backlog:
    """The outbox of the checkout at `root`, below a state directory. What cannot be read counts as not there."""
    folder = f"{state}/{folder_name(root)}"
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and name[0] != ".")
    except OSError:
        names = []
    tries, why, since = 0, "", None
    for name in names[:_READ]:
        record = _record(f"{folder}/{name}")
        began = record.get("since")
        if isinstance(began, int | float) and (since is None or began < since):
            since = float(began)
        if isinstance(tried := record.get("tries"), int) and tried > tries:
            tries, why = tried, str(record.get("why", ""))
    missed = sum(_size(f"{folder}/{name}") for name in ("missed", "missed.telling"))
    return Backlog(folder, len(names), min(since, time.time()) if since is not None else None, tries, why, missed)


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
