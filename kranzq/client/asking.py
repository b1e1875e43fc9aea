"""One request as a value, how its answer is read, and when it may be sent again, for both kinds of client.

A request is sent again when nothing came of it for sure, or when it may be: it reads, it is fenced by an attempt, or it
bears an id of its own by which the server knows it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from kranzq.model.frozen import frozen

T = TypeVar("T")
U = TypeVar("U")
PATIENCE_S = 20.0
"""So long a call is repeated while the server is away."""
MOST_ANSWER = 128 * 1024 * 1024
"""Bytes of an answer; as much as a server reads of all its clients at once."""
FIRST_S, MOST_S = 0.1, 2.0
"""Pauses before a call is repeated; half of each is chance, so that many clients do not come at once."""


@frozen
class Ask(Generic[T]):
    """One request. `read` makes the value of a good answer; `item` is the one that it is about, for its faults."""

    method: str
    path: str
    read: Callable[[Any], T]
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] = field(default_factory=dict)
    is_repeatable: bool = True
    waits_s: float = 0.0
    """How long the server may wait before it answers."""
    item: str | None = None
    mission: str | None = None
    is_raw: bool = False
    """`read` is given the whole answer, headers and bytes, where others are given its JSON."""
    most: int = MOST_ANSWER
    """Bytes of its answer."""

    def then(self, read: Callable[[T], U]) -> Ask[U]:
        """The same request, whose value is read once more."""
        first = self.read
        return Ask(
            self.method,
            self.path,
            lambda value: read(first(value)),
            self.body,
            self.query,
            self.is_repeatable,
            self.waits_s,
            self.item,
            self.mission,
            self.is_raw,
            self.most,
        )


@dataclass(slots=True)
class Patience:
    """How often and how long one call is repeated. Times are those of the caller's monotonic clock."""

    until: float
    pause: float = FIRST_S

    def next_pause(self, now: float, told_s: float | None = None) -> float | None:
        """How long to wait before the next try: longer each time, and as the server said; None: give up."""
        pause = max(self.pause * random.uniform(0.5, 1.0), told_s or 0.0)  # noqa: S311 - chance, not a secret
        self.pause = min(self.pause * 2, MOST_S)
        return pause if now + pause < self.until else None
