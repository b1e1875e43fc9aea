"""Lines for a terminal out of texts with a meaning. Whatever is put in is cleaned first, and nothing in it is markup.

A colour always stands beside a word or a sign that says the same. With `NO_COLOR` there is no style at all.
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from kranzq.cli.say import clean
from kranzq.cli.tables import ellipsis_sign, wide

PERSON, RUNS, WAITS, QUIET, TITLE = "bold red", "green", "cyan", "dim", "bold"
"""What needs a person, what runs, what is next, what is beside the point, and a heading."""
NARROWEST = 20
_GAP = 2


class Size(NamedTuple):
    """The size of a screen in cells; without `lines` there is as much room below as it takes."""

    columns: int
    lines: int | None = None


def size_here() -> Size:
    """How wide the terminal is; what is printed once may be as long as it likes."""
    return Size(max(NARROWEST, shutil.get_terminal_size().columns))


def rendered(what: RenderableType, columns: int) -> list[str]:
    """The lines of something, none wider than this, with the colours that are wanted."""
    out = io.StringIO()
    colours = None if os.environ.get("NO_COLOR") else "auto"
    console = Console(
        file=out,
        width=max(NARROWEST, columns),
        force_terminal=True,
        color_system=colours,  # type: ignore[arg-type] # the literals of another library
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    if isinstance(what, Text):  # the console would make another text of it, which wraps
        console.print(what, no_wrap=what.no_wrap, overflow=what.overflow)
    else:
        console.print(what)
    sign = ellipsis_sign()  # the library has but one
    return [line.rstrip().replace("…", sign) for line in out.getvalue().split("\n")[:-1]]


def said(*parts: str | tuple[str, str]) -> Text:
    """One line of texts, each cleaned, some with a style."""
    pieces = ((clean(part), "") if isinstance(part, str) else (clean(part[0]), part[1]) for part in parts)
    return Text.assemble(*pieces, overflow="fold")


def cut(*parts: str | tuple[str, str]) -> Text:
    """As `said`, for a line that is cut rather than wrapped."""
    line = said(*parts)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def marked(sign: tuple[str, str], line: Text) -> Table:
    """A sign, and a text beside it that wraps beside it, too."""
    table = Table.grid()
    table.add_column(width=len(sign[0]), no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(said(sign), line)
    return table


def columned(
    rows: Sequence[Sequence[Text]], columns: int, *, folded: int, room: int, head: Sequence[str] = ()
) -> Table:
    """Rows in columns. Column `folded` (an id) wraps where it is wide, `room` takes what is left and is cut."""
    shown = [*([[said((word, QUIET)) for word in head]] if head else []), *rows]
    widths = [max(wide(cell.plain) for cell in column) for column in zip(*shown, strict=True)]
    others = sum(width for at, width in enumerate(widths) if at not in {folded, room}) + _GAP * (len(widths) - 1)
    left = columns - others
    widths[folded] = min(widths[folded], max(8, left // 2, left - widths[room]))
    widths[room] = max(1, min(widths[room], left - widths[folded]))
    table = Table.grid(padding=(0, _GAP, 0, 0))
    for at, width in enumerate(widths):
        is_cut = at == room
        table.add_column(width=width, no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
    for row in shown:
        table.add_row(*row)
    return table


def fitting(blocks: Iterable[Sequence[str]], room: int) -> tuple[list[str], int]:
    """The lines of as many whole blocks as fit into so many lines, and how many blocks were left out.

    Of the first one at least the beginning is shown.
    """
    lines: list[str] = []
    left = 0
    for block in blocks:
        if not lines:
            lines = list(block[: max(1, room)])
        elif left or len(lines) + len(block) > room:
            left += 1
        else:
            lines += block
    return lines, left
