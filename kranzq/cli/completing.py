"""Completion of mission ids: from names only. Nothing is read, made or recovered, and any fault is an empty answer.

Each press of the key starts the program anew, so this imports little and prints nothing of its own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def complete_mission(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The known missions that begin with what was typed."""
    from click.shell_completion import CompletionItem

    del param
    try:
        from kranzq.wiring import checkouts, queues

        # the group's own function is not called while completing, so its option is asked
        named = ctx.find_root().params.get("directory")
        if named is None and os.environ.get("KRANZQ_SERVER", "").strip():
            return []  # the names of a checkout here are none of the server's, and no key press waits for a network
        start = named or os.getcwd()
        known = queues.known_missions(checkouts.find_checkout(start, os.environ))
    except Exception:  # noqa: BLE001 - a key press must never print a fault
        return []
    return [CompletionItem(mission) for mission in sorted(known) if mission.startswith(incomplete)]
