"""What becomes of a command line whose output nobody takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laboratory import REPO


def said(words: list[str], stdout: int) -> tuple[int, str]:
    """The exit code, and what was said of it."""
    done = subprocess.run(
        [sys.executable, "-m", "kranzq", *words],
        env=os.environ | {"PYTHONPATH": str(REPO)},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("verb", ["list", "status", "--help", "work --help"])
def test_a_reader_that_went_away_is_no_failure(verb: str, checkout: Path) -> None:
    """It has enough, as `head` has: 141, as of any program whose reader leaves, and no words."""
    (checkout / ".kranz" / "queue").mkdir(parents=True)
    read, write = os.pipe()
    os.close(read)
    try:
        assert said(["-C", str(checkout), *verb.split()], write) == (141, "")
    finally:
        os.close(write)


@pytest.mark.parametrize("verb", ["list", "status"])
def test_output_that_is_lost_is_told(verb: str, checkout: Path) -> None:
    """Of every verb in the same words: it is the output that found no room, not the queue."""
    (checkout / ".kranz" / "queue").mkdir(parents=True)
    with open("/dev/full", "wb") as full:
        code, words = said(["-C", str(checkout), verb], full.fileno())
    assert code == 1
    assert words.startswith("kranzq: The output could not be written: No space left on device.")
