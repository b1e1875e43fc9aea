"""Promises about which runs are kept: enough to look back, everything that is in use, and no number twice."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome, Retire
from kranzq.model.process import ProcessIdentity
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.runs.retention import InQueue, Keep, prune_runs, sweep_missions
from tests.factories import gone_pid

MISSION = MissionId("m-1")
DAY = 86400.0
NOW = time.time()
UNUSED = InQueue(frozenset(), lambda _: frozenset())


class Shelf:
    """The runs of one mission."""

    def __init__(self, root: Path) -> None:
        (root / ".kranz").mkdir(parents=True)
        self.fd = os.open(root / ".kranz", os.O_RDONLY)
        self.runs = Runs(Checkout(str(root), has_git=False), self.fd)
        self.path = root / ".kranz/missions/m-1/dispatch"
        self.gone = replace(me(), pid=gone_pid(), start_ticks=1)

    def add(
        self,
        *,
        days: float = 0,
        state: str = "ended",
        keeper: ProcessIdentity | None = None,
        entry: str = "e",
        survivors: list[dict[str, object]] | None = None,
        outcome: Outcome = Outcome.FAILED,
    ) -> int:
        """A run so many days old; its number."""
        with self.runs.new(MISSION) as folder:
            record = RunRecord(
                kind="mission",
                mission=MISSION,
                run=folder.run,
                state=state,
                nonce="0" * 32,
                entry=EntryIdentity(entry, "002-00000000000000000001-m-1.json", 1, None),
                claim=f"claim-{folder.run}",
                number=1,
                keeper=keeper or self.gone,
            )
            if state == "ended":
                record = replace(record, outcome=outcome, fate=Retire())
            folder.write(record, sync=False)
            if survivors is not None:
                end = {"nonce": "0" * 32, "started": True, "exitCode": 0, "survivors": survivors}
                (self.path / f"{folder.run:03d}/exit.json").write_text(json.dumps(end))
            self.age(folder.run, days)
            return folder.run

    def age(self, run: int, days: float) -> None:
        """Let a run be so old."""
        os.utime(self.path / f"{run:03d}", (NOW - days * DAY, NOW - days * DAY))

    def prune(self, runs: int = 20, days: float = 90, queue: InQueue = UNUSED) -> list[int]:
        """Prune, and what is left."""
        self.removed = prune_runs(self.runs, Keep(runs, days * DAY), queue, NOW)
        return self.runs.numbers(MISSION)


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    """An empty one."""
    one = Shelf(tmp_path / "root")
    yield one
    os.close(one.fd)


def test_the_newest_runs_are_kept_by_count(shelf: Shelf) -> None:
    """Of thirty runs the newest twenty stay; their folders alone."""
    for _ in range(30):
        shelf.add()

    assert shelf.prune() == list(range(11, 31))
    assert shelf.removed == 10
    assert len(os.listdir(shelf.path)) == 20
    assert shelf.prune() == list(range(11, 31))
    assert shelf.removed == 0


def test_old_runs_go_but_never_the_last_end_nor_the_newest_number(shelf: Shelf) -> None:
    """A mission that ended a year ago still says how, and its next run gets a new number."""
    for _ in range(4):
        shelf.add(days=365)
    shelf.add(days=365, state="claiming")

    assert shelf.prune() == [4, 5]
    with shelf.runs.new(MISSION) as folder:
        assert folder.run == 6


def test_the_last_run_that_began_is_kept_behind_tries_that_did_not(shelf: Shelf) -> None:
    """How the mission really ended last is still told after any number of tries that could not be started."""
    shelf.add(days=365)
    ended = shelf.add(days=364, outcome=Outcome.SUCCEEDED)
    for _ in range(5):
        shelf.add(outcome=Outcome.NOT_STARTED)

    assert shelf.prune(runs=2) == [ended, 6, 7]


@pytest.mark.parametrize("reason", ["claim", "entry", "keeper lives", "keeper unknown", "survivor lives"])
def test_what_is_in_use_stays(shelf: Shelf, reason: str) -> None:
    """A claim, an entry, a keeper or a survivor that may still be there keeps the run, however old."""
    queue = UNUSED
    elsewhere = replace(me(), boot_id="other", machine_id="other")
    match reason:
        case "claim":
            run = shelf.add(days=999, state="running")
            queue = InQueue({f"claim-{run}"}, lambda _: frozenset())
        case "entry":
            run = shelf.add(days=999, entry="mine")
            queue = InQueue(frozenset(), lambda _: {"mine"})
        case "keeper lives":
            run = shelf.add(days=999, state="running", keeper=me())
        case "keeper unknown":
            run = shelf.add(days=999, state="running", keeper=elsewhere)
        case _:
            mine = me()
            run = shelf.add(days=999, survivors=[{"pid": mine.pid, "startTicks": mine.start_ticks}], keeper=mine)
    unused = shelf.add(days=999, survivors=[{"pid": gone_pid(), "startTicks": 1}])
    for _ in range(3):
        shelf.add(days=1)

    left = shelf.prune(runs=2, queue=queue)
    assert run in left
    assert unused not in left
    assert left[-2:] == [4, 5]


def test_a_run_that_cannot_be_read_goes_by_its_age_only(shelf: Shelf) -> None:
    """Nothing tells whose it is; after its time it goes like the others."""
    for days in (200, 10, 0, 0):
        run = shelf.add(days=days)
        (shelf.path / f"{run:03d}/run.json").write_bytes(b"\0" * 10)
        shelf.age(run, days)

    assert shelf.prune(runs=1) == [2, 3, 4]


def test_what_a_mission_left_in_its_run_folder_goes_with_it(shelf: Shelf) -> None:
    """Folders in it, and links, are no obstacle."""
    run = shelf.add()
    (shelf.path / f"{run:03d}/deep/er").mkdir(parents=True)
    (shelf.path / f"{run:03d}/link").symlink_to("/etc")
    (shelf.path / ".gone.0123").mkdir()
    shelf.add()

    assert shelf.prune(runs=1) == [2]
    assert os.listdir(shelf.path) == ["002"]


def test_without_surplus_no_record_is_read(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour's sweep over many missions costs a listing each."""
    shelf.add()
    shelf.add()
    monkeypatch.setattr(Runs, "records", None)
    monkeypatch.setattr(Runs, "open", None)

    assert shelf.prune() == [1, 2]


def test_what_killed_writers_left_in_the_folders_of_missions_goes(shelf: Shelf) -> None:
    """Temporary files go wherever one is written, and a run folder in which nothing was recorded; nothing else does."""
    run = shelf.add()
    empty, foreign = shelf.path / f"{run + 1:03d}", shelf.path / f"{run + 2:03d}"
    for folder in (empty, foreign, shelf.path.parent / "input"):
        folder.mkdir()
    (foreign / "exit.json").touch()
    (empty / "entry.json").touch()
    places = [shelf.path.parent, shelf.path.parent / "input", shelf.path, shelf.path / f"{run:03d}", empty, foreign]
    for place in places:
        (place / ".x.json.7.1.tmp").touch()
        (place / ".x.json.8.1.tmp").touch()

    assert sweep_missions(shelf.runs, lambda pid, _: pid == 7, lambda _: True, ()) == len(places)
    assert all(os.listdir(place).count(".x.json.8.1.tmp") == 1 for place in places)
    assert sweep_missions(shelf.runs, lambda *_: True, lambda _: True, ()) == len(places) + 1
    assert not empty.exists()
    assert os.listdir(foreign) == ["exit.json"]


@pytest.mark.parametrize("reason", ["young", "in use"])
def test_a_run_folder_that_may_be_in_use_stays(shelf: Shelf, reason: str) -> None:
    """A young one is somebody's who is about to record something; so may be one of a mission that is claimed."""
    run = shelf.add()
    empty = shelf.path / f"{run + 1:03d}"
    empty.mkdir()

    busy = {MISSION} if reason == "in use" else set[MissionId]()
    assert sweep_missions(shelf.runs, lambda *_: True, lambda _: reason != "young", busy) == 0
    assert empty.exists()


@pytest.mark.parametrize("namespace", ["this one", "another"])
@pytest.mark.parametrize("state", ["running", "ended"])
def test_room_for_an_end_stays_for_as_long_as_its_keeper_may_live(shelf: Shelf, state: str, namespace: str) -> None:
    """The pid in the name of a keeper of another namespace looks like one that is gone; a mission may take hours."""
    keeper = me() if namespace == "this one" else replace(shelf.gone, pid_ns="pid:[1]")
    run = shelf.add(state=state, keeper=keeper)
    room = shelf.path / f"{run:03d}" / f".exit.json.{keeper.pid}.1.tmp"
    room.touch()

    assert sweep_missions(shelf.runs, lambda *_: True, lambda _: True, ()) == (state == "ended")
    assert room.exists() == (state == "running")
