"""The schema and its numbered steps. Each step is one transaction under a lock: killed anywhere, it is old or new.

A program may use a newer schema as long as that says so: a step that only adds leaves `compatible` where it was, so
programs of before go on working beside newer ones. What they would misunderstand they refuse, and do not touch.
"""

from __future__ import annotations

from kranzq.errors import SchemaTooNew
from kranzq.model.frozen import frozen

COMPATIBLE = {1: 1, 2: 1, 3: 1}
"""For each step the oldest program, by the last step that it knows, that may still use the schema after it."""


@frozen
class Schema:
    """What a database has: its last step and the oldest program that may use it; 0 and 0 for an empty one."""

    version: int
    compatible: int


def newest() -> int:
    """The last step that this program knows."""
    return max(COMPATIBLE)


def check(where: str, found: Schema) -> bool:
    """Whether steps are missing. Raises SchemaTooNew for a schema that this program would misunderstand."""
    if found.compatible > newest():
        raise SchemaTooNew(where, found.version, newest())
    return found.version < newest()
