"""A JSON object out of a file that anybody may have written."""

from __future__ import annotations

import json


def json_object(data: bytes) -> dict[str, object] | None:
    """The object, or None when the bytes are none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
