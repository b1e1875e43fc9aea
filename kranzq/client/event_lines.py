"""Server-sent events out of bytes: lines, and from blank line to blank line an event. Pure, and bounded.

What is cut off in the middle is no event. The rules are those of the HTML standard, section *server-sent events*.
"""

from __future__ import annotations

import re

from kranzq.model.frozen import frozen

MOST_LINE = 256 * 1024
"""Bytes of a line."""
MOST_EVENT = 1024 * 1024
"""Bytes of the data of one event."""
MOST_ID = 200
_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class TooLong(ValueError):
    """A line or an event is longer than any that is meant."""


@frozen
class Frame:
    """One event as it came. `id` is the one that counts behind it: its own, or that of an event before it."""

    kind: str
    id: str
    data: str


class Lines:
    """Takes bytes as they come. `retry_ms`: how long to wait before coming again, if it was said."""

    def __init__(self, last: str = "") -> None:
        self.retry_ms: int | None = None
        self._id = last
        self._begun, self._after_return, self._is_first = bytearray(), False, True
        self._kind, self._data, self._size = "", list[str](), 0

    def feed(self, data: bytes) -> list[Frame]:
        """The events that are whole now. Raises TooLong."""
        if self._after_return and data[:1] == b"\n":
            data = data[1:]
            self._after_return = False
        if data:
            self._after_return = data.endswith(b"\r")
        *whole, rest = _END.split(data)
        found = list[Frame]()
        for line in whole:
            self._begin(line)
            self._take(bytes(self._begun), found)
            self._begun.clear()
        self._begin(rest)
        return found

    def _begin(self, part: bytes) -> None:
        """More of a line. What has no end is not kept for ever."""
        if len(self._begun) + len(part) > MOST_LINE:
            raise TooLong(f"a line of more than {MOST_LINE} bytes")
        self._begun += part

    def _take(self, line: bytes, found: list[Frame]) -> None:
        if self._is_first:
            line, self._is_first = line.removeprefix(_BOM), False
        if not line:
            if self._data:
                found.append(Frame(self._kind or "message", self._id, "\n".join(self._data)))
            self._kind, self._data, self._size = "", [], 0
            return
        name, _, value = line.partition(b":")
        self._field(name, value.removeprefix(b" ").decode("utf-8", "replace"))

    def _field(self, name: bytes, value: str) -> None:
        match name:
            case b"event":
                self._kind = value
            case b"data":
                self._size += len(value) + 1
                if self._size > MOST_EVENT:
                    raise TooLong(f"an event of more than {MOST_EVENT} bytes")
                self._data.append(value)
            case b"id" if len(value) <= MOST_ID and value.isascii() and (value.isprintable() or not value):
                self._id = value  # another one could not be sent back in a header
            case b"id":
                self._id = ""
            case b"retry" if value.isascii() and value.isdigit():
                self.retry_ms = int(value[:9])
            case _:
                pass  # a comment, or what a newer server says
