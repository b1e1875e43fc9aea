"""Does this process belong to a mission, or work on an item? As its environment tells; nothing is looked up.

A person's own commit asks this each time, so it must cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

OF_A_RUN = ("KRANZ_CLAIM", "KRANZ_RUN_DIR", "KRANZ_RUN_NUMBER")
"""What nobody sets but kranzq, for a mission: whoever has one of them belongs to one."""
OF_AN_ITEM = ("KRANZ_ITEM_ID", "KRANZ_ITEM_ATTEMPT")


def is_in_mission(environ: Mapping[str, str]) -> bool:
    """Whether this process belongs to a mission of a checkout."""
    return any(environ.get(name) for name in OF_A_RUN)


def is_for_item(environ: Mapping[str, str]) -> bool:
    """Whether this process works on an item of the work queue."""
    return any(environ.get(name) for name in OF_AN_ITEM)
