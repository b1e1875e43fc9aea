"""The last events of one server, numbered: whoever was away for a while reads on from where it was.

An event's id is the server's boot and its number there. Each is written as a frame once, whatever the number of
readers; its data is JSON in ASCII on one line, so that nothing in a name or a title ends a frame.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping

from kranzq.model.frozen import frozen
from kranzq.server.plain import plain

MOST = 10_000
RESYNC = "resync"
_ID = re.compile(r"([0-9a-f]{1,64})-([0-9]{1,15})", re.ASCII)


@frozen
class Event:
    """One event as it is sent."""

    number: int
    kind: str
    frame: bytes


class EventLog:
    """A ring of the last events. May be shared by threads."""

    def __init__(self, boot: str, most: int = MOST) -> None:
        self.boot = boot
        self._ring: list[Event | None] = [None] * most
        self._mutex = threading.Lock()
        self._head = 0

    @property
    def head(self) -> int:
        """The number of the last event; 0 before the first."""
        return self._head

    @property
    def tail(self) -> int:
        """The number behind which all events are still there."""
        return max(0, self._head - len(self._ring))

    def add(self, kind: str, value: Mapping[str, object]) -> None:
        """The next event."""
        with self._mutex:
            number = self._head + 1
            self._ring[number % len(self._ring)] = Event(number, kind, frame(kind, value, self.id(number)))
            self._head = number

    def after(self, number: int, most: int) -> list[Event]:
        """Events behind a number, in order, so many at most; none when some of them are gone."""
        with self._mutex:
            if number < self.tail:
                return []
            numbers = range(number + 1, min(self._head, number + most) + 1)
            return [one for at in numbers if (one := self._ring[at % len(self._ring)]) is not None]

    def id(self, number: int) -> str:
        """An event's id."""
        return f"{self.boot}-{number}"

    def place(self, text: str) -> int | None:
        """The number in an id from which one can read on; None for what is none of ours, or no more, or not yet."""
        found = _ID.fullmatch(text)
        if found is None or found[1] != self.boot:
            return None
        number = int(found[2])
        return number if self.tail <= number <= self._head else None


def frame(kind: str, value: Mapping[str, object], name: str = "", *, retry_ms: int | None = None) -> bytes:
    """One event as a stream has it."""
    lines = [f"id: {name}"] if name else []
    lines += [f"retry: {retry_ms}"] if retry_ms is not None else []
    lines += [f"event: {kind}", f"data: {json.dumps(plain(value), separators=(',', ':'))}"]
    return ("\n".join(lines) + "\n\n").encode("ascii")
