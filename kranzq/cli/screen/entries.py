"""The screen of `kranzq list`: what needs a person first, then what runs, then what waits, each in its order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kranzq.cli.screen.drawing import PERSON, QUIET, RUNS, Size, columned, cut, marked, rendered, said
from kranzq.cli.showing import remark
from kranzq.model.state import State

if TYPE_CHECKING:
    from rich.text import Text

    from kranzq.dispatch.listed import Listed, Listing

_HEAD = ("", "MISSION", "PRIO", "SEQ", "STATE", "WHY")
_FOLDED, _ROOM = 1, 5
_SIGNS = {State.PARKED: (" !", PERSON), State.CLAIMED: (" >", RUNS)}
_FIRST = (State.PARKED, State.CLAIMED)
_LEAST_ROWS = 3


def listing_lines(found: Listing, size: Size, *, parked: bool) -> list[str]:
    """The screen; `parked`: only those were asked for."""
    lines: list[str] = []
    for what, files in (("is no entry", found.bad), ("is quarantined", found.quarantined)):
        for name, why in files:
            lines += rendered(marked((" ! ", PERSON), said(f"{name} {what}: {why}")), size.columns)
    entries = sorted(found.entries, key=lambda one: _FIRST.index(one.state) if one.state in _FIRST else len(_FIRST))
    if not entries and not lines:
        return rendered(said("Nothing is parked." if parked else "Nothing waits."), size.columns)
    advice = list(_advice(found, size, parked=parked))
    if size.lines is not None:
        most = max(_LEAST_ROWS, size.lines - len(lines) - len(advice) - 1)
        left, entries = max(0, len(entries) - most), entries[:most]
        if left:
            more = f"   and {left + 1} more; see all with: kranzq list"
            entries, advice = entries[:-1], [*rendered(cut((more, QUIET)), size.columns), *advice]
    table = columned([_row(one) for one in entries], size.columns, folded=_FOLDED, room=_ROOM, head=_HEAD)
    return [*lines, *(rendered(table, size.columns) if entries else []), *advice]


def _row(one: Listed) -> tuple[Text, ...]:
    sign, style = _SIGNS.get(one.state, (" -", ""))
    seq = "-" if one.seq is None else str(one.seq)
    return (
        said((sign, style)),
        said((one.mission, style)),
        said(str(one.priority)),
        said(seq),
        said((one.state.value, style)),
        cut(remark(one)),
    )


def _advice(found: Listing, size: Size, *, parked: bool) -> Iterator[str]:
    """What to type, each once."""
    texts = dict.fromkeys(one.advice for one in found.entries if one.advice and one.state is not State.PARKED)
    if parked and found.entries:
        texts["When one may run again: kranzq unpark MISSION"] = None
    for text in texts:
        yield from rendered(marked(("   ", QUIET), said((text, QUIET))), size.columns)
