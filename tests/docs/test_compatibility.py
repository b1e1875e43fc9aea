"""What the page about compatibility claims of the work queue and of presence is shown by tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WEAKNESSES = {
    "HTTP": set(),
    "The work queue": {f"A{number}" for number in range(1, 22)},
    "Presence": {f"W{number}" for number in range(1, 9)},
}
SUITES = {"suite": "presence", "`work`": "work", "`leases`": "leases", "`ends`": "ends"}
"""How the page calls the modules of `kranzq/testing`."""


def cells(subject: str) -> list[list[str]]:
    """The rows of one section, cell by cell, without the heads of its tables."""
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    section = re.split(r"^## ", page.split(f"## {subject}", 1)[1], flags=re.MULTILINE)[0]
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return [row for row in rows if row[-1] != "shown by" and not set("".join(row)) <= set("- ")]


@pytest.mark.parametrize("subject", WEAKNESSES)
def test_every_weakness_has_its_row(subject: str) -> None:
    """Each once: gone and shown by a test, or staying with a reason."""
    rows = {row[0]: row for row in cells(subject) if len(row) == 4}

    assert set(rows) == WEAKNESSES[subject]
    assert all("gone" in row[2] or "stays" in row[2] for row in rows.values())


@pytest.mark.parametrize("subject", WEAKNESSES)
def test_each_row_names_tests_by_their_words(subject: str) -> None:
    """What stands behind a file's name stands in it; a row without a test says that nothing is there."""
    for row in cells(subject):
        if row[-2].startswith("not there"):
            continue
        for part in row[-1].split(";"):
            place, _, words = part.strip().partition(": ")
            name = f"testing/{SUITES[place]}.py" if place in SUITES else place.strip("`")
            (path,) = [found for top in ("tests", "kranzq") for found in (ROOT / top).glob(f"**/{name}")]
            told = path.read_text().lower().replace("_", " ")

            assert words, row
            assert [word for word in words.lower().split(", ") if word not in told] == [], part
