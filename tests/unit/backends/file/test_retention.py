"""Promises about the quarantine and what writers leave: bounded by age and count, and entries never go."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backends.file.folders import Folders
from kranzq.backends.file.retention import prune_quarantine, sweep_leavings
from kranzq.model.checkout import Checkout


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[Folders]:
    """An open queue with all its folders."""
    with Folders.make(Checkout(str(tmp_path), has_git=False)) as one:
        for which in ("waiting", "parked", "quarantine", "inbox"):
            one.made(which)
        yield one


def set_aside(folders: Folders, *names: str) -> Path:
    """Files in the quarantine, oldest first, each with its reason."""
    place = Path(folders.checkout.queue) / "quarantine"
    for name in names:
        (place / f"{name}.why.json").write_text("{}")
        (place / name).write_text(name)
        tick = (place / name).stat().st_ctime
        while (place / name).stat().st_ctime == tick:  # the next one is newer on every clock
            os.chmod(place / name, 0o600)
    return place


def test_more_than_the_count_goes_oldest_first_with_the_reasons(folders: Folders) -> None:
    """The newest stay, each with its reason beside it."""
    place = set_aside(folders, "b", "c", "a")
    (place / "folder").mkdir()
    (place / "folder/deep").mkdir()

    assert prune_quarantine(folders, 2, 1e6) == 2
    assert sorted(os.listdir(place)) == ["a", "a.why.json", "folder"]


def test_what_was_set_aside_too_long_ago_goes(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time in the quarantine counts, not the age of the file's content."""
    place = set_aside(folders, "a")
    os.utime(place / "a", (1, 1))
    early = prune_quarantine(folders, 10, 3600)
    later = time.time() + 4000
    monkeypatch.setattr(time, "time", lambda: later)

    assert early == 0
    assert prune_quarantine(folders, 10, 3600) == 1
    assert os.listdir(place) == []


def test_a_young_reason_alone_is_somebodys_work(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is written before the file comes; only one that stayed alone for an hour goes."""
    place = set_aside(folders, "a")
    (place / "a").unlink()
    prune_quarantine(folders, 10, 1e6)
    young = os.listdir(place)
    later = time.time() + 4000
    monkeypatch.setattr(time, "time", lambda: later)
    prune_quarantine(folders, 10, 1e6)

    assert young == ["a.why.json"]
    assert os.listdir(place) == []


def test_leavings_go_from_every_folder_and_entries_from_none(folders: Folders) -> None:
    """A killed writer's file is removed wherever it lies; nothing else is touched."""
    queue = Path(folders.checkout.queue)
    places = [queue.parent, queue, *(queue / name for name in ("waiting", "parked", "quarantine", "inbox"))]
    for place in places:
        (place / ".x.json.7.1.tmp").touch()
        (place / ".x.json.8.1.tmp").touch()
        (place / "002-00000000000000000001-m-1.json").touch()

    assert sweep_leavings(folders, lambda pid, _: pid == 7) == len(places)
    assert all((place / ".x.json.8.1.tmp").exists() for place in places)
    assert all((place / "002-00000000000000000001-m-1.json").exists() for place in places)


def test_a_queue_without_its_folders_has_nothing_to_prune(tmp_path: Path) -> None:
    """Nothing is made by looking."""
    with Folders.make(Checkout(str(tmp_path), has_git=False)) as folders:
        assert prune_quarantine(folders, 1, 1) == 0
        assert sweep_leavings(folders, lambda *_: True) == 0
    assert not (tmp_path / ".kranz/queue/quarantine").exists()
