"""Promises of `status`: it names what a person should look at, and never takes a lock to find out who holds it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.dispatch.busy_seen import BusySeen
from kranzq.dispatch.lock_table import is_flocked
from kranzq.dispatch.status import Status, about_keeper, status
from kranzq.liveness import identity_of
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.runs.folder import OUTPUT
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.wiring import looking, queues
from tests.factories import enqueue, gone_pid, make_queue

MISSION = MissionId("m-1")
KEEPS = """
import fcntl, os, sys
fds = [os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:]]
for fd in fds:
    fcntl.flock(fd, fcntl.LOCK_EX)
    fcntl.lockf(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY), fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator[int]:
    """The pid of a process that holds the busy lock of the directory as a keeper does."""
    make_queue(tmp_path).close()
    path = tmp_path / ".kranz/queue/.busy.flock"
    with subprocess.Popen(
        [sys.executable, "-c", KEEPS, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid


def look(root: Path) -> Status:
    """What `status` would show."""
    with looking.open_sight(Checkout(str(root), has_git=False), os.environ) as sight:
        assert sight is not None
        return status(sight)


def texts(found: Status) -> str:
    """All that a person should look at, as one text."""
    return "\n".join(notice.text for notice in found.warnings)


def run_of(root: Path, keeper: int, *, process: int | None = None, began: float | None = None) -> RunRecord:
    """A claimed mission with the record of a run that this keeper keeps."""
    with make_queue(root) as queue:
        name = enqueue(queue, MISSION)
        folder = root / ".kranz/queue"
        claim = f"{name}.claimed.{keeper}.{'0' * 16}"
        os.rename(folder / name, folder / claim)
        run = Runs(Checkout(str(root), has_git=False), queue.kranz_fd).new(MISSION)
        with run:
            os.close(run.open_for_writing(OUTPUT))
            who = identity_of(keeper)
            assert who is not None
            mission = identity_of(process or keeper)
            ticks = mission.start_ticks if mission is not None else 1
            record = RunRecord(
                kind="mission",
                mission=MISSION,
                run=run.run,
                state="running",
                nonce="0" * 32,
                entry=EntryIdentity("0" * 32, name, 1, None),
                claim=claim,
                number=0,
                keeper=who,
                process=(process or keeper, ticks or 1),
                started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began or time.time())),
            )
            return run.write(record, sync=False)


def test_a_claim_that_needs_a_person_is_named_by_its_notice(tmp_path: Path) -> None:
    """Whoever shows claims one by one knows by it which notice says the same."""
    with make_queue(tmp_path) as queue:
        name = enqueue(queue, MISSION)
    claim = f"{name}.claimed.{gone_pid()}"
    os.rename(tmp_path / ".kranz/queue" / name, tmp_path / ".kranz/queue" / claim)
    found = look(tmp_path)

    [notice] = [one for one in found.warnings if "its holder is gone" in one.text]
    assert notice.claim == claim
    assert [one.claimed.place.name for one in found.claims] == [claim]


def test_a_held_lock_is_seen_without_being_taken(tmp_path: Path) -> None:
    """The kernel's table tells; a lock that is free is told apart from one that is held."""
    path = tmp_path / "lock"
    path.touch()
    asked, held = os.open(path, os.O_RDONLY), os.open(path, os.O_RDONLY)

    before = is_flocked(asked)
    fcntl.flock(held, fcntl.LOCK_EX)
    during = is_flocked(asked)
    os.close(held)
    after = is_flocked(asked)
    os.close(asked)

    assert during
    assert not before  # None where other namespaces cannot be seen
    assert not after


def test_the_run_of_a_living_keeper_is_named(tmp_path: Path, keeper: int) -> None:
    """Mission, run and keeper are told from the claim, and the time from its record."""
    run_of(tmp_path, keeper)

    busy = look(tmp_path).busy

    assert isinstance(busy, BusySeen)
    assert (busy.by, busy.mission, busy.run, busy.pid) == ("keeper", MISSION, 1, keeper)
    assert busy.since is not None
    assert busy.last_output is None


def test_a_free_checkout_is_not_busy(tmp_path: Path) -> None:
    """A lock file that nobody holds means nothing."""
    make_queue(tmp_path).close()
    (tmp_path / ".kranz/queue/.busy.flock").touch()

    assert look(tmp_path).busy is None


def test_long_runs_and_long_silence_are_warned_of(tmp_path: Path, keeper: int) -> None:
    """Two hours of running and half an hour without a word are worth a look."""
    run_of(tmp_path, keeper, began=time.time() - 3 * 3600)

    found = texts(look(tmp_path))

    assert "m-1 has run for more than 2 hours" in found
    assert "m-1 has said nothing for 3 hours" in found


def test_an_end_that_cannot_be_recorded_is_named(tmp_path: Path, keeper: int) -> None:
    """A keeper that stays because its disk is full is shown, with where the reason stands."""
    record = replace(run_of(tmp_path, keeper), process=(gone_pid(), 1))
    with queues.open_runs(Checkout(str(tmp_path), has_git=False)) as runs:
        assert runs is not None
        (notice,) = about_keeper(runs, record)

    assert f"its keeper {keeper} cannot record the end" in notice.text
    assert "keeper.log" in notice.advice


def test_processes_that_do_not_end_are_named(tmp_path: Path, keeper: int) -> None:
    """What the keeper wrote about processes that outlive KILL reaches a person."""
    run_of(tmp_path, keeper)
    folder = tmp_path / f".kranz/missions/{MISSION}/dispatch/001"
    (folder / "stuck.json").write_text('{"stuck": [{"pid": 4711, "command": "dd"}]}')

    assert "processes of mission m-1 do not end: pid 4711" in texts(look(tmp_path))
