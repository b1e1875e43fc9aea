"""Promises about runs of items: each is a mission of its own, so old ones go whole."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.model.item_run import ItemOfRun
from kranzq.model.outcome import Outcome, Retire
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.runs.retention import InQueue, Keep, prune_runs
from tests.factories import gone_pid

DAY = 86400.0
NOW = time.time()
UNUSED = InQueue(frozenset(), lambda _: frozenset())


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    """The runs of a checkout without any."""
    (tmp_path / ".kranz").mkdir()
    fd = os.open(tmp_path / ".kranz", os.O_RDONLY)
    yield Runs(Checkout(str(tmp_path), has_git=False), fd)
    os.close(fd)


def add(runs: Runs, mission: str, days: float, *, item: bool = True) -> Path:
    """An ended run so many days old; the mission's folder."""
    name = MissionId(mission)
    claim = f".item.{mission.removeprefix('item-')}.1.0123456789abcdef"
    with runs.new(name) as folder:
        record = RunRecord(
            kind="mission",
            mission=name,
            run=folder.run,
            state="ended",
            nonce="0" * 32,
            entry=EntryIdentity("item:x", claim, 0, None),
            claim=claim,
            number=0,
            keeper=replace(me(), pid=gone_pid(), start_ticks=1),
            outcome=Outcome.SUCCEEDED,
            fate=Retire(),
            item=ItemOfRun("x", 1, "holder", "uid", "sqlite:///w") if item else None,
        )
        folder.write(record, sync=False)
        path = Path(folder.path)
    os.utime(path, (NOW - days * DAY, NOW - days * DAY))
    return path.parent.parent


def test_runs_of_items_go_whole_when_the_last_is_old(runs: Runs) -> None:
    """A year of items leaves no folder for each of them."""
    old = add(runs, "item-old", 99)
    young = add(runs, "item-young", 80)
    add(runs, "item-two", 99)
    two = add(runs, "item-two", 1)
    mission = add(runs, "item-mission", 99, item=False)
    removed = prune_runs(runs, Keep(), UNUSED, NOW)

    assert not old.exists()
    assert young.exists()
    assert two.exists()
    assert mission.exists()
    assert removed == 2


def test_a_run_whose_claim_is_there_stays(runs: Runs) -> None:
    """Its end was not handed in yet."""
    path = add(runs, "item-old", 99)
    claimed = InQueue(frozenset({".item.old.1.0123456789abcdef"}), lambda _: frozenset())
    prune_runs(runs, Keep(), claimed, NOW)

    assert path.exists()


def test_what_else_lies_in_its_folder_stays(runs: Runs) -> None:
    """Only what dispatchers made is theirs to remove."""
    path = add(runs, "item-old", 99)
    (path / "notes").write_text("mine")
    prune_runs(runs, Keep(), UNUSED, NOW)

    assert [one.name for one in path.iterdir()] == ["notes"]
