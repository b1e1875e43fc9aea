"""Whose text is it? A line in the file tells the hash of all others: an edit is seen, and no second file is needed."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

Whose = Literal["ours", "edited", "foreign"]
_MARK = re.compile(rb"^.*kranzq service: sha256 ([0-9a-f]{64})[^\n]*\n", re.MULTILINE)


def marked(head: str, body: str, *, before: str = "# ", after: str = "") -> str:
    """A file with its mark between two parts; `before` and `after` make a comment of it."""
    digest = hashlib.sha256((head + body).encode()).hexdigest()
    return f"{head}{before}kranzq service: sha256 {digest}{after}\n{body}"


def is_mark(line: str) -> bool:
    """Whether a line is the mark, which changes with every other line."""
    return _MARK.match(f"{line}\n".encode(errors="replace")) is not None


def whose(data: bytes) -> Whose:
    """Whether a file is as kranzq wrote it, was edited since, or was never kranzq's."""
    found = _MARK.search(data)
    if found is None:
        return "foreign"
    rest = data[: found.start()] + data[found.end() :]
    return "ours" if hashlib.sha256(rest).hexdigest().encode() == found[1] else "edited"
