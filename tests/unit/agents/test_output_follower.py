"""Who shows a command's output: whole, and never anything else."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from kranzq.agents import output_follower
from kranzq.agents.output_follower import OutputFollower
from tests.laboratory import PATIENCE


class Reader:
    """Takes what it is given; after the first piece it stands still until it is let go."""

    def __init__(self, *, stands_still: bool = False) -> None:
        self.got = b""
        self.goes_on = threading.Event()
        if not stands_still:
            self.goes_on.set()

    def data(self, piece: bytes) -> None:
        """Take it."""
        self.got += piece
        self.goes_on.wait(PATIENCE)

    def gap(self, size: int) -> None:
        """Nothing was left out."""

    def pause(self) -> None:
        """Nothing to do."""


def test_all_of_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what was written after the last look."""
    monkeypatch.setattr(output_follower, "_STUCK_S", PATIENCE)
    (tmp_path / "output").write_bytes(b"one\ntwo\n")
    reader, fd = Reader(), os.open(tmp_path / "output", os.O_RDONLY)
    follower = OutputFollower(fd, reader)
    with (tmp_path / "output").open("ab") as output:
        output.write(b"three\n")

    assert follower.finish()
    assert reader.got == b"one\ntwo\nthree\n"
    os.close(fd)


def test_a_reader_that_stood_still_is_never_shown_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left alone, its item is closed, and the number of that descriptor goes to another file."""
    monkeypatch.setattr(output_follower, "_STUCK_S", 0.1)
    (tmp_path / "output").write_bytes(b"mine\n")
    (tmp_path / "secret").write_bytes(b"mine\nand what nobody may see\n")
    reader, fd = Reader(stands_still=True), os.open(tmp_path / "output", os.O_RDONLY)
    follower = OutputFollower(fd, reader)
    assert not follower.finish()
    another = os.open(tmp_path / "secret", os.O_RDONLY)
    os.dup2(another, fd)
    reader.goes_on.set()
    follower._thread.join(PATIENCE)

    assert reader.got == b"mine\n"
    os.close(another)
    os.close(fd)
