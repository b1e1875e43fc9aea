"""Promises about git's lock: never taken from whoever may hold it, found wherever it lies, set aside whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from kranzq.runs import index_lock
from tests.laboratory import PATIENCE, wait_for

pytestmark = pytest.mark.system("git")


class Place:
    """A checkout, a run folder in it, and a moment before the run."""

    def __init__(self, root: Path) -> None:
        self.root, self.lock = root, root / ".git/index.lock"
        self.run = root / ".kranz/missions/m-1/dispatch/001"
        self.run.mkdir(parents=True)
        self.fd = os.open(self.run, os.O_RDONLY)
        self.since = time.time() - 1

    def set_aside(self, since: float | None = None) -> str | None:
        """Try it."""
        begun = self.since if since is None else since
        return index_lock.set_aside(str(self.root), self.fd, str(self.run), since=begun)


@pytest.fixture
def place(checkout: Path) -> Iterator[Place]:
    """A place whose descriptor is closed at the end."""
    one = Place(checkout)
    yield one
    os.close(one.fd)


def test_a_lock_of_the_run_that_nobody_holds_is_moved_whole(place: Place) -> None:
    """Its bytes lie in the run folder afterwards, and git can work again."""
    place.lock.write_bytes(b"half an index")

    assert place.set_aside() == f"{place.run}/index.lock"
    assert (place.run / "index.lock").read_bytes() == b"half an index"
    assert not place.lock.exists()
    assert place.set_aside() == f"{place.run}/index.lock"  # asked again it tells the same


def test_without_a_lock_there_is_nothing_to_do(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lock: no file, no waiting, no report."""
    pauses: list[float] = []
    clocks = {"time": time.time, "monotonic": time.monotonic}
    monkeypatch.setattr(index_lock, "time", SimpleNamespace(sleep=pauses.append, **clocks))

    assert place.set_aside() is None
    assert index_lock.why_not_now(str(place.root)) is None
    assert pauses == []


def test_where_processes_cannot_be_seen_nothing_is_moved(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a view of the processes nobody can say that none holds it."""
    place.lock.touch()
    monkeypatch.setattr(index_lock, "proc_is_ours", lambda: False)

    assert place.set_aside() is None
    assert place.lock.exists()


def test_a_lock_of_another_repository_stays(place: Place, tmp_path: Path) -> None:
    """A `.git` that points to somebody else's repository leads to no lock that could be moved."""
    other = tmp_path / "other"
    shutil.copytree(place.root / ".git", other / ".git")
    (other / ".git/index.lock").touch()
    shutil.rmtree(place.root / ".git")
    (place.root / ".git").write_text(f"gitdir: {other}/.git\n")

    assert place.set_aside() is None
    assert (other / ".git/index.lock").exists()


@pytest.mark.parametrize("kind", ["older than the run", "a folder", "a link"])
def test_what_the_run_cannot_have_made_stays(place: Place, kind: str) -> None:
    """A lock from before the run, or what is no regular file, is somebody else's."""
    if kind == "a folder":
        place.lock.mkdir()
    elif kind == "a link":
        place.lock.symlink_to("HEAD")
    else:
        place.lock.touch()

    assert place.set_aside(time.time() + 10 if kind == "older than the run" else None) is None
    assert os.path.lexists(place.lock)


def test_a_lock_that_somebody_has_open_stays_and_is_named(place: Place) -> None:
    """The holder is found by the open file, whatever it is called."""
    script = f"f = open({str(place.lock)!r}, 'x'); print('there', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        moved = place.set_aside()
        why = index_lock.why_not_now(str(place.root), patience_s=0.05)
        holder.communicate("\n")

    assert moved is None
    assert place.lock.exists()
    assert why is not None
    assert f"process {holder.pid} (" in why
    assert why.endswith("has it open")


def test_a_git_at_work_in_the_tree_may_hold_it_closed(place: Place, tmp_path: Path) -> None:
    """A git that waits for its editor has closed the file; while one works here nothing is moved."""
    place.lock.touch()
    program = tmp_path / "git"
    shutil.copy("/bin/sleep", program)
    with subprocess.Popen([str(program), "1000"], cwd=place.root) as other:
        wait_for(lambda: Path(f"/proc/{other.pid}/comm").read_text() == "git\n", "it runs")
        moved = place.set_aside()
        why = index_lock.why_not_now(str(place.root), patience_s=0)
        other.kill()
    elsewhere = place.set_aside()

    assert moved is None
    assert why is not None
    assert why.endswith("works here")
    assert elsewhere is not None


def test_a_lock_that_goes_within_a_moment_is_waited_for(place: Place) -> None:
    """A git that only writes its index delays a start and does not refuse it."""
    place.lock.touch()
    with subprocess.Popen(["sh", "-c", 'sleep 0.2; rm "$0"', str(place.lock)]):
        why = index_lock.why_not_now(str(place.root), patience_s=PATIENCE)

    assert why is None


def test_a_lock_that_stays_is_reported_with_its_age(place: Place) -> None:
    """Nobody to be seen: the age, and what a person can do."""
    place.lock.touch()
    why = index_lock.why_not_now(str(place.root), patience_s=0)

    assert why is not None
    assert why.startswith(f"git's {place.lock} is ")
    assert "if none works here, remove it" in why


@pytest.mark.system("git", "unshare", "mount")
def test_where_the_run_folder_is_on_another_file_system_it_is_renamed_in_place(place: Place, tmp_path: Path) -> None:
    """Nothing is copied: beside its old place it is out of git's way as well."""
    place.lock.touch()
    program = f"""
import os, sys, time
from kranzq.runs import index_lock
os.system("mount -t tmpfs none {place.run}")
fd = os.open({str(place.run)!r}, os.O_RDONLY)
print(index_lock.set_aside({str(place.root)!r}, fd, {str(place.run)!r}, since=0))
"""
    done = subprocess.run(
        ["unshare", "-m", sys.executable, "-c", program],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in done.stderr:
        pytest.skip(done.stderr)

    assert done.stdout.strip() == f"{place.root}/.git/index.lock.001"
    assert (place.root / ".git/index.lock.001").exists()
    assert not place.lock.exists()
