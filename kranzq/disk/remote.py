"""Where a repository was cloned from, read from its git configuration without running git.

Only the repository's own file is read: what git would include, and what the user's configuration would rewrite
(`insteadOf`), is not. A file that cannot be understood has no origin.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kranzq.disk.gitdir import GitFolder
from kranzq.disk.read import Unreadable, read_regular

_CONFIG_LIMIT = 1024 * 1024
_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


def origin(folder: GitFolder) -> str | None:
    """The URL of the remote `origin`, the first one if it has several; None where there is none."""
    try:
        found = read_regular(f"{folder.common}/config", limit=_CONFIG_LIMIT)
    except (Unreadable, OSError, ValueError):
        return None
    if found is None:
        return None
    return next(_urls(found.data.decode("utf-8", "surrogateescape")), None)


def _urls(text: str) -> Iterator[str]:
    inside = False
    for line in _lines(text):
        rest = line
        while head := _SECTION.match(rest):
            inside = _is_origin(head[1], head[2])
            rest = rest[head.end() :]
        key, given, value = rest.partition("=")
        if inside and given and key.strip().lower() == "url" and (url := _value(value)):
            yield url


def _lines(text: str) -> Iterator[str]:
    """Lines, those that end in a backslash joined with the next."""
    begun = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        if line.endswith("\\") and not line.lstrip().startswith(("#", ";")):
            begun += line[:-1]
            continue
        yield begun + line
        begun = ""
    yield begun


def _is_origin(section: str, name: str | None) -> bool:
    if name is None:  # the old form, without case
        return section.lower() == "remote.origin"
    return section.lower() == "remote" and re.sub(r"\\(.)", r"\1", name) == "origin"


def _value(text: str) -> str:
    """The value without its quotes, its escapes read, up to a comment."""
    shown, quoted, at = "", False, 0
    text = text.strip()
    while at < len(text):
        letter = text[at]
        if letter == "\\" and at + 1 < len(text):
            at += 1
            shown += _ESCAPES.get(text[at], text[at])
        elif letter == '"':
            quoted = not quoted
        elif letter in "#;" and not quoted:
            break
        else:
            shown += letter
        at += 1
    return shown.strip()
