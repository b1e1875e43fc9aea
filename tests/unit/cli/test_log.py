"""The running log of a dispatcher: what it cannot write stops nobody, and is no reason to be silent for ever."""

from __future__ import annotations

import errno
import io
import os

import pytest

from kranzq import events
from kranzq.cli import say
from kranzq.cli.log import log_to


class Disk(io.StringIO):
    """A stream that refuses what is written while it is told to."""

    refuses: int | None = None

    def write(self, text: str, /) -> int:
        """Take it, or not."""
        if self.refuses is not None:
            raise OSError(self.refuses, os.strerror(self.refuses))
        return super().write(text)


@pytest.fixture(autouse=True)
def listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens but the test."""
    monkeypatch.setattr(events, "_listeners", [])


def test_a_log_on_a_full_disk_goes_on_when_there_is_room_again() -> None:
    """The lines in between are lost, and nothing else."""
    disk = Disk()
    log_to(disk)
    disk.refuses = errno.ENOSPC
    events.emit(events.Warned("lost"))
    disk.refuses = None
    events.emit(events.Warned("kept"))

    assert disk.getvalue().endswith("warning: kept\n")
    assert "lost" not in disk.getvalue()


def test_a_reader_that_went_away_is_told_nothing_more() -> None:
    """A pipe without a reader has none later on."""
    disk = Disk()
    log_to(disk)
    disk.refuses = errno.EPIPE
    events.emit(events.Warned("lost"))
    disk.refuses = None
    events.emit(events.Warned("too late"))

    assert disk.getvalue() == ""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EPIPE])
def test_a_greeting_that_cannot_be_written_stops_nobody(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A daemon serves whether its first line was taken or not."""
    disk = Disk()
    disk.refuses = number
    monkeypatch.setattr("sys.stdout", disk)

    say.mention("kranzq serves")


@pytest.mark.parametrize("fault", [ValueError("closed"), UnicodeEncodeError("latin-1", "…", 0, 1, ""), RuntimeError()])
def test_nothing_that_a_stream_says_comes_out_of_an_event(fault: Exception) -> None:
    """An event is told between two steps of a settlement: the second one is done whatever became of the line."""

    class Stubborn(io.StringIO):
        def write(self, text: str, /) -> int:
            if "lost" in text:
                raise fault
            return super().write(text)

    stream = Stubborn()
    log_to(stream)
    events.emit(events.Warned("lost"))
    events.emit(events.Warned("kept"))

    assert stream.getvalue().endswith("warning: kept\n")
