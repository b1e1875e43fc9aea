"""What a mission is not given stands on the reference page, name by name."""

from __future__ import annotations

import re
from pathlib import Path

from kranzq.runs.command import MARKS, NOT_PASSED_ON

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/config.md"


def test_every_variable_that_is_left_out_or_given_is_named() -> None:
    """Nobody has to read the code to know what a mission sees."""
    text = PAGE.read_text()
    table = {name for line in text.splitlines() if line.startswith("|") for name in re.findall(r"`(\w+)`", line)}

    assert table >= NOT_PASSED_ON - MARKS
    assert all(f"`{name}`" in text for name in MARKS)
