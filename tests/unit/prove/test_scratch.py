"""The scratch folder: one for each trial, gone afterwards, whoever else makes or removes one meanwhile."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kranzq.model.checkout import Checkout
from kranzq.model.trial import Verdict
from kranzq.prove import names
from kranzq.prove.program import program
from kranzq.prove.scratch import scratch
from tests.laboratory import PATIENCE, wait_for


def checkout(tmp_path: Path) -> Checkout:
    """A checkout without anything in it."""
    return Checkout(str(tmp_path), has_git=False)


def removed_at_once(folder: str) -> None:
    """As by another trial that saw it before it was locked, and is done."""
    os.rmdir(folder)


def being_removed(folder: str) -> None:
    """As by one that is at it."""
    fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)


@pytest.mark.parametrize("other", [removed_at_once, being_removed])
def test_a_folder_that_another_trial_took_for_left_is_not_used(
    other: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its trials would be told as broken promises."""
    made: list[str] = []
    real = tempfile.mkdtemp

    def mkdtemp(**how: Any) -> str:
        made.append(real(**how))
        if len(made) == 1:
            other(made[0])
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with scratch(checkout(tmp_path)) as place:
        assert place.folder == made[1]
        assert os.path.isdir(place.checkout.queue)
    shutil.rmtree(made[0], ignore_errors=True)


def test_where_there_are_no_locks_there_still_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial says that there are none."""

    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with scratch(checkout(tmp_path)) as place:
        assert os.path.isdir(place.folder)
    assert list(tmp_path.iterdir()) == []


def test_what_still_writes_when_it_is_removed_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a keeper whose trial was interrupted: until it has ended, the rest stays hidden from git."""
    monkeypatch.setattr("kranzq.prove.scratch._PATIENCE_S", PATIENCE)
    stop, seen_unhidden, made, listdir = threading.Event(), threading.Event(), [0], os.listdir

    def write(folder: str) -> None:
        while not stop.is_set():
            try:
                os.makedirs(f"{folder}/late/{made[0]}")
            except OSError:
                continue
            made[0] += 1
            if not os.path.exists(f"{folder}/.gitignore") and os.path.isdir(f"{folder}/late"):
                seen_unhidden.set()

    def look(path: Any) -> list[str]:
        """See what was made after the last removal: whoever rests for a while cannot be told from one who has ended."""
        first = made[0] + 1  # this one may have been removed just now
        if path == place.folder:
            wait_for(lambda: made[0] > first or not thread.is_alive(), "something is made, or nothing any more")
        return listdir(path)

    with scratch(checkout(tmp_path)) as place:
        thread = threading.Thread(target=write, args=(place.folder,))
        thread.start()
        monkeypatch.setattr(os, "listdir", look)
        timer = threading.Timer(0.2, stop.set)
        timer.start()
    thread.join()
    timer.join()

    assert list(tmp_path.iterdir()) == []
    assert not seen_unhidden.is_set()


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o077])
def test_what_a_group_shares_is_not_shared_with_a_trial(mask: int, tmp_path: Path) -> None:
    """In it lies a key; and what is made there must be made as in anybody's own checkout, whatever the umask is."""
    (tmp_path / ".kranz").mkdir()
    (tmp_path / ".kranz").chmod(0o2775)
    before = os.umask(mask)
    try:
        with scratch(checkout(tmp_path)) as place:
            assert names._modes(place).verdict is Verdict.HOLDS
            made = program(place, "one")
            made.run("enqueue", "m", "--", "true")
            assert made.ask("list")["entries"][0]["mission"] == "m"
    finally:
        os.umask(before)
