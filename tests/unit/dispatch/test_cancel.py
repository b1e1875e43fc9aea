"""Cancelling on a real queue: each place of an entry, and claims whose holders live, are gone, or are strangers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.dispatch.cancel import Canceller, cancel
from kranzq.errors import Conflict, NoSuchMission
from kranzq.events import Cancelled, Event, subscribe
from kranzq.liveness import kranz_token, me, suffix_k4
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claimed
from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome, Park, Retire, Wait
from kranzq.model.process import ProcessIdentity
from kranzq.runs.folder import RunFolder
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.wiring import dispatchers

M1 = MissionId("m1")
NONCE = "ab" * 16


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Canceller]:
    """Who cancels in a checkout without git where m1 waits."""
    root = tmp_path / "r"
    root.mkdir()
    checkout = Checkout(str(root), has_git=False)
    with FileQueue.make(checkout) as queue:
        parts = lambda: dispatchers.parts_of_a_verb(checkout, {})  # noqa: E731
        queue.enqueue(Entry(M1, own=Own(id="0" * 32)), lambda _: None)
        yield Canceller(checkout, queue, "someone", parts)


def _queue(one: Canceller) -> FileQueue:
    assert isinstance(one.queue, FileQueue)
    return one.queue


def _claim(one: Canceller, pid: int) -> Claimed:
    candidate = next(_queue(one).in_order(), None)
    assert candidate is not None
    claimed = _queue(one).claim(candidate, pid, suffix_k4(kranz_token(pid) or "gone"))
    assert claimed is not None
    return claimed


def _run(one: Canceller, claimed: Claimed, keeper: ProcessIdentity, state: str = "running") -> RunFolder:
    folder = one.runs.new(M1)
    entry = EntryIdentity("0" * 32, claimed.entry_name, claimed.inode, None)
    record = RunRecord("mission", M1, folder.run, state, NONCE, entry, claimed.place.name, 0, keeper)
    if state == "ended":
        record = replace(record, outcome=Outcome.SUCCEEDED, fate=Retire())
    folder.write(record, sync=False)
    return folder


def _dead_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        return process.pid


def _gone(claimed: Claimed) -> ProcessIdentity:
    return replace(me(), pid=claimed.pid, start_ticks=1)


@pytest.mark.parametrize("fate", [None, Park("by hand"), Wait(2**42)])
def test_what_waits_is_removed(one: Canceller, fate: Park | Wait | None) -> None:
    """A mission that is queued, waits for its time or is parked is taken out, and nothing of it stays in the queue."""
    if fate is not None:
        with one.queue.change():
            one.queue.carry_out(_queue(one).places(M1)[0], fate)
    heard: list[Event] = []
    forget = subscribe(heard.append)
    answer = cancel(one, M1, "", wait=True)
    forget()

    assert (answer.result, answer.removed) == ("removed", True)
    assert _queue(one).places() == []
    assert [path for path in Path(one.checkout.queue).rglob("*.json") if not path.name.startswith(".")] == []
    assert heard == [Cancelled("m1", "removed")]


def test_an_unknown_mission_is_said_to_be_unknown(one: Canceller) -> None:
    """What this checkout has never seen cannot be cancelled, nor can a look-alike."""
    for name in ("m2", "M1"):
        with pytest.raises(NoSuchMission):
            cancel(one, MissionId(name), "", wait=False)
    assert len(_queue(one).places(M1)) == 1


def test_a_running_mission_gets_a_wish(one: Canceller) -> None:
    """Its keeper finds who wished it and why in the run folder; the claim is left alone."""
    with _run(one, _claim(one, os.getpid()), me()) as folder:
        answer = cancel(one, M1, "no more", wait=False)
        wish = json.loads(Path(folder.path, "cancel.json").read_bytes())

    assert (answer.result, answer.run) == ("wished", 1)
    assert (wish["who"], wish["why"]) == ("someone", "no more")
    assert len(_queue(one).claims()) == 1


def test_a_wish_survives_a_power_cut(one: Canceller, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the disk, before it is reported: the wish, the record that says whose it is, each folder above, the claim."""
    synced: list[str] = []
    real = os.fsync

    def sync(fd: int) -> None:
        real(fd)
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

    with _run(one, _claim(one, os.getpid()), me()), monkeypatch.context() as patch:
        patch.setattr(os, "fsync", sync)
        cancel(one, M1, "no more", wait=False)

    assert synced[0].startswith(".cancel.json.")
    assert synced[1:] == ["001", "run.json", "001", "dispatch", "m1", "missions", ".kranz", "queue"]


def test_a_second_entry_goes_with_the_running_one(one: Canceller) -> None:
    """The run that was queued behind a running one is removed, too."""
    with _run(one, _claim(one, os.getpid()), me()):
        _queue(one).enqueue(Entry(M1, own=Own(id="1" * 32, again=True)), lambda _: None)
        answer = cancel(one, M1, "", wait=False)

    assert (answer.result, answer.removed) == ("wished", True)
    assert [place.state.value for place in _queue(one).places(M1)] == ["claimed"]


def test_a_claim_without_a_record_is_not_ours_to_end(one: Canceller) -> None:
    """A living stranger's claim stays, and the answer says whose it is."""
    claimed = _claim(one, os.getpid())
    with pytest.raises(Conflict, match=f"process {os.getpid()}, of which kranzq has no record"):
        cancel(one, M1, "", wait=True)
    assert _queue(one).still_there(claimed)


def test_a_claim_of_a_dead_stranger_is_put_back_and_removed(one: Canceller) -> None:
    """What a killed program had claimed without a record is cancelled like any waiting entry."""
    _claim(one, _dead_pid())

    assert cancel(one, M1, "", wait=False).result == "removed"
    assert _queue(one).places() == []


def test_a_killed_keeper_needs_nobody_else(one: Canceller) -> None:
    """With neither keeper nor dispatcher alive the run is recorded as cancelled, and the claim goes."""
    claimed = _claim(one, _dead_pid())
    with _run(one, claimed, _gone(claimed)):
        answer = cancel(one, M1, "", wait=False)

    assert (answer.result, answer.run, answer.outcome) == ("cancelled", 1, Outcome.CANCELLED)
    assert _queue(one).places() == []


def test_an_end_that_came_first_is_kept(one: Canceller) -> None:
    """A mission that ended by itself while nobody watched keeps its outcome, and the answer says so."""
    claimed = _claim(one, _dead_pid())
    with _run(one, claimed, _gone(claimed)) as folder:
        ended = {"nonce": NONCE, "started": True, "exitCode": 3, "signal": None, "survivors": []}
        Path(folder.path, "exit.json").write_text(json.dumps(ended))
        answer = cancel(one, M1, "", wait=False)

    assert (answer.result, answer.outcome) == ("ended", Outcome.FAILED)
    assert not Path(folder.path, "cancel.json").exists()
    assert _queue(one).places() == []


def test_a_mission_that_has_ended_is_said_to_have(one: Canceller) -> None:
    """Nothing is there to cancel any more: that is no fault, and the last outcome is told."""
    claimed = _claim(one, _dead_pid())
    with _run(one, claimed, _gone(claimed), "ended"):
        cancel(one, M1, "", wait=False)
    answer = cancel(one, M1, "", wait=True)

    assert answer.to_json() == {"mission": "m1", "result": "ended", "removed": False, "run": 1, "outcome": "succeeded"}


def test_runs_are_found_below_the_checkout(one: Canceller) -> None:
    """The canceller looks for records where the dispatcher writes them."""
    assert isinstance(one.runs, Runs)
    assert one.runs.checkout == one.checkout
