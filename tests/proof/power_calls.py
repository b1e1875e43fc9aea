"""What `strace` wrote, read back: each call with its process, its arguments as values, and what it answered.

Read is what `strace -f -ttt -y -xx` writes, where every text and every path is in hexadecimal digits, so that no byte
of a name or a content can be taken for strace's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_LINE = re.compile(r"(\d+) +\d+\.\d+ (.*)")
_CALL = re.compile(r"(\w+)\((.*)\) += (-?\d+|\?)(.*)")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)")
_FD = re.compile(r"(-?\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_UNFINISHED = " <unfinished ...>"


class Opened(NamedTuple):
    """A descriptor that is an argument or an answer, with the path that it led to."""

    number: str
    path: str


Value = bytes | Opened | str
"""A text, a descriptor, or strace's own word (a number, flags)."""


class Call(NamedTuple):
    """One call that is over. `since`: how many others were over when it began."""

    pid: int
    name: str
    values: tuple[Value, ...]
    answer: int | None
    """None: it never came back."""
    opened: str | None
    """The path of the descriptor that it answered with."""
    since: int


def calls(lines: Iterable[str]) -> Iterator[Call]:
    """All calls in the order in which they were over. Raises ValueError for a line of another form."""
    begun: dict[int, tuple[str, int]] = {}
    over = 0
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            raise ValueError(f"strace wrote what cannot be read: {line[:200]}")
        pid, text, since = int(found[1]), found[2], over
        if text.startswith(("+++", "---")):
            continue
        if text.endswith(_UNFINISHED):
            begun[pid] = text.removesuffix(_UNFINISHED), over
            continue
        if resumed := _RESUMED.match(text):
            head, since = begun.pop(pid)
            text = head + resumed[2]
        yield _call(pid, text, since)
        over += 1


def _call(pid: int, text: str, since: int) -> Call:
    found = _CALL.fullmatch(text)
    if found is None:
        raise ValueError(f"strace wrote a call that cannot be read: {text[:200]}")
    opened = _FD.match(found[3] + found[4])
    answer = None if found[3] == "?" else int(found[3])
    values = tuple(_value(word) for word in found[2].split(", ")) if found[2] else ()
    return Call(pid, found[1], values, answer, _decoded(opened[2]).decode() if opened else None, since)


def _value(word: str) -> Value:
    if text := _TEXT.fullmatch(word):
        return _decoded(text[1])
    if opened := _FD.fullmatch(word):
        return Opened(opened[1], _decoded(opened[2]).decode("utf-8", "surrogateescape"))
    return word


def _decoded(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))
