"""What a person was told to do and has not done yet: said once a day, not by each dispatcher that comes along.

A `drain` that is started each minute finds the same unsigned entry each minute. It is remembered after the event was
kept, so a kill in between tells it twice rather than never.
"""

from __future__ import annotations

import hashlib
import json
import os
import time

from kranzq.disk import atomic
from kranzq.events import Event, PassedOver, StartsPaused

NAME = ".said"
AGAIN_S = 86400.0
_MOST = 1000


def is_known(outbox: str, hook: str, event: Event) -> bool:
    """Whether the same was said within a day."""
    if not comes_again(hook, event):
        return False
    at = _read(outbox).get(_mark(event), 0.0)
    return 0 <= time.time() - at < AGAIN_S


def remember(outbox: str, hook: str, event: Event) -> None:
    """Keep that it was said, and forget what was said longer ago. Raises OSError."""
    if not comes_again(hook, event):
        return
    now = time.time()
    known = {mark: at for mark, at in _read(outbox).items() if 0 <= now - at < AGAIN_S}
    newest = sorted(known.items(), key=lambda one: one[1])[-_MOST:]
    fd = os.open(outbox, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        atomic.replace(fd, NAME, json.dumps(dict(newest) | {_mark(event): now}).encode(), sync=False)
    finally:
        os.close(fd)


def comes_again(hook: str, event: Event) -> bool:
    """Whether each dispatcher says it, for as long as it is true."""
    return hook == "needs_person" and isinstance(event, PassedOver | StartsPaused)


def _mark(event: Event) -> str:
    fields = vars(event)
    return hashlib.sha256(f"{fields.get('mission', '')}\0{fields['why']}".encode("utf-8", "replace")).hexdigest()[:16]


def _read(outbox: str) -> dict[str, float]:
    try:
        with open(f"{outbox}/{NAME}", "rb") as file:
            value = json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return {}
    kept = value.items() if isinstance(value, dict) else ()
    return {mark: float(at) for mark, at in kept if isinstance(at, int | float)}
