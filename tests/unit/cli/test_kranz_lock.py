"""A lock of kranz's whose holder nobody can judge: which file, since when, until when, and what to type."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kranzq.busy import foreign
from kranzq.cli.main import run
from kranzq.model.checkout import EVENTS
from tests.factories import enqueue, make_queue


def _empty(path: Path) -> None:
    path.touch()


def _garbage(path: Path) -> None:
    path.write_text("garbage\n")


def _folder(path: Path) -> None:
    path.mkdir()


def _link(path: Path) -> None:
    path.symlink_to("/nowhere")


def _huge(path: Path) -> None:
    path.write_bytes(b"1" * 9000)


UNJUDGED = (_empty, _garbage, _folder, _link, _huge)


@pytest.fixture
def lock(checkout: Path) -> Path:
    """Where the lock lies, in a checkout in which m1 waits."""
    with make_queue(checkout) as queue:
        enqueue(queue, "m1")
    return checkout / ".kranz/queue" / foreign.LOCK


def local(seconds: float) -> str:
    """A time as people are shown it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


@pytest.mark.parametrize("make", UNJUDGED)
@pytest.mark.parametrize("verb", ["why", "status", "recover", "check"])
def test_the_file_is_named_with_its_hour_and_the_way_out(
    checkout: Path, lock: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None], verb: str
) -> None:
    """A person at night learns what holds everything up, until when, and what removes it."""
    make(lock)
    since = os.lstat(lock).st_ctime

    run(["-C", str(checkout), verb, *(["m1"] if verb == "why" else [])])
    said = capsys.readouterr().out

    assert f"({lock})" in said
    assert f"if it stays as it is, it is taken for gone at {local(since + 3600)}" in said
    assert verb == "check" or f"since {local(since)}" in said
    typed = next(line for line in said.splitlines() if "no kranz works here may remove it" in line).partition("once: ")[
        2
    ]
    assert os.path.lexists(lock)
    subprocess.run(shlex.split(typed), check=True)
    assert not os.path.lexists(lock)


@pytest.mark.parametrize("verb", ["why", "status", "recover"])
def test_after_the_hour_it_is_nothing(
    checkout: Path, lock: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """What the next turn would take for gone holds nobody up, and nobody says so."""
    lock.touch()
    past = os.lstat(lock).st_ctime + 3601
    monkeypatch.setattr("kranzq.busy.foreign.time.time", lambda: past)

    run(["-C", str(checkout), verb, *(["m1"] if verb == "why" else [])])

    assert "kranz's busy lock" not in capsys.readouterr().out


def test_the_lock_of_an_engine_is_told_alike(checkout: Path, lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An engine's lock that is empty makes busy for an hour as well."""
    engine = checkout / ".kranz/missions/m9"
    engine.mkdir(parents=True)
    (engine / EVENTS).touch()
    (engine / foreign.EVENTS_LOCK).touch()

    run(["-C", str(checkout), "why", "m1", "--json"])
    (busy,) = [one for one in json.loads(capsys.readouterr().out)["reasons"] if one["reason"] == "busy"]

    assert f"{engine / foreign.EVENTS_LOCK}" in busy["text"]
    assert busy["clear"].endswith(f"rm {engine / foreign.EVENTS_LOCK}")


def test_a_lock_that_names_the_very_mission_holds_it_up_all_the_same(
    checkout: Path, lock: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An entry that waits is not run by the kranz that says it runs that mission."""
    lock.touch()
    (lock.parent / foreign.MISSION).write_text("m1")

    run(["-C", str(checkout), "why", "m1"])

    assert str(lock) in capsys.readouterr().out
