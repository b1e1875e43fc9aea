"""Run folders: what lies in them besides the records."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.runs.folder import CANCEL, EXIT
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord


def test_a_run_keeps_the_entry_that_it_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a second name of the file, by a copy where the system refuses one, and not at all on a full disk."""
    (tmp_path / ".kranz").mkdir()
    (tmp_path / "claim").write_bytes(b"entry")
    queue = os.open(tmp_path, os.O_RDONLY)
    kranz = os.open(tmp_path / ".kranz", os.O_RDONLY)
    runs = Runs(Checkout(str(tmp_path), has_git=False), kranz)

    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    with runs.new(MissionId("m-1")) as linked:
        linked.keep_entry(queue, "claim")
        assert linked.kept_entry() == b"entry"
        assert (tmp_path / "claim").stat().st_nlink == 2
    monkeypatch.setattr(os, "link", refused)
    with runs.new(MissionId("m-1")) as copied:
        copied.keep_entry(queue, "claim")
        assert copied.kept_entry() == b"entry"
        assert (tmp_path / "claim").stat().st_nlink == 2
    with runs.new(MissionId("m-1")) as without:
        without.keep_entry(queue, "gone")
        assert without.kept_entry() is None
    os.close(queue)
    os.close(kranz)


def test_a_recorded_end_survives_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each folder above it, also those that an earlier run made and never synced."""
    (tmp_path / ".kranz").mkdir()
    kranz = os.open(tmp_path / ".kranz", os.O_RDONLY)
    runs = Runs(Checkout(str(tmp_path), has_git=False), kranz)
    synced: list[str] = []
    real = os.fsync

    def sync(fd: int) -> None:
        real(fd)
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)

    monkeypatch.setattr(os, "fsync", sync)
    entry = EntryIdentity(None, "002-00000000000000000000-m-1.json", 1, None)
    for run in (1, 2):
        with runs.new(MissionId("m-1")) as folder:
            record = RunRecord("mission", MissionId("m-1"), run, "claiming", "ab" * 16, entry, "", 0, me())
            folder.write(record, sync=run == 2)
    os.close(kranz)

    assert synced[0].startswith(".run.json.")
    assert synced[1:] == ["002", "dispatch", "m-1", "missions", ".kranz"]


def test_only_exact_names_are_runs(tmp_path: Path) -> None:
    """A folder whose name only reads like a run's number is none: each number has one name, and one folder."""
    tries = tmp_path / ".kranz/missions/m-1/dispatch"
    for name in ("001", "2", "0003", "000", "+04", " 05", "٠٠٦", "0_7", "-08", "009.old", "1000", "9999999999"):
        (tries / name).mkdir(parents=True)
    kranz = os.open(tmp_path / ".kranz", os.O_RDONLY)
    runs = Runs(Checkout(str(tmp_path), has_git=False), kranz)

    assert runs.numbers(MissionId("m-1")) == [1, 1000]
    assert runs.open(MissionId("m-1"), 2) is None
    with runs.new(MissionId("m-1")) as following:
        assert following.run == 1001
    os.close(kranz)


@contextlib.contextmanager
def descriptors(count: int) -> Iterator[None]:
    """Leave this process only so many that it may still open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (64 + max(map(int, os.listdir("/proc/self/fd"))), hard))
        taken: list[int] = []
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.open("/", os.O_PATH))
        for fd in taken[count:]:
            stack.callback(os.close, fd)
        for fd in taken[:count]:
            os.close(fd)
        yield


@pytest.mark.parametrize("count", range(5))
def test_without_descriptors_nobody_says_that_nothing_ran(tmp_path: Path, count: int) -> None:
    """A run that is taken for none runs again, an end that is taken for none too; a wish that nobody had ends one."""
    (tmp_path / ".kranz").mkdir()
    mission, nonce = MissionId("m-1"), "ab" * 16
    kranz = os.open(tmp_path / ".kranz", os.O_RDONLY)
    runs = Runs(Checkout(str(tmp_path), has_git=False), kranz)
    entry = EntryIdentity(None, "002-00000000000000000000-m-1.json", 1, None)
    with runs.new(mission) as folder:
        folder.write(RunRecord("mission", mission, 1, "running", nonce, entry, "claim", 0, me()), sync=False)
        Path(folder.path, EXIT).write_text(f'{{"nonce": "{nonce}", "started": true, "exitCode": 0}}')
        looks: dict[str, Callable[[], object]] = {
            "record": lambda: runs.of_claim(mission, "claim"),
            "end": lambda: folder.read_exit(nonce),
            "hidden": lambda: runs.are_hidden(mission),
            "wish": lambda: folder.wished(CANCEL),
        }
        there = {what: look() for what, look in looks.items()}
        seen: dict[str, object] = {}
        with descriptors(count):
            for what, look in looks.items():
                with contextlib.suppress(OSError):
                    seen[what] = look()
    os.close(kranz)

    assert seen == {what: value for what, value in there.items() if what in seen}
    assert bool(seen) == (count > 0)
