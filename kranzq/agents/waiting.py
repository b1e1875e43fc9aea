"""Waiting for work: by the store's own hint where it has one, else by looking again after a pause that grows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
FIRST_S, MOST_S = 0.05, 2.0
"""Pauses between two looks; an item that comes meanwhile waits for two seconds at most."""
Wait = Callable[[float], bool]
"""Waits for so many seconds, or until there may be something to do; False when nobody wants to wait any longer."""


def until_there_is_one(take: Callable[[], T | None], seconds: float | None, wait: Wait) -> T | None:
    """What `take` gives, asked again for so many seconds (None: for ever). None when there was nothing."""
    until = None if seconds is None else time.monotonic() + seconds
    pause = FIRST_S
    while (found := take()) is None:
        left = pause if until is None else min(pause, until - time.monotonic())
        if left <= 0 or not wait(left):
            return None
        pause = min(pause * 2, MOST_S)
    return found
