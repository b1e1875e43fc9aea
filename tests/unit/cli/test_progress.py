"""A bar for long work: drawn when it lasts, harmless, and gone at the end."""

from __future__ import annotations

import io
import sys

import pytest

from kranzq import progress
from kranzq.cli.screen import progress as bars
from kranzq.cli.watched import long_work


class Tty(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


@pytest.fixture(autouse=True)
def lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else listens, and each piece of work has lasted."""
    monkeypatch.setattr(progress, "_listeners", [])
    monkeypatch.setattr(bars, "_AFTER_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")


def terminal(monkeypatch: pytest.MonkeyPatch) -> Tty:
    """Let complaints go to a terminal. In the test itself: before it pytest puts a stream of its own there."""
    stream = Tty()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_work_that_lasts_shows_a_bar_and_takes_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is about is cleaned; the cursor is back at the end, and nobody listens any more."""
    stderr = terminal(monkeypatch)
    with long_work():
        progress.advance("settling \x1b[2J [bold]claims", 3, 10)
        assert "settling \\x1b[2J [bold]claims" in stderr.getvalue()
        progress.advance("settling \x1b[2J [bold]claims", 10, 10)

    text = stderr.getvalue()
    assert "\x1b[2J" not in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    progress.advance("something else", 1, 2)
    assert stderr.getvalue() == text


def test_a_question_in_between_takes_the_bar_away_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next step draws it again."""
    stderr = terminal(monkeypatch)
    with long_work() as clear:
        progress.advance("settling claims", 3, 10)
        clear()
        text = stderr.getvalue()
        assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
        progress.advance("settling claims", 4, 10)
        assert stderr.getvalue() != text


def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flicker would tell nobody anything."""
    stderr = terminal(monkeypatch)
    monkeypatch.setattr(bars, "_AFTER_S", 3600.0)
    with long_work():
        progress.advance("settling claims", 3, 10)

    assert stderr.getvalue() == ""


def test_where_nobody_looks_nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe gets no bar."""
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with long_work():
        assert progress._listeners == []
