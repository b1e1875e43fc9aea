"""A JSON object out of a file that anybody may have written, and one into a file that a person may read."""

from __future__ import annotations

import json
from collections.abc import Mapping

_ASCII, _TEXT = (json.JSONEncoder(ensure_ascii=ascii_only).encode for ascii_only in (True, False))


def json_object(data: bytes) -> dict[str, object] | None:
    """The object, or None when the bytes are none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def lined(value: Mapping[str, object], indent: str, *, outer: str = "", ascii_only: bool = True) -> str:
    """The JSON of an object, a line for each key; what is nested stands in its line. `outer` stands before its lines.

    `json.dumps` with an indent gives each nested value lines of its own, and is written in Python: it takes five times
    as long, for files that are written at each claim.
    """
    encode = _ASCII if ascii_only else _TEXT
    lines = [f"{outer}{indent}{encode(key)}: {_plain(one) or encode(one)}" for key, one in value.items()]
    return "{\n" + ",\n".join(lines) + f"\n{outer}}}"


def _plain(value: object) -> str:
    """The JSON of what is neither text nor nested; "" of all else. For these an encoder is made at each call."""
    if value is None:
        return "null"
    if type(value) is int:
        return str(value)
    if type(value) is bool:
        return "true" if value else "false"
    return ""
