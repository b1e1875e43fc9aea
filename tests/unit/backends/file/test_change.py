"""The short locks: one change of names at a time, beside a kranz that knows only its own lock file."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from kranzq.backends.file import change
from kranzq.backends.file.backend import FileQueue
from kranzq.errors import LocksUnsupported, QueueLocked
from tests.factories import gone_pid, make_queue, run_python
from tests.laboratory import PATIENCE


def test_a_change_excludes_another(queue: FileQueue, tmp_path: Path) -> None:
    """Two changes never overlap; who waits too long is told who holds the lock, and nothing was changed."""
    with (
        make_queue(tmp_path) as other,
        queue.change(),
        pytest.raises(QueueLocked, match=f"process {os.getpid()}") as refused,
        change.change(other.folders, patience=0.05),
    ):
        pass

    assert refused.value.exit_code == 75
    with make_queue(tmp_path) as other, other.change():
        pass


def test_b01_a_killed_holder_frees_the_queue(queue: FileQueue, tmp_path: Path) -> None:
    """The kernel ends the lock with its holder; enqueueing goes on at once."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom tests.factories import make_queue\n"
        "queue = make_queue(Path(sys.argv[1]))\nchange = queue.change(); change.__enter__()\n"
        "print('held', flush=True); sys.stdin.read()\n"
    )
    with run_python(code, str(tmp_path)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(QueueLocked, match=f"process {holder.pid}"), change.change(queue.folders, patience=0.01):
            pass
        holder.kill()
    with change.change(queue.folders, patience=0.0):
        pass


def test_b41_a_queue_without_kernel_locks_is_refused(queue: FileQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where locks are not supported nothing is changed, and the sentence says what to do."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(LocksUnsupported, match="local file system"), queue.change():
        pass


def test_kranz_sees_our_lock_while_a_number_is_given_out(queue: FileQueue, folder: Path) -> None:
    """The file that kranz honours is there, with a pid before the first dot, and gone afterwards."""
    with queue.change(), queue.take_number(None):
        content = (folder / ".mutate.lock").read_text()
        assert content.split(".")[0] == str(os.getpid())

    assert not (folder / ".mutate.lock").exists()


def test_a_living_kranz_is_waited_for(queue: FileQueue, folder: Path) -> None:
    """A lock of a living kranz is honoured: after our patience nothing was changed and the lock is still there."""
    (folder / ".mutate.lock").write_text(f"{os.getppid()}.0")
    with queue.change(), pytest.raises(QueueLocked), change.number_lock(queue.folders, patience=0.05):
        pass

    assert (folder / ".mutate.lock").read_text() == f"{os.getppid()}.0"


@pytest.mark.parametrize("content", ["{gone}.7", "{gone}", "{here}.3.kranzq", "1.0.kranzq"])
def test_a_dead_lock_is_stale_at_once(
    queue: FileQueue, folder: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock of a gone process does not cost ten seconds; nor does one of ours, which cannot live beside our own."""
    (folder / ".mutate.lock").write_text(content.format(gone=gone_pid(), here=os.getpid()))
    pauses: list[float] = []
    clocks = {"time": time.time, "monotonic": time.monotonic}
    monkeypatch.setattr(change, "time", SimpleNamespace(sleep=pauses.append, **clocks))
    with queue.change(), change.number_lock(queue.folders, patience=PATIENCE):
        assert (folder / ".mutate.lock").read_text().endswith(".kranzq")

    assert sum(pauses) < 0.1
    assert not [name for name in os.listdir(folder) if name.endswith((".lock", ".tmp"))]


@pytest.mark.parametrize("content", ["", "garbage", "{alive}.0"])
def test_an_unchanged_lock_is_stale_after_ten_seconds(queue: FileQueue, folder: Path, content: str) -> None:
    """As in kranz, a lock that nobody touched for ten seconds is stale, whatever it says."""
    (folder / ".mutate.lock").write_text(content.format(alive=os.getppid()))
    with queue.change(), pytest.raises(QueueLocked), change.number_lock(queue.folders, patience=0.0):
        pass
    old = time.time() - change.STALE_S - 1
    os.utime(folder / ".mutate.lock", (old, old))
    with queue.change(), change.number_lock(queue.folders, patience=PATIENCE):
        pass

    assert not (folder / ".mutate.lock").exists()


def test_a_lock_from_the_future_is_stale_some_day(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that was set back makes no lock hold for ever: the waiting itself is counted on our own clock."""
    (folder / ".mutate.lock").write_text(f"{os.getppid()}.0")
    ahead = time.time() + 3600
    os.utime(folder / ".mutate.lock", (ahead, ahead))
    monkeypatch.setattr(change, "STALE_S", 0.05)
    with queue.change(), change.number_lock(queue.folders, patience=PATIENCE):
        pass


def test_a_lock_that_replaced_ours_is_not_removed(queue: FileQueue, folder: Path) -> None:
    """Whoever is done removes the lock that it made, not one that another made in its place."""
    with queue.change(), queue.take_number(None):
        (folder / ".mutate.lock").unlink()
        (folder / ".mutate.lock").write_text("4711.0")

    assert (folder / ".mutate.lock").read_text() == "4711.0"
