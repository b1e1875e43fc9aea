"""Which names in the inbox ask to be admitted. Pure, and the same for whoever admits and whoever only looks.

A program drops a file by renaming it into place; whatever it needs on the way there has a name that is ignored: hidden
files, `*.tmp` and its like, and what editors leave beside a file.
"""

from __future__ import annotations

_ON_THE_WAY = (".tmp", ".temp", ".part", ".partial", ".new", ".swp", ".swx", ".bak", ".orig", "~", "#")
_PROBE = "4913"
"""With this name an editor tries whether it may write in a directory."""


def asks_admission(name: str) -> bool:
    """Whether a name in the inbox is meant: not hidden, not in the making, no editor's copy."""
    lowered = name.lower()
    return not (lowered.startswith((".", "#")) or lowered.endswith(_ON_THE_WAY) or lowered == _PROBE)
