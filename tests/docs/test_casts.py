"""The casts show what the program says today: each is told anew and compared, line by line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.casts.picture import draw, text_of
from tests.casts.stories import STORIES, Story
from tests.casts.telling import Shown
from tests.casts.terminal import Span, lines

ROOT = Path(__file__).resolve().parents[2]
CASTS = ROOT / "docs" / "casts"
each = pytest.mark.parametrize("story", [pytest.param(story, id=story.name) for story in STORIES])


@each
@pytest.mark.slow
@pytest.mark.crash
def test_a_cast_told_anew_is_the_same(story: Story) -> None:
    """Nothing in it is out of date, and nothing differs from time to time."""
    told = subprocess.run(
        [sys.executable, "-m", "tests.casts", story.name, "--print"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr

    there = text_of((CASTS / f"{story.name}.svg").read_text())
    assert text_of(told.stdout) == there, f"if that is meant: scripts/casts {story.name}"


@each
def test_a_cast_is_small_and_moves_without_scripts(story: Story) -> None:
    """A page stays light, and nothing in a picture is executed or looked up elsewhere."""
    picture = (CASTS / f"{story.name}.svg").read_text()

    assert len(picture) < 16 * 1024
    assert not re.search(r"<script|javascript:|href=|url\(|@import|<foreignObject", picture)


@each
def test_a_cast_stands_on_a_page(story: Story) -> None:
    """Each is shown somewhere, with words for those who do not see it."""
    shown = re.compile(rf"!\[[^\]]{{20,}}\]\((?:\.\./)*(?:docs/)?casts/{story.name}\.svg\)")

    assert any(shown.search(page.read_text()) for page in (ROOT / "docs").rglob("*.md"))


def test_no_cast_is_left_over() -> None:
    """Each file belongs to a story."""
    assert {path.name for path in CASTS.iterdir()} == {f"{story.name}.svg" for story in STORIES}


def test_a_picture_says_what_was_shown() -> None:
    """Signs, blanks and the fold at the edge of the terminal come through."""
    drawn = draw("<title>", [Shown((Span("a <b> & 'c'  d", "red"),), 0.1), Shown((Span("x" * 120),), 0.2)])

    assert text_of(drawn) == ["a <b> & 'c'  d", "x" * 112, "x" * 8]


def test_colours_are_read_and_other_signs_are_refused() -> None:
    """A picture shows the colours that the program prints; a sign that moves the cursor could not be drawn."""
    assert lines("\x1b[1mbold\x1b[0m plain\r\n\x1b[33m! \x1b[0m") == [
        (Span("bold", bold=True), Span(" plain")),
        (Span("! ", "yellow"),),
    ]
    with pytest.raises(ValueError, match="cannot be drawn"):
        lines("\x1b[2Kgone")
