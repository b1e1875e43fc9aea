"""Write the numbers of docs/explanation/proof.md from what the parts of the laboratory found last."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "proof.md"
BEGIN, END = "<!-- Numbers, written by scripts/lab page. -->", "<!-- End of the numbers. -->"


def write(out: Path, parts: Mapping[str, str]) -> None:
    """Put the numbers of all parts that have a result between the two marks; of the others those that stand there stay.

    A part that was run for some names only is one of its own.
    """
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    old, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE} has lost its marks: {BEGIN} … {END}")
    paths = [path for part in parts for path in sorted(out.glob(f"{part}*.json"))]
    found = [json.loads(path.read_text()) for path in paths]
    new = ["\n".join(_section(one, parts[one["part"]])).strip() for one in found]
    sections = {_whose(one): one for one in [*re.split(r"(?m)^(?=### `)", old), *new] if _whose(one)[0] in parts}
    order = list(parts)
    shown_ones = sorted(sections, key=lambda whose: (order.index(whose[0]), whose[1]))
    numbers = "".join(f"{sections[whose].strip()}\n\n" for whose in shown_ones)
    PAGE.write_text(f"{before}{BEGIN}\n\n{numbers}{END}{after}")


def _whose(section: str) -> tuple[str, str]:
    """The part that a section is of, and the names for which it was run."""
    part, _, rest = section.removeprefix("### `").partition("`")
    return part, " ".join(re.findall(r"--only (\S+)", rest.partition(" took ")[0]))


def _section(one: Mapping[str, Any], what: str) -> Iterator[str]:
    machine = one["machine"]
    yield f"### `{one['part']}`: {what}"
    yield ""
    took = f"`{one['command']}` took {_long(one['seconds'])}"
    yield f"{took} on {machine['machine']}, Python {machine['python']}, commit {machine['commit']}."
    yield ""
    yield from _table([{"counted": name, "": shown(count)} for name, count in one["counts"].items()])
    for fault in one["faults"]:
        yield f"- **found:** {fault}"
    for title, rows in one["tables"].items():
        if rows:
            yield f"{title[:1].upper()}{title[1:]}:"
            yield ""
            yield from _table(rows)


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    heads = list(rows[0]) if rows else []
    if heads:
        yield f"| {' | '.join(heads)} |"
        yield f"|{'---|' * len(heads)}"
        yield from (f"| {' | '.join(shown(row.get(head, '')) for head in heads)} |" for row in rows)
        yield ""


def shown(value: object) -> str:
    """A number as it is read, a text as a cell of a table."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:g}" if isinstance(value, float) else str(value).strip().replace("|", "\\|").replace("\n", " ")


def _long(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
