"""The screen of `kranzq status --all`: one line a checkout, those that need a person first."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kranzq.cli.screen.drawing import PERSON, QUIET, RUNS, Size, columned, cut, rendered, said
from kranzq.cli.showing_repos import needs, what_runs, what_waits

if TYPE_CHECKING:
    from rich.text import Text

    from kranzq.wiring.repos import RepoSeen

_HEAD = ("", "CHECKOUT", "RUNS", "WAITS", "NEEDS YOU")


def repos_lines(found: Sequence[RepoSeen], size: Size, now: float) -> list[str]:
    """The screen; `now` is in wall seconds."""
    if not found:
        text = "No checkout is known yet. One becomes known by: kranzq init, kranzq daemon, kranzq repos add"
        return rendered(said(text), size.columns)
    most = len(found) if size.lines is None or len(found) < size.lines else max(1, size.lines - 2)
    rows = [_row(one, now) for one in found[:most]]
    lines = rendered(columned(rows, size.columns, folded=1, room=4, head=_HEAD), size.columns)
    left = len(found) - most
    more = (
        rendered(cut((f"   and {left} more; see all with: kranzq status --all", QUIET)), size.columns) if left else []
    )
    return [*(lines if size.lines is None else lines[: max(1, size.lines - len(more))]), *more]


def _row(one: RepoSeen, now: float) -> tuple[Text, ...]:
    runs, waits, needed = what_runs(one, now), what_waits(one), needs(one)
    if one.is_gone:
        sign, style = " x", QUIET
    elif needed:
        sign, style = " !", PERSON
    elif one.status is not None and one.status.busy is not None:
        sign, style = " >", RUNS
    else:
        sign, style = " -", ""
    return said((sign, style)), said((_short(one.root), style)), said(runs), said(waits), cut((needed, style))


def _short(root: str) -> str:
    """The path, from the home directory on where it lies below that."""
    home = os.environ.get("HOME", "").rstrip("/")
    return f"~{root.removeprefix(home)}" if home and root.startswith(f"{home}/") else root
