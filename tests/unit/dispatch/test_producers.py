"""Producers' bindings on a real queue: what is over is told once, and orphans are told from what may still come."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.dispatch.producers import TTL_S, Producers, time_to_live
from kranzq.errors import NotFound
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.testing.clock import FakeClock
from tests.factories import enqueue, kranz_entry, make_queue

M1 = MissionId("m-1")


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[FileQueue]:
    """An open queue of its own."""
    with make_queue(tmp_path) as one:
        yield one


def producers(queue: FileQueue, tmp_path: Path, *, later: float = 0.0) -> Producers:
    """A look at the bindings, some time from now."""
    return Producers(Checkout(str(tmp_path), has_git=False), queue, TTL_S, FakeClock(time.time() + later))


def state(queue: FileQueue, tmp_path: Path, *, later: float = 0.0) -> str:
    """What is said of the one binding."""
    return producers(queue, tmp_path, later=later).one(M1).state


def test_a_binding_that_nothing_names_is_an_orphan_when_its_time_is_over(queue: FileQueue, tmp_path: Path) -> None:
    """Before that its producer may still be about to enqueue."""
    queue.bind(M1, "tracker", "7")

    assert state(queue, tmp_path, later=TTL_S - 10) == "bound"
    assert state(queue, tmp_path, later=TTL_S + 1) == "orphaned"
    old = producers(queue, tmp_path, later=TTL_S + 1)
    assert [one.source.mission for one in old.orphans()] == [M1]
    assert old.reclaim(M1)
    assert not old.reclaim(M1)
    assert old.one(M1).state == "cancelled"
    assert (tmp_path / ".kranz/missions/m-1/enqueue-source.cancelled.json").exists()


@pytest.mark.parametrize("place", ["queued", "claimed", "waiting", "parked", "inbox", "quarantined"])
def test_what_names_the_mission_keeps_its_binding_at_any_age(queue: FileQueue, tmp_path: Path, place: str) -> None:
    """Wherever the mission's file lies, nothing is reclaimed."""
    queue.bind(M1, "tracker", "7")
    folder = tmp_path / ".kranz/queue"
    if place == "inbox":
        (folder / "inbox/x").write_bytes(kranz_entry("m-1"))
    else:
        name = enqueue(queue, "m-1")
        where = {"claimed": f"{name}.claimed.77", "waiting": f"waiting/9{'0' * 12}.{name}", "queued": name}
        target = folder / where.get(place, f"{place.replace('quarantined', 'quarantine')}/{name}")
        target.parent.mkdir(exist_ok=True)
        (folder / name).rename(target)
    old = producers(queue, tmp_path, later=10**6)

    assert (old.one(M1).state, old.one(M1).where.value) == ("bound", place)
    assert not old.reclaim(M1)


@pytest.mark.parametrize("created", [None, "soon", -1, 10**12, True])
def test_a_time_that_means_nothing_is_left_alone(queue: FileQueue, tmp_path: Path, created: object) -> None:
    """A binding from the future, or without a number, is nobody's to reclaim."""
    queue.bind(M1, "tracker", "7")
    path = tmp_path / ".kranz/missions/m-1/enqueue-source.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"createdUnixSecs": created}))

    assert state(queue, tmp_path, later=10**6) == "bound"


@pytest.mark.parametrize(
    ("status", "expected"), [("approved", "orphaned"), ("running", "bound"), ("complete", "bound")]
)
def test_what_kranz_says_of_the_mission_counts(queue: FileQueue, tmp_path: Path, status: str, expected: str) -> None:
    """A mission that is more than approved was begun, whatever the queue knows."""
    queue.bind(M1, "tracker", "7")
    (tmp_path / ".kranz/missions/m-1/state.json").write_text(json.dumps({"mission": {"status": status}}))
    one = producers(queue, tmp_path, later=10**6).one(M1)

    assert (one.state, one.kranz, one.has_ended) == (expected, status, status == "complete")


def test_a_mission_without_a_binding_has_none(queue: FileQueue, tmp_path: Path) -> None:
    """It is not an answer that is empty, but a fault."""
    with pytest.raises(NotFound, match="no producer's binding"):
        producers(queue, tmp_path).one(M1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 120), ("5", 5), ("0", 0), ("-1", 120), ("nan", 120), ("soon", 120), ("+5", 120), ("1_0", 120), (" 5", 120)],
)
def test_the_time_to_live_is_a_number_of_seconds(text: str, seconds: float) -> None:
    """Anything else means the default."""
    assert time_to_live({"KRANZ_CLAIM_TTL": text}) == seconds
