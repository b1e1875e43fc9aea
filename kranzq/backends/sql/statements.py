"""Named statements of a dialect, from its `.sql` files. Both dialects have the same names; a test compares them.

A statement is one command, or several with `;` at their lines' ends: those after the first run once for each row of
the first, with that row's columns as further parameters. Parameters are written `:name`; `:wall` is the wall clock.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Literal

Dialect = Literal["sqlite", "postgres"]
_HERE = os.path.dirname(os.path.abspath(__file__))
_NAME = re.compile(r"^-- name: ([a-z_]+)$", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]+)")


@functools.cache
def statements(dialect: Dialect) -> Mapping[str, tuple[str, ...]]:
    """Every statement of a dialect by name."""
    found: dict[str, tuple[str, ...]] = {}
    for _, text in _files("statements", dialect):
        _, *parts = _NAME.split(text)
        for name, body in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"two {dialect} statements are named {name}")
            found[name] = commands(body, dialect)
    return found


def migrations(dialect: Dialect) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """Every step of the schema in order: its number, its name and its commands."""
    steps = []
    for name, text in _files("migrations", dialect):
        number, _, rest = name.removesuffix(".sql").partition("_")
        steps.append((int(number), rest, commands(text, dialect)))
    return tuple(steps)


def commands(text: str, dialect: Dialect) -> tuple[str, ...]:
    """The single commands of a text, in the parameter style of the dialect's driver."""
    pieces = (piece.strip() for piece in re.split(r";\s*$", _COMMENT.sub("", text), flags=re.MULTILINE))
    kept = tuple(piece for piece in pieces if piece)
    if dialect == "sqlite":
        return kept
    return tuple(_PARAMETER.sub(_placeholder, piece.replace("%", "%%")) for piece in kept)


def _placeholder(found: re.Match[str]) -> str:
    """PostgreSQL has one clock, its own."""
    return "kranzq_now()" if found[1] == "wall" else f"%({found[1]})s"


def _files(folder: str, dialect: Dialect) -> list[tuple[str, str]]:
    place = os.path.join(_HERE, folder, dialect)
    texts = []
    for name in sorted(name for name in os.listdir(place) if name.endswith(".sql")):
        with open(os.path.join(place, name), encoding="utf-8") as file:
            texts.append((name, file.read()))
    return texts
