"""The open queue: pausing, looking without touching, and quarantining only what is still bad."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from kranzq.backends.file import entries
from kranzq.backends.file.backend import FileQueue
from kranzq.errors import StoreUnavailable
from kranzq.model.ids import MissionId
from tests.factories import enqueue, kranz_entry, kranz_name, make_queue, names


def test_a_paused_queue_says_why(queue: FileQueue, folder: Path) -> None:
    """The reason is kept over processes; resuming twice is harmless, and an unreadable pause is a pause."""
    assert queue.paused() is None
    queue.pause("the disk is changed")
    assert queue.paused() == "the disk is changed"
    assert queue.resume()
    assert not queue.resume()

    (folder / ".paused").touch()
    assert queue.paused() == "no reason was given"
    (folder / ".paused").unlink()
    (folder / ".paused").mkdir()
    assert ".paused" in (queue.paused() or "")


def test_a_pause_that_ended_does_not_come_back(queue: FileQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is gone for good, also over a power cut, before that is reported; a failing disk is told as such."""
    queue.pause("the disk is changed")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    assert queue.resume()
    assert synced == [queue.folders.queue]

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    queue.pause("again")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreUnavailable):
        queue.resume()


def test_looking_moves_nothing(queue: FileQueue, folder: Path) -> None:
    """Places, reading and the list of bad files leave every name where it is."""
    enqueue(queue, "m-1")
    (folder / "x.json").write_bytes(b"[]")
    (folder / kranz_name("m-2", 0)).write_bytes(b"[]")
    before = sorted(os.listdir(folder))
    with FileQueue.open(queue.folders.checkout) as looking:
        assert len(looking.places()) == 2
        assert {bad.name for bad in looking.bad()} == {"x.json", kranz_name("m-2", 0)}
        assert looking.quarantined() == []

    assert sorted(os.listdir(folder)) == before


def test_a_file_that_was_mended_meanwhile_is_not_quarantined(queue: FileQueue, folder: Path) -> None:
    """Between the look and the lock somebody may have written the file anew: it is looked at again."""
    name = kranz_name("m-1")
    (folder / name).write_bytes(kranz_entry("m-1"))
    queue._set_aside(entries.Bad(name, "it was bad a moment ago"))

    assert names(folder.parents[1]) == [name]


def test_the_front_can_be_asked_for_certain_missions(queue: FileQueue, folder: Path) -> None:
    """Who wants one mission reads no other: a bad file of another one stays for whoever wants all."""
    enqueue(queue, "m-1")
    enqueue(queue, "m-2")
    (folder / kranz_name("m-0", 0)).write_bytes(b"[]")
    found = queue.front(missions={MissionId("m-2")})

    assert found is not None
    assert found.entry.mission == "m-2"
    assert (folder / kranz_name("m-0", 0)).exists()


def test_two_open_queues_see_the_same(queue: FileQueue, tmp_path: Path) -> None:
    """What one made the other one sees, in order."""
    with make_queue(tmp_path) as other:
        enqueue(queue, "m-2", 5)
        enqueue(other, "m-1", 1)

        assert [str(place.mission) for place in queue.places()] == ["m-1", "m-2"]
        assert [place.name for place in other.places()] == [place.name for place in queue.places()]
