"""Seeing what others do: what has changed since the last look, how deep the queue is, how long callers waited.

Nobody is told of changes: whoever wants to know looks, and a look says what each thing has become, not how. Of several
changes between two looks the last one counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from kranzq.model.frozen import frozen


@frozen
class Seen:
    """What one look saw: values as JSON has them. With `lost` (half a sentence) something may have been missed."""

    changes: tuple[Mapping[str, object], ...] = ()
    lost: str = ""


class Watch(Protocol):
    """One who looks again and again. Not for threads; whatever it remembers is lost with it."""

    @property
    def pause_s(self) -> float:
        """How long a look should be left alone after one, in seconds: the more it costs, the longer."""
        ...

    def look(self) -> Seen:
        """What has changed since the last call, however long ago; the first one only remembers. Raises as stores do."""
        ...


@frozen
class Depth:
    """So many items of a kind are in a state that is no end."""

    state: str
    kind: str
    many: int


@frozen
class Waits:
    """How often callers of this process had to wait for others before they could write, and for how long in all."""

    count: int = 0
    seconds: float = 0.0


class StoreLooks(Protocol):
    """What is to be seen of a store from outside. May be shared by threads."""

    def items(self) -> Watch:
        """A new watch of the items. A renewed lease is no change, nor is the removal of what ended long ago."""
        ...

    def depths(self) -> list[Depth]:
        """How many items wait or run, by state and kind."""
        ...

    def waits(self) -> Waits:
        """How callers of this process have waited since it opened the store."""
        ...


class NothingThere:
    """A watch of what is not there."""

    pause_s = 60.0

    def look(self) -> Seen:
        """Nothing, each time."""
        return Seen()
