"""Taking approvals back: an end for each, none without its removal, and many of them in little time."""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backends.file import withdrawing
from kranzq.backends.file.backend import FileQueue
from kranzq.disk import atomic
from kranzq.dispatch.cancel import Answer, Canceller, cancel_each, matching
from kranzq.dispatch.take_back import take_back
from kranzq.dispatch.unattended import finish_cancel
from kranzq.errors import StoreUnavailable
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.runs.folder import RunFolder
from tests.factories import kranz_entry, kranz_name, make_queue

M1 = MissionId("m-1")


def _no_parts() -> object:
    raise AssertionError("nothing runs here")


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Canceller]:
    """Who cancels in a checkout without git."""
    with make_queue(tmp_path) as queue:
        yield Canceller(Checkout(str(tmp_path), has_git=False), queue, "someone", _no_parts)  # type: ignore[arg-type]


def fill(one: Canceller, count: int) -> None:
    """So many entries of so many missions."""
    for number in range(count):
        path = Path(one.checkout.queue, kranz_name(f"m-{number}", 2, number))
        path.write_bytes(kranz_entry(f"m-{number}", 2, number))


def test_a_full_disk_cancels_nothing(one: Canceller, monkeypatch: pytest.MonkeyPatch) -> None:
    """An end that cannot be kept would let others wait for ever, so the entry stays and the fault is said."""
    fill(one, 1)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RunFolder, "write", full)
    with pytest.raises(StoreUnavailable), one.queue.change():
        take_back(one.queue, one.runs, (M1, MissionId("m-0")), "someone", "")

    assert len(one.queue.places()) == 1
    assert one.runs.numbers(MissionId("m-0")) == []


def test_what_cannot_be_taken_out_is_told_to_be_cancelled(one: Canceller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its end is on the disk by then, so nobody may be told that nothing was changed."""
    fill(one, 1)

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(atomic, "remove", refused)
        with pytest.raises(StoreUnavailable, match="Its end is recorded"), one.queue.change():
            take_back(one.queue, one.runs, (MissionId("m-0"),), "someone", "")
    with one.queue.change():
        again = take_back(one.queue, one.runs, (MissionId("m-0"),), "someone", "")

    assert again == {MissionId("m-0")}
    assert one.runs.numbers(MissionId("m-0")) == [1]


@pytest.mark.parametrize("fails", ["write", "sync"])
def test_a_disk_that_fills_up_on_the_way_cancels_none_of_two(
    one: Canceller, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    """The end of the first is taken back: the next turn would take out an entry that was said to stay."""
    fill(one, 2)
    real, calls = getattr(RunFolder, fails), 0

    def full(*args: object, **options: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*args, **options)

    monkeypatch.setattr(RunFolder, fails, full)
    with pytest.raises(StoreUnavailable), one.queue.change():
        take_back(one.queue, one.runs, (M1, MissionId("m-0")), "someone", "")

    assert len(one.queue.places()) == 2
    assert one.runs.numbers(MissionId("m-0")) == one.runs.numbers(M1) == []


def test_the_end_is_on_the_disk_before_the_entry_goes(one: Canceller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record, its folders, then the removal and its folder: a power cut never takes the first alone."""
    fill(one, 1)
    done: list[str] = []
    real_sync, real_remove = os.fsync, atomic.remove

    def sync(fd: int) -> None:
        done.append(os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        real_sync(fd)

    def remove(fd: int, name: str) -> bool:
        done.append("gone")
        return real_remove(fd, name)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(atomic, "remove", remove)
    with one.queue.change():
        take_back(one.queue, one.runs, (MissionId("m-0"),), "someone", "")

    assert done == ["run.json", "001", "dispatch", "m-0", "missions", ".kranz", "gone", "queue"]


@pytest.mark.parametrize("born", [True, False], ids=["born", "no birth"])
def test_what_is_dropped_again_is_not_what_was_cancelled(
    one: Canceller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, born: bool
) -> None:
    """A producer chooses the names in the inbox, and disks give an inode out again: only the birth tells two apart."""
    births = iter([1, 2, 2]) if born else itertools.repeat(None)
    monkeypatch.setattr(withdrawing, "born_ns_of", lambda *_: next(births))
    path, kept = Path(one.checkout.queue, "inbox", "nightly.json"), tmp_path / "kept"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(kranz_entry("m-0"))
    os.link(path, kept)
    with one.queue.change():
        take_back(one.queue, one.runs, (MissionId("m-0"),), "someone", "")
    kept.rename(path)  # under the same number as the one that was taken out
    finish_cancel(one.queue, one.runs, MissionId("m-0"))

    assert path.exists()
    with one.queue.change():
        assert take_back(one.queue, one.runs, (MissionId("m-0"),), "someone", "") == {MissionId("m-0")}
    assert one.runs.numbers(MissionId("m-0")) == [1, 2]


@pytest.mark.parametrize("kept", [True, False], ids=["killed", "taken back"])
def test_only_a_cancel_that_is_over_is_finished_by_others(
    one: Canceller, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    """One that finds no room takes its record back before it lets go of the lock; its entry stays approved."""
    fill(one, 1)
    change = FileQueue.change

    def last_words(queue: FileQueue) -> object:
        if not kept and (folder := one.runs.open(MissionId("m-0"), 1)) is not None:
            folder.discard()
            folder.close()
        return change(queue)

    with one.queue.change(), monkeypatch.context() as patched:
        patched.setattr(FileQueue, "take_out", lambda *_: [])
        take_back(one.queue, one.runs, (MissionId("m-0"),), "someone", "")
    monkeypatch.setattr(FileQueue, "change", last_words)
    finish_cancel(one.queue, one.runs, MissionId("m-0"))

    assert len(one.queue.places()) == (0 if kept else 1)


def test_a_thousand_are_cancelled_in_little_time(one: Canceller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The price of each is its record and one unlink; the disk is waited for once a batch."""
    fill(one, 1000)
    synced: list[int] = []
    real = atomic.sync_file_system

    def sync(fd: int) -> None:
        synced.append(fd)
        real(fd)

    monkeypatch.setattr(atomic, "sync_file_system", sync)
    found = matching(one, "m-*")
    began = time.process_time()
    done = list(cancel_each(one, list(found), "", wait=False))
    took = time.process_time() - began

    assert len([each for each in done if isinstance(each, Answer) and each.result == "removed"]) == 1000
    assert one.queue.places() == []
    assert one.runs.last(MissionId("m-999")).outcome is Outcome.CANCELLED  # type: ignore[union-attr]
    assert len(synced) == 16
    assert took < 3


def test_nobody_waits_long_for_the_lock(one: Canceller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two batches others have their turn."""
    fill(one, 200)
    held: list[float] = []
    real = FileQueue.change

    def change(self: FileQueue) -> object:
        held.append(time.monotonic())
        return real(self)

    monkeypatch.setattr(FileQueue, "change", change)
    list(cancel_each(one, list(matching(one, "m-*")), "", wait=False))

    assert len(held) == 4
