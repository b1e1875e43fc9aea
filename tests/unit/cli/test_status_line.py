"""The line below a dispatcher's log: its words, when it is drawn, and when there is none."""

from __future__ import annotations

import io
import os
import signal

import pytest

from kranzq import events
from kranzq.cli.screen.status_line import Doing, StatusLine, elapsed, text_of
from kranzq.dispatch.parts import Empty, IsBusy, Paused
from tests.laboratory import wait_for


class Tty(io.StringIO):
    """A terminal that we are in the foreground of."""


@pytest.fixture(autouse=True)
def listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens but the test."""
    monkeypatch.setattr(events, "_listeners", [])


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> StatusLine:
    """One below a terminal of eighty columns."""
    monkeypatch.setattr(StatusLine, "_is_ours", lambda _: True)
    monkeypatch.setattr(StatusLine, "_columns", lambda _: 80)
    return StatusLine(Tty(), lambda: "m-2")


def text(line: StatusLine) -> str:
    """All that was written."""
    stream = line._stream
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def settled(line: StatusLine) -> None:
    """Wait until its thread has drawn what there was and waits for news."""
    wait_for(lambda: vars(line._changed)["_waiters"], "its thread waits for news")


def closed(line: StatusLine) -> None:
    """Close it when its thread waits: one that is about to draw would erase the line once more."""
    settled(line)
    line.close()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0:00"), (0, "0:00"), (59.9, "0:59"), (751, "12:31"), (3723, "1:02:03"), (1e6, "277:46:40")],
)
def test_a_length_is_shown_as_a_clock_does(seconds: float, shown: str) -> None:
    """Also one that a clock which was set back made negative."""
    assert elapsed(seconds) == shown


def test_what_runs_is_named_with_what_comes_next() -> None:
    """And it is said when nothing does."""
    assert text_of(Doing("running", "m-1", 100.0), "m-2", 851.0) == "running m-1 12:31, next m-2"
    assert text_of(Doing("running", "m-1"), None, 851.0) == "running m-1, nothing next"


def test_a_log_line_stands_above_the_line_and_the_line_is_drawn_anew(line: StatusLine) -> None:
    """In one write, so nothing can come in between."""
    line.begin()
    line.write("12:00:00 something\n")
    closed(line)

    assert text(line) == "idle\r\x1b[J12:00:00 something\nidle\r\x1b[J"


def test_each_state_has_its_words(line: StatusLine) -> None:
    """Idle, held up, paused, waiting: each is drawn once, however often a turn comes to the same."""
    line.begin()
    for result in (
        Empty({}),
        Empty({"m": "why"}),
        Paused("lunch"),
        IsBusy("kranz \x1b[2J 7"),
        IsBusy("kranz \x1b[2J 7"),
    ):
        line.turned(result)
    closed(line)

    shown = text(line).split("\r\x1b[J")
    assert shown[:3] == ["idle", "idle; 1 held up, see: kranzq list", "paused: lunch; go on with: kranzq resume"]
    assert shown[3].startswith("waiting for kranz \\x1b[2J 7 since ")
    assert len(shown) == 5


def test_nothing_wakes_an_idle_line(line: StatusLine) -> None:
    """Only what runs has a time that goes on."""
    assert line.pause_s() is None
    line.hear(events.Started("m-1", 1, 77))
    assert line.pause_s() == 1.0
    line.hear(events.Ended("m-1", 1, "succeeded", "retire", ""))
    assert line.pause_s() is None


def test_a_line_that_the_terminal_has_wrapped_is_erased_whole(
    line: StatusLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A narrower terminal shows a line of sixty columns in three."""
    line.begin()
    line.turned(Paused("x" * 24))
    settled(line)
    monkeypatch.setattr(StatusLine, "_columns", lambda _: 20)
    line.turned(Empty({}))
    closed(line)

    assert "\r\x1b[A\x1b[A\x1b[Jidle" in text(line)


@pytest.mark.parametrize(("columns", "up"), [(0, 0), (20, 2)])
def test_a_terminal_that_does_not_know_its_width_keeps_the_log_above(
    monkeypatch: pytest.MonkeyPatch, columns: int, up: int
) -> None:
    """One at a serial line says 0 columns: the line is taken for one of a usual terminal, and only it is erased."""
    monkeypatch.setattr(StatusLine, "_is_ours", lambda _: True)
    monkeypatch.setattr(Tty, "fileno", lambda _: 1)
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((80, 24)))
    line = StatusLine(Tty(), lambda: None)
    line.begin()
    line.turned(Paused("x" * 24))
    settled(line)
    monkeypatch.setattr("os.get_terminal_size", lambda _: os.terminal_size((columns, 0)))
    line.turned(Empty({}))
    closed(line)

    assert text(line).count("\x1b[A") == up


def test_what_was_stopped_and_goes_on_has_a_line_again(line: StatusLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shell lets what was stopped go on with a CONT."""
    before = signal.getsignal(signal.SIGCONT)
    monkeypatch.setattr(StatusLine, "_is_ours", lambda _: False)
    line.begin()
    settled(line)
    monkeypatch.setattr(StatusLine, "_is_ours", lambda _: True)
    assert text(line) == ""
    os.kill(os.getpid(), signal.SIGCONT)
    wait_for(lambda: text(line) == "idle", "it is drawn")
    os.kill(os.getpid(), signal.SIGCONT)
    wait_for(lambda: text(line) == "idleidle", "it is drawn anew, where a shell has left the cursor")
    closed(line)

    assert signal.getsignal(signal.SIGCONT) == before


def test_in_the_background_there_is_no_line() -> None:
    """The log goes on as it is."""
    line = StatusLine(io.StringIO(), lambda: None)
    line.begin()
    line.write("a line\n")
    closed(line)

    assert text(line) == "a line\n"


def test_what_cannot_be_asked_does_not_end_the_line(line: StatusLine) -> None:
    """The package may be replaced while a daemon runs: then the line tells less, and the thread lives."""

    def broken() -> str | None:
        raise ImportError("gone")

    line._upcoming = broken
    line.hear(events.Started("m-1", 1, 77))
    line._ask(line._doing)

    assert line._doing.mission == "m-1"
