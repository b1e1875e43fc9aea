"""The page of numbers is what the parts found, and says so where they found something bad."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.proof import page
from tests.proof.__main__ import PARTS

FOUND = {
    "part": "kill",
    "command": "scripts/lab kill --seed 1",
    "seconds": 125.2,
    "machine": {"commit": "abc1234", "machine": "2 cores", "python": "3.11.7"},
    "counts": {"points killed": 1234, "  of the keeper": 7},
    "faults": ["one | was lost"],
    "tables": {"by verb": [{"verb": "park", "points": 12, "ms": 1.25}], "empty": []},
}


def test_numbers_stand_between_their_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is around them stays; a part without a result is left out."""
    there = tmp_path / "proof.md"
    there.write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    (tmp_path / "kill.json").write_text(json.dumps(FOUND))
    monkeypatch.setattr(page, "PAGE", there)

    page.write(tmp_path, {"kill": "kill it", "storm": "storm it"})

    text = there.read_text()
    assert text.startswith(f"before\n{page.BEGIN}\n\n### `kill`: kill it\n")
    assert text.endswith(f"{page.END}\nafter\n")
    assert "took 2 min 5 s on 2 cores" in text
    assert "| points killed | 1,234 |" in text
    assert "| park | 12 | 1.25 |" in text
    assert "- **found:** one | was lost" in text
    assert "old" not in text
    assert "storm" not in text


def test_numbers_of_a_part_that_has_no_new_result_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result replaces what stands there of the same part and names, and only that; the parts keep their order."""
    there = tmp_path / "proof.md"
    there.write_text(f"{page.BEGIN}\n{page.END}\n")
    monkeypatch.setattr(page, "PAGE", there)
    parts = {"kill": "kill it", "storm": "storm it"}
    for number, (part, only) in enumerate([("storm", " --only files"), ("storm", " --only wind"), ("kill", "")]):
        for count in (1000 + number, 2000 + number):
            one = FOUND | {"part": part, "command": f"scripts/lab {part}{only} --seed {count}", "counts": {"n": count}}
            (tmp_path / f"{part}.json").write_text(json.dumps(one))
            page.write(tmp_path, parts)
        (tmp_path / f"{part}.json").unlink()

    text = there.read_text()
    assert [line for line in text.splitlines() if line.startswith("| n |")] == [
        "| n | 2,002 |",
        "| n | 2,000 |",
        "| n | 2,001 |",
    ]
    assert text.count("### `kill`: kill it\n\n") == text.count("### `storm`: storm it\n\n") / 2 == 1
    assert text.endswith(f" |\n\n{page.END}\n")


def test_a_page_without_marks_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Better no numbers than a lost page."""
    (tmp_path / "proof.md").write_text("text\n")
    monkeypatch.setattr(page, "PAGE", tmp_path / "proof.md")

    with pytest.raises(SystemExit, match="lost its marks"):
        page.write(tmp_path, PARTS)

    assert (tmp_path / "proof.md").read_text() == "text\n"
