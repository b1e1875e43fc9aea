"""Values as every reader of JSON takes them: plain texts, in which half characters of file names are made visible."""

from __future__ import annotations

from collections.abc import Mapping


def plain(value: object) -> object:
    """The same value with plain texts only. A name of a file that is no UTF-8 shows its odd bytes as escapes."""
    if isinstance(value, str):
        return str(value) if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {plain(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value
