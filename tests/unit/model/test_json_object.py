"""What anybody may have written is an object, or nothing."""

from __future__ import annotations

import pytest

from kranzq.model.json_object import json_object


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"a": 1, "b": [2]}', {"a": 1, "b": [2]}),
        (b"{}", {}),
        (b"[1]", None),
        (b'"text"', None),
        (b"", None),
        (b'{"a": 1', None),
        (b"\xff\xfe\x00", None),
        (b"[" * 100_000, None),
    ],
    ids=["object", "empty object", "list", "text", "nothing", "cut off", "no text", "deep"],
)
def test_only_an_object_is_one(data: bytes, found: dict[str, object] | None) -> None:
    """Everything else is nothing, and nobody's fault."""
    assert json_object(data) == found
