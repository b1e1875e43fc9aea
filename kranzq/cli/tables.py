"""Tables that fit the terminal: what is too wide is cut in the columns that may be cut, and never an id.

Where nobody looks, in a pipe or a file, nothing is cut.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence

from kranzq.cli.say import charset, clean, say_styled

_LEAST = 8
_GAP = 2


def fitted(head: Sequence[str], rows: Sequence[Sequence[str]], *, cut: Sequence[int] = ()) -> None:
    """Show rows in columns; the columns in `cut` share what room is left, each at least eight wide."""
    shown = [[clean(cell) for cell in row] for row in (head, *rows)]
    widths = [max(wide(row[at]) for row in shown) for at in range(len(head))]
    if cut and sys.stdout.isatty():
        import shutil

        _shrink(widths, list(cut), shutil.get_terminal_size().columns - _GAP * (len(head) - 1))
    for row in shown:
        cells = [_padded(cell, width) for cell, width in zip(row, widths, strict=True)]
        say_styled((" " * _GAP).join(cells).rstrip())


def wide(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(_width(letter) for letter in text)


def cut_to(text: str, width: int) -> str:
    """The text, cut with an ellipsis where it is wider."""
    if wide(text) <= width:
        return text
    kept, left = "", width - 1
    for letter in text:
        left -= _width(letter)
        if left < 0:
            break
        kept += letter
    return kept + ellipsis_sign()


def ellipsis_sign() -> str:
    """What stands at the end of what was cut; as wide in a charset that has no ellipsis."""
    try:
        "…".encode(charset())
    except UnicodeEncodeError:
        return "~"
    return "…"


def _shrink(widths: list[int], cut: list[int], room: int) -> None:
    """Take from the widest of the columns that may be cut, until all fit or all are as narrow as they may get."""
    while sum(widths) > room:
        widest = max(cut, key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= _LEAST:
            return
        widths[widest] -= 1


def _padded(text: str, width: int) -> str:
    text = cut_to(text, width)
    return text + " " * (width - wide(text))


def _width(letter: str) -> int:
    if unicodedata.combining(letter) or unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in {"W", "F"} else 1
