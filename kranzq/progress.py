"""How far long work has come, for whoever wants to see it. Nobody listens unless somebody looks at a terminal.

Not an event: nothing has happened yet, and nothing may depend on being told.
"""

from __future__ import annotations

from collections.abc import Callable

Listener = Callable[[str, int, int | None], None]
"""Hears what is worked on, how much of it is done, and how much there is; None where nobody knows."""
_listeners: list[Listener] = []


def listen(listener: Listener) -> Callable[[], None]:
    """Tell `listener` from now on; returns what ends that."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener) if listener in _listeners else None


def advance(what: str, done: int, total: int | None = None) -> None:
    """So much of it is done. Cheap where nobody listens."""
    for listener in tuple(_listeners):
        listener(what, done, total)
