"""Records below `.kranz` are believed only if they are ours: not what git tracks, a link, or another user's."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.busy import record as busy_record
from kranzq.busy.record import BusyRecord
from kranzq.daemon.request import request_stop
from kranzq.dispatch.daemon_seen import look_for_daemon
from kranzq.dispatch.planted import unbelieved
from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.model.entry import Entry, render
from kranzq.model.ids import MissionId
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord

OTHER = 64300
MISSION = MissionId("m")
CLAIM = f"002-{0:020d}-m.json.claimed.{os.getpid()}"


@pytest.fixture
def queue(checkout: Path) -> Iterator[FileQueue]:
    """An open queue in a repository, with one run of a mission and its claim."""
    one = Checkout(str(checkout), has_git=True)
    with FileQueue.make(one) as opened:
        with Runs(one, opened.kranz_fd).new(MISSION) as folder:
            entry = EntryIdentity(None, "x", 1, None)
            record = RunRecord("mission", MISSION, 1, "running", "a" * 32, entry, CLAIM, 0, me())
            folder.write(record, sync=False)
        (checkout / ".kranz/queue" / CLAIM).write_bytes(render(Entry(MISSION)))
        yield opened


def run_folder(checkout: Path) -> Path:
    """Where the run lies."""
    return checkout / ".kranz/missions/m/dispatch/001"


def found(queue: FileQueue) -> RunRecord | None:
    """The record that the claim belongs to."""
    return Runs(queue.folders.checkout, queue.kranz_fd).of_claim(MISSION, CLAIM)


def needs_root() -> None:
    """Only root can give files away."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


def test_our_own_record_is_believed(queue: FileQueue) -> None:
    """What this user wrote counts, and there is nothing to name."""
    assert found(queue) is not None
    assert unbelieved(queue.folders.checkout, queue.kranz_fd) == []


def test_what_git_tracks_is_no_run_and_no_claim(queue: FileQueue, checkout: Path) -> None:
    """A record or claim that a clone brings along belongs to nobody; the claim's name is shown as strange."""
    assert [one.place.name for one in queue.claims()] == [CLAIM]
    subprocess.run(["git", "add", "-f", ".kranz"], cwd=checkout, check=True)

    assert found(queue) is None
    assert queue.claims() == []
    assert queue.strange_claims() == [CLAIM]


@pytest.mark.parametrize("what", ["run.json", "001", "dispatch"])
def test_another_users_record_is_ignored_and_named(queue: FileQueue, checkout: Path, what: str) -> None:
    """A file or folder of another user tells nothing, whatever is in it."""
    needs_root()
    path = next(
        one for one in (run_folder(checkout) / "run.json", *(run_folder(checkout) / "x").parents) if one.name == what
    )
    os.chown(path, OTHER, OTHER)

    assert found(queue) is None
    assert [why for _, why in unbelieved(queue.folders.checkout, queue.kranz_fd)] == ["it belongs to user 64300"]


def test_a_link_is_ignored_and_named(queue: FileQueue, checkout: Path) -> None:
    """A record that is a link is not followed."""
    path = run_folder(checkout) / "run.json"
    path.rename(checkout / "real.json")
    path.symlink_to(checkout / "real.json")

    assert found(queue) is None
    assert unbelieved(queue.folders.checkout, queue.kranz_fd) == [(str(path), "it is a link")]


def test_the_holders_record_of_another_user_tells_nothing(queue: FileQueue, checkout: Path) -> None:
    """`.busy.json` counts only as ours, unless a group shares the queue."""
    needs_root()
    busy_record.write(queue.fd, BusyRecord("keeper", me(), "", "1", "m", 1))
    assert busy_record.read(queue.fd) is not None
    os.chown(checkout / ".kranz/queue/.busy.json", OTHER, OTHER)
    assert busy_record.read(queue.fd) is None
    (checkout / ".kranz/queue").chmod(0o2775)

    assert busy_record.read(queue.fd) is not None


def test_a_daemon_counts_only_while_its_lock_is_held(queue: FileQueue, checkout: Path) -> None:
    """A record that names a living process is no daemon: nobody waits for it, and nobody is asked to stop."""
    (checkout / ".kranz/queue/.daemon.json").write_text(json.dumps({"process": me().to_json(), "since": "x"}))
    (checkout / ".kranz/queue/.daemon.flock").touch()

    assert look_for_daemon(queue.fd) is None
    assert request_stop(queue.folders.checkout, now=True, wait=True) is None
    assert not (checkout / ".kranz/queue/.stop").exists()


def test_runs_that_may_not_be_looked_at_are_told_from_none(queue: FileQueue) -> None:
    """Recovery leaves a claim alone whose records lie there unreadable."""
    runs = Runs(queue.folders.checkout, queue.kranz_fd)

    assert not runs.are_hidden(MISSION)
    assert not runs.are_hidden(MissionId("other"))
