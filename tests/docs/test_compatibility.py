"""What the page about compatibility claims of presence is shown by tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WEAKNESSES = {f"W{number}" for number in range(1, 9)}


def cells() -> list[list[str]]:
    """The rows of the section about presence, cell by cell, without the heads of its tables."""
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    section = re.split(r"^## ", page.split("## Presence", 1)[1], flags=re.MULTILINE)[0]
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if row[-1] != "shown by" and not set("".join(row)) <= set("- ")]


def test_every_weakness_has_its_row() -> None:
    """W1 to W8, each once: gone and shown by a test, or staying with a reason."""
    rows = {row[0]: row for row in cells() if len(row) == 4}

    assert set(rows) == WEAKNESSES
    assert all("gone" in row[2] or "stays" in row[2] for row in rows.values())


def test_each_row_names_tests_by_their_words() -> None:
    """What stands behind a file's name stands in it; a row without a test says that nothing is there."""
    for row in cells():
        if row[-2].startswith("not there"):
            continue
        for part in row[-1].split(";"):
            place, _, words = part.strip().partition(": ")
            name = "testing/presence.py" if place == "suite" else place.strip("`")
            (path,) = [found for top in ("tests", "kranzq") for found in (ROOT / top).glob(f"**/{name}")]
            told = path.read_text().lower().replace("_", " ")

            assert words, row
            assert [word for word in words.lower().split(", ") if word not in told] == [], part
