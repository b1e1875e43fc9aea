"""The page `docs/reference/states.md` as a table that files are compared with: patterns, moves, and what a kill leaves.

Page and test cannot drift apart: nothing here knows a name of its own, only how the page writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "states.md"
_ID = r"(?P<mission>[A-Za-z0-9](?:(?!\.json)[A-Za-z0-9._-]){0,127})"
_ENTRY = rf"(?P<priority>[0-9]+)-(?P<number>[0-9]+)-{_ID}\.json"
_HOLES = {
    "PPP-NNNNNNNNNNNNNNNNNNNN-": "(?P<priority>[0-9]+)-(?P<number>[0-9]+)-",
    "<mission>": _ID,
    "<entry>": _ENTRY,
    "<due in ms>": "(?P<due>[0-9]+)",
    "<number>": "(?P<number>[0-9]+)",
    "<pid>": "(?P<pid>[0-9]+)",
    "<16 hex>": "[0-9a-f]{16}",
    "<hex>": "[0-9a-f]+",
    "<name>": "(?P<name>[^/]+)",
    "<folder>": "(?:waiting|parked|quarantine|inbox)",
}


@dataclass(frozen=True)
class Row:
    """A pattern of the page: the state it stands for, or "" for what is no entry; `passing`: never there at rest."""

    state: str
    shown: str
    pattern: re.Pattern[str]
    passing: bool = False


@cache
def rows() -> tuple[Row, ...]:
    """All patterns, those that say most first: a lock is no stranger's file, and a reason no entry."""
    found = [*_of_states(), *_of_others()]
    return tuple(sorted(found, key=lambda row: ("<name>" in row.shown, -len(row.shown))))


@cache
def moves() -> dict[str, frozenset[str]]:
    """From each state, where one move may lead."""
    return {_words(cells[0])[0]: frozenset(_words(cells[2])) for cells in _cells(4) if _words(cells[0])}


@cache
def reachable(state: str) -> frozenset[str]:
    """Where any number of moves may lead, the state itself among them."""
    found, ways = {state}, [state]
    while ways:
        new = moves()[ways.pop()] - found
        found |= new
        ways += new
    return frozenset(found)


def row_of(path: str) -> tuple[Row, re.Match[str]] | None:
    """The first row that explains a path below `queue/`."""
    for row in rows():
        if (match := row.pattern.fullmatch(path)) is not None:
            return row, match
    return None


def _of_states() -> Iterator[Row]:
    for cells in _cells(4):
        for shown in _words(cells[1]):
            if names := _words(cells[0]):
                yield Row(names[0], shown, _pattern(shown), passing=shown.startswith("."))


def _of_others() -> Iterator[Row]:
    for cells in _cells(3, after="## What else lies in the queue"):
        for shown in _words(cells[0]):
            yield Row("", shown, _pattern(shown), passing=cells[1].startswith("while "))


def _pattern(shown: str) -> re.Pattern[str]:
    text, at = "", 0
    holes = re.compile("|".join(map(re.escape, sorted(_HOLES, key=len, reverse=True))))
    for hole in holes.finditer(shown):
        text += re.escape(shown[at : hole.start()]) + _HOLES[hole[0]]
        at = hole.end()
    return re.compile(text + re.escape(shown[at:]), re.ASCII | re.DOTALL)


def _cells(width: int, *, after: str = "# ") -> Iterator[list[str]]:
    """The rows of the first table behind a heading, cell by cell, without its head."""
    begun = seen = False
    for line in PAGE.read_text().splitlines():
        begun = begun or line.startswith(after)
        if not begun or not line.startswith("|"):
            if seen:
                return
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        assert len(cells) == width, line
        if seen and not set(line) <= set("|- "):
            yield cells
        seen = True


def _words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)
