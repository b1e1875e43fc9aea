"""The queue's directories: made once with their modes, reached through no link, refused when anybody may write."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from kranzq.backends.file import folders
from kranzq.backends.file.backend import FileQueue
from kranzq.backends.file.folders import IGNORED, CheckoutGone, Folders, NoQueue
from kranzq.errors import NotFound, StoreUnavailable, UnsafePath
from kranzq.model.checkout import Checkout


def checkout(root: Path) -> Checkout:
    """A checkout without git."""
    return Checkout(str(root), has_git=False)


def test_looking_makes_nothing(tmp_path: Path) -> None:
    """Who only looks at a checkout without a queue is told so, and nothing is made."""
    with pytest.raises(NoQueue):
        Folders.open(checkout(tmp_path))
    (tmp_path / ".kranz").mkdir()
    with pytest.raises(NoQueue):
        Folders.open(checkout(tmp_path))

    assert os.listdir(tmp_path / ".kranz") == []


@pytest.mark.parametrize(("has_git", "another"), [(True, False), (True, True), (False, False)])
def test_a_checkout_that_is_gone_is_not_one_without_a_queue(tmp_path: Path, *, has_git: bool, another: bool) -> None:
    """Neither who looks nor who works goes on at its path, nor in another directory that lies there now."""
    root = tmp_path / "checkout"
    if another:
        root.mkdir()
    for begin in (Folders.open, Folders.make):
        with pytest.raises(CheckoutGone):
            begin(Checkout(str(root), has_git=has_git))

    assert not root.exists() or os.listdir(root) == []


def test_b57_a_made_queue_does_not_show_in_git(tmp_path: Path) -> None:
    """All runtime state is ignored; lines that were there stay, and making it twice adds nothing."""
    (tmp_path / ".kranz").mkdir()
    (tmp_path / ".kranz/.gitignore").write_text("own-line\nqueue/")
    Folders.make(checkout(tmp_path)).close()
    once = (tmp_path / ".kranz/.gitignore").read_text()
    Folders.make(checkout(tmp_path)).close()

    assert once.splitlines()[:2] == ["own-line", "queue/"]
    assert set(IGNORED) <= set(once.splitlines())
    assert (tmp_path / ".kranz/.gitignore").read_text() == once


def test_lines_of_others_survive_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that takes the place of theirs is on the disk before it does."""
    (tmp_path / ".kranz").mkdir()
    (tmp_path / ".kranz/.gitignore").write_text("own-line\n")
    synced = {}
    real = os.fsync

    def sync(fd: int) -> None:
        real(fd)
        name = os.readlink(f"/proc/self/fd/{fd}")
        synced[Path(name).name] = os.fstat(fd).st_size if name.endswith(".tmp") else -1

    monkeypatch.setattr(os, "fsync", sync)
    Folders.make(checkout(tmp_path)).close()
    size = (tmp_path / ".kranz/.gitignore").stat().st_size

    assert [at for name, at in synced.items() if name.startswith("..gitignore")] == [size]


def test_b34_a_missing_checkout_is_not_made_anew(tmp_path: Path) -> None:
    """When the checkout is gone nothing is created in its place."""
    with pytest.raises(NotFound, match="gone"):
        Folders.make(checkout(tmp_path / "gone"))

    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("part", [".kranz", ".kranz/queue", ".kranz/queue/waiting"])
def test_b49_a_link_in_the_way_is_refused(tmp_path: Path, part: str) -> None:
    """A directory of the queue that is a link is refused, and nothing appears behind it."""
    (tmp_path / "elsewhere").mkdir()
    root = tmp_path / "root"
    (root / part).parent.mkdir(parents=True)
    (root / part).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath, match="link"), Folders.make(checkout(root)) as folders:
        folders.made("waiting")

    assert os.listdir(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("part", [".kranz", ".kranz/queue"])
def test_a_queue_that_everybody_may_write_to_is_refused(tmp_path: Path, part: str) -> None:
    """Where anybody could plant a mission nothing is dispatched, and the sentence says how to mend it."""
    Folders.make(checkout(tmp_path)).close()
    (tmp_path / part).chmod(0o777)
    with pytest.raises(UnsafePath, match="chmod o-w"):
        Folders.make(checkout(tmp_path))


@pytest.mark.parametrize("part", ["waiting", "parked", "inbox", "missions"])
def test_for_want_of_descriptors_no_directory_goes_unlooked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """One that everybody may write to would pass for a link, in which nothing is looked at."""
    one = checkout(tmp_path)
    Folders.make(one).close()
    (tmp_path / ".kranz" / ("missions" if part == "missions" else f"queue/{part}")).mkdir(exist_ok=True)
    real = os.open

    def lacking(path: str, *args: int, **rest: int) -> int:
        if path == part:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return real(path, *args, **rest)

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "open", lacking)
    for open_one in (Folders.make, Folders.open_to_change):
        with pytest.raises(StoreUnavailable, match="Too many open files"):
            open_one(one)

    assert len(os.listdir("/proc/self/fd")) == before


def test_work_goes_on_in_a_checkout_that_is_renamed(tmp_path: Path) -> None:
    """What is open stays open under another name, and whoever asks is told that the path leads elsewhere now."""
    (tmp_path / "a").mkdir()
    with Folders.make(checkout(tmp_path / "a")) as folders:
        assert folders.is_current()
        (tmp_path / "a").rename(tmp_path / "b")
        folders.made("waiting")

        assert not folders.is_current()
    assert (tmp_path / "b/.kranz/queue/waiting").is_dir()
    assert not (tmp_path / "a").exists()


def test_nothing_stays_open(tmp_path: Path) -> None:
    """Opening, refusing and closing leave no descriptor behind."""
    before = len(os.listdir("/proc/self/fd"))
    with Folders.make(checkout(tmp_path)) as folders:
        folders.made("parked")
    (tmp_path / ".kranz/queue").rename(tmp_path / "away")
    with pytest.raises(NoQueue):
        Folders.open(checkout(tmp_path))

    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows with each reading of a directory."""
    found: list[int] = []
    listdir = os.listdir

    def counted(fd: int) -> list[str]:
        found.append(fd)
        return listdir(fd)

    monkeypatch.setattr(os, "listdir", counted)
    return found


def test_names_that_have_not_changed_are_read_once(
    queue: FileQueue, folder: Path, looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again when one has come, has gone or got another name, and when a change of names begins."""
    monkeypatch.setattr(folders, "SETTLED_NS", -(10**18))  # as if it were long ago
    names = queue.folders.names
    before = names()
    assert names() is before
    assert len(looks) == 1

    (folder / "a").touch()
    os.utime(folder, (1, 1))  # clocks have ticks, and this test makes its changes within one
    assert "a" in names()
    (folder / "a").rename(folder / "b")
    os.utime(folder, (2, 2))
    assert {"a", "b"} & set(names()) == {"b"}
    (folder / "b").unlink()
    os.utime(folder, (3, 3))
    assert sorted(names()) == sorted(before)
    assert len(looks) == 4

    with queue.change():
        names()
    assert len(looks) == 5


def test_names_that_have_just_changed_are_read_again(
    queue: FileQueue, folder: Path, looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second change in the same instant could not be seen by the times of the directory; nor one in the future."""
    monkeypatch.setattr(folders, "SETTLED_NS", 10**18)  # an instant that is not over before the look
    (folder / "a").touch()
    queue.folders.names()
    queue.folders.names()
    assert len(looks) == 2

    os.utime(folder, (2**32, 2**32))
    queue.folders.names()
    queue.folders.names()
    assert len(looks) == 4


def test_whole_seconds_are_long_ticks(
    queue: FileQueue, folder: Path, looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file system keeps no more, a second change in the same second leaves the times as they are."""
    whole = 1_700_000_000 * 10**9
    times = SimpleNamespace(st_mtime_ns=whole, st_ctime_ns=whole)
    clock = SimpleNamespace(time_ns=lambda: whole + 7 * 10**8)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fstat", lambda _: times)
        patched.setattr(folders, "time", clock)
        queue.folders.names()
        (folder / "a").touch()

        assert "a" in queue.folders.names()
        assert len(looks) == 2
        clock.time_ns = lambda: whole + 3 * 10**9
        for _ in range(2):
            queue.folders.names()
        assert len(looks) == 3
