"""A marked block in a shell script, put in and taken out: bytes in, bytes out, and what is not ours stays as it is.

The block stands right behind the script's first line: what comes later may end the script, or read its input.
"""

from __future__ import annotations

import re

from kranzq.errors import Conflict
from kranzq.fitting.kinds import FILE, Mark
from kranzq.model.frozen import frozen

FIRST_LINE = b"#!/bin/sh\n"
_SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh"})
_BEGIN, _END = b"# >>> kranzq hook %s >>> ", b"# <<< kranzq hook %s <<<"


@frozen
class Block:
    """A block as it lies in a script, from `start` to `end`."""

    start: int
    end: int
    mark: Mark
    body: bytes


def is_shell(text: bytes) -> bool:
    """Whether a script's first line names a shell that understands the block."""
    line = text.partition(b"\n")[0]
    if not line.startswith(b"#!") or b"\0" in text:
        return False
    words = line[2:].decode("utf-8", "replace").split(" ")
    words = [word for word in words if word]
    if words and words[0].rpartition("/")[2] == "env":
        words = [word for word in words[1:] if word != "-S"]
    return bool(words) and words[0].rpartition("/")[2] in _SHELLS


def find(text: bytes, kind: str, path: str) -> Block | None:
    """The block of a kind, None without one. Raises Conflict for one that has only half of its marks, or two."""
    name = kind.encode()
    begins = list(re.finditer(rb"^" + re.escape(_BEGIN % name) + rb"(.*)\n", text, re.MULTILINE))
    ends = list(re.finditer(rb"^" + re.escape(_END % name) + rb"(?:\n|\Z)", text, re.MULTILINE))
    if not begins and not ends:
        return None
    mark = Mark.parse(begins[0][1].decode("utf-8", "replace")) if begins else None
    if len(begins) != 1 or len(ends) != 1 or mark is None or begins[0].end() > ends[0].start():
        line = text[: (begins or ends)[0].start()].count(b"\n") + 1
        raise Conflict(
            f"{path}, line {line}: the block of kranzq has been changed, and where it ends cannot be told.",
            f"Take it out by hand: all from '# >>> kranzq hook {kind} >>>' to '# <<< kranzq hook {kind} <<<'.",
        )
    return Block(begins[0].start(), ends[0].end(), mark, text[begins[0].end() : ends[0].start()])


def put(text: bytes | None, kind: str, body: str, mark: Mark, path: str) -> bytes:
    """The script with the block in it, in the place of an older one; `text` None: there is no script yet."""
    if text is None:
        return FIRST_LINE + _render(kind, body, Mark(mark.version, (FILE, *mark.made), mark.wish))
    if (there := find(text, kind, path)) is not None:
        block = _render(kind, body, Mark(mark.version, there.mark.made, mark.wish))
        if not text[there.start : there.end].endswith(b"\n"):
            block = block[:-1]
        return text[: there.start] + block + text[there.end :]
    block = _render(kind, body, mark)
    first, newline, rest = text.partition(b"\n")
    return first + newline + block + rest if newline else first + b"\n" + block[:-1]


def take(text: bytes, kind: str, path: str) -> bytes | None:
    """The script without the block, as it was before; None when nothing is left of it but what was made for it."""
    there = find(text, kind, path)
    if there is None:
        return text
    before, after = text[: there.start], text[there.end :]
    if not text[there.start : there.end].endswith(b"\n"):
        before = before[:-1]  # the line before it ended without one
    rest = before + after
    return None if FILE in there.mark.made and rest == FIRST_LINE else rest


def _render(kind: str, body: str, mark: Mark) -> bytes:
    name = kind.encode()
    return (_BEGIN % name) + mark.render().encode() + b"\n" + body.encode() + (_END % name) + b"\n"
