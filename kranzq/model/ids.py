"""Mission ids: parsed once, safe in a file name, unable to imitate any other name in the queue."""

from __future__ import annotations

import re
from typing import Self

from kranzq.errors import BadMissionId

MAX_LENGTH = 128
_ALLOWED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_FORBIDDEN_ENDS = (".json", ".json.why", ".tmp", ".lock")


class MissionId(str):
    """A mission's name. Making one checks it, so a path is never built from an unchecked text.

    Raises BadMissionId. Rules: 1 to 128 of A-Z a-z 0-9 . _ -, the first one alphanumeric; no `..`, no `.claimed.`
    (in any case of the letters: a claim's name must not be imitated), no ending that the queue uses itself.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check `text` and return it as a mission id."""
        why = _why_not(text)
        if why is not None:
            raise BadMissionId(text, why)
        return super().__new__(cls, text)


def _why_not(text: str) -> str | None:
    lowered = text.lower()
    if not text:
        return "it is empty"
    if len(text) > MAX_LENGTH:
        return f"it is longer than {MAX_LENGTH} characters"
    if not _ALLOWED.fullmatch(text):
        return "it has a character that is not allowed, or begins with one of . _ -"
    if ".." in text:
        return "it contains '..'"
    if ".claimed." in f"{lowered}.":
        return "it contains '.claimed.' or ends in '.claimed', which marks a claim"
    for end in _FORBIDDEN_ENDS:
        if lowered.endswith(end):
            return f"it ends in {end!r}"
    return None
