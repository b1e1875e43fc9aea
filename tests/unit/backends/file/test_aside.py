"""Entries that do not run now: each in a directory of its own, with its reason, and back when it is due."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kranzq.backends.file import aside
from kranzq.backends.file.backend import FileQueue
from kranzq.model.claim import Place
from kranzq.model.outcome import Park, Wait
from kranzq.model.state import State
from tests.factories import enqueue, kranz_entry, kranz_name, names, remove


def place_of(queue: FileQueue, state: State = State.QUEUED) -> Place:
    """The first place in a state."""
    return next(place for place in queue.places() if place.state is state)


def wait(queue: FileQueue, seconds: float) -> None:
    """Let the first entry wait so long."""
    with queue.change():
        queue.carry_out(place_of(queue), Wait(int((time.time() + seconds) * 1000)))


def test_b44_an_entry_that_is_not_due_holds_up_nobody(queue: FileQueue) -> None:
    """A waiting entry of the highest priority is not looked at until it is due; what is ready runs."""
    enqueue(queue, "m-later", 0)
    wait(queue, 3600)
    enqueue(queue, "m-now", 5)
    queue.admit_due()
    found = queue.front()

    assert found is not None
    assert found.entry.mission == "m-now"
    due = queue.next_due()
    assert due is not None
    assert 3500 < due - time.time() < 3700


def test_what_is_due_has_its_place_again(queue: FileQueue, folder: Path) -> None:
    """One rename brings a due entry back under its name; one that waits after a mission stays."""
    name = enqueue(queue, "m-1", 0)
    wait(queue, -1)
    (folder / "waiting" / f"after.{kranz_name('m-2')}").write_bytes(kranz_entry("m-2"))
    queue.admit_due()

    assert names(folder.parents[1]) == [name, "waiting"]
    assert names(folder.parents[1], "waiting") == [f"after.{kranz_name('m-2')}"]
    assert queue.next_due() is None


def test_a_due_entry_whose_place_was_taken_is_parked(queue: FileQueue, folder: Path) -> None:
    """Neither of two files of one name is lost when the older one becomes due."""
    name = enqueue(queue, "m-1")
    wait(queue, -1)
    (folder / name).write_bytes(kranz_entry("m-1") + b"\n")
    queue.admit_due()

    assert (folder / name).read_bytes() == kranz_entry("m-1") + b"\n"
    assert "taken" in queue.why_parked(place_of(queue, State.PARKED))


def test_what_is_parked_has_its_reason(queue: FileQueue, folder: Path) -> None:
    """The reason lies beside the entry, is no entry itself, and goes with it."""
    name = enqueue(queue, "m-1")
    with queue.change():
        queue.carry_out(place_of(queue), Park("it needs a person"))
    place = place_of(queue, State.PARKED)

    assert (place.name, queue.why_parked(place)) == (name, "it needs a person")
    assert names(folder.parents[1], "parked") == [name, f"{name}.why.json"]
    assert remove(queue, place.mission) == 1
    assert names(folder.parents[1], "parked") == []


def test_why_an_entry_is_parked_survives_a_power_cut(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is on the disk, with its name, before the entry is moved: nothing else tells it."""
    name = enqueue(queue, "m-1")
    synced: dict[str, bool] = {}
    real = os.fsync

    def sync(fd: int) -> None:
        real(fd)
        synced[Path(os.readlink(f"/proc/self/fd/{fd}")).name.split(".json")[0]] = (folder / name).exists()

    monkeypatch.setattr(os, "fsync", sync)
    with queue.change():
        queue.carry_out(place_of(queue), Park("it needs a person"))

    assert synced == {"queue": True, f".{name.removesuffix('.json')}": True, "parked": True}


def test_two_parked_entries_of_one_name_are_both_kept(queue: FileQueue, folder: Path) -> None:
    """A second one of the same name gets another name that says the same, with its own reason."""
    for count in range(3):
        (folder / kranz_name("m-1")).write_bytes(kranz_entry("m-1"))
        with queue.change():
            queue.carry_out(place_of(queue), Park(f"reason {count}"))
    places = [place for place in queue.places() if place.state is State.PARKED]

    assert {(place.mission, place.priority, place.number) for place in places} == {("m-1", 2, 0)}
    assert {queue.why_parked(place) for place in places} == {"reason 0", "reason 1", "reason 2"}


def test_a_mission_called_like_a_reason_is_parked_like_any_other(queue: FileQueue) -> None:
    """An id that ends like the name of a reason is an id: its parked entry is seen."""
    enqueue(queue, "m-1.why")
    with queue.change():
        queue.carry_out(place_of(queue), Park("x"))

    assert place_of(queue, State.PARKED).mission == "m-1.why"


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"why": 7}', b"\0" * 10])
def test_b38_a_lost_reason_loses_nothing_else(queue: FileQueue, folder: Path, content: bytes | None) -> None:
    """A parked entry without a readable reason is parked all the same."""
    name = enqueue(queue, "m-1")
    with queue.change():
        queue.carry_out(place_of(queue), Park("x"))
    reason = folder / "parked" / f"{name}.why.json"
    if content is None:
        reason.unlink()
    else:
        reason.write_bytes(content)

    assert queue.why_parked(place_of(queue, State.PARKED)) == "no reason was kept"


def test_what_vanishes_while_it_is_set_aside_leaves_no_reason(queue: FileQueue, folder: Path) -> None:
    """A file that another moved meanwhile is not set aside, and no reason without a file remains."""
    with queue.change(), pytest.raises(FileNotFoundError):
        aside.quarantine(queue.folders, "gone.json", "it was bad")

    assert os.listdir(folder / "quarantine") == []


def test_names_of_strangers_in_the_waiting_room_are_ignored(queue: FileQueue, folder: Path) -> None:
    """What is no waiting name is neither admitted nor in the way."""
    (folder / "waiting").mkdir()
    for name in ("x.json", "1.x.json", ".1.002-0-m.json", "readme"):
        (folder / "waiting" / name).write_bytes(b"x")
    queue.admit_due()

    assert queue.next_due() is None
    assert len(os.listdir(folder / "waiting")) == 4
    assert list(queue.places()) == []
