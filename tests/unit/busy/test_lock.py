"""The busy lock: one holder, found out without waiting, and freed by nothing but its end."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.busy.lock import BUSY_FLOCK, BusyLock
from kranzq.errors import LocksUnsupported
from kranzq.model.checkout import Checkout
from tests.factories import run_python


@pytest.fixture(params=["folder", "file", "none"])
def root(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A checkout whose `.git` is a directory, the file of a linked worktree, or not there."""
    (tmp_path / ".kranz/queue").mkdir(parents=True)
    match request.param:
        case "folder":
            (tmp_path / ".git").mkdir()
        case "file":
            (tmp_path / ".git").write_text("gitdir: /elsewhere/.git/worktrees/x\n")
        case _:
            pass
    return tmp_path


@pytest.fixture
def lock(root: Path) -> BusyLock:
    """The lock of that checkout."""
    return BusyLock(Checkout(str(root), has_git=(root / ".git").exists()))


@pytest.fixture
def queue(root: Path) -> Iterator[int]:
    """A descriptor of its queue."""
    fd = os.open(root / ".kranz/queue", os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_the_second_asker_is_told_at_once(lock: BusyLock, queue: int) -> None:
    """While one has the lock nobody else gets it, and nobody waits; when it is closed the next one does."""
    hold = lock.try_hold(queue)
    assert hold is not None

    assert lock.try_hold(queue) is None
    hold.close()
    again = lock.try_hold(queue)
    assert again is not None
    again.close()


def test_b12_the_lock_file_outlives_its_holder(lock: BusyLock, queue: int, root: Path) -> None:
    """The lock file is never unlinked, so a newcomer cannot lock another file of the same name."""
    hold = lock.try_hold(queue)
    assert hold is not None
    inode = (root / ".kranz/queue" / BUSY_FLOCK).stat().st_ino
    hold.unlock()
    hold.close()

    assert (root / ".kranz/queue" / BUSY_FLOCK).stat().st_ino == inode


@pytest.mark.parametrize("root", ["folder", "file"], indirect=True)
def test_b12_a_removed_lock_file_does_not_free_a_checkout_with_git(lock: BusyLock, queue: int, root: Path) -> None:
    """Whoever removes the file below the queue, as `git clean` does, leaves the checkout as busy as it was."""
    hold = lock.try_hold(queue)
    (root / ".kranz/queue" / BUSY_FLOCK).unlink()

    assert lock.try_hold(queue) is None
    assert hold is not None
    hold.close()


def test_b12_a_lock_on_a_file_that_was_replaced_meanwhile_counts_for_nothing(
    lock: BusyLock, queue: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After taking the lock its path must still lead to it; else it is taken again on the new file."""
    real, replaced = fcntl.flock, list[int]()

    def flock(fd: int, how: int) -> None:
        real(fd, how)
        path = root / ".kranz/queue" / BUSY_FLOCK
        if not replaced and path.exists() and os.fstat(fd).st_ino == path.stat().st_ino:
            replaced.append(path.stat().st_ino)
            path.rename(root / "old")
            path.touch()

    monkeypatch.setattr(fcntl, "flock", flock)
    hold = lock.try_hold(queue)

    assert hold is not None
    assert os.fstat(hold.fds[-1]).st_ino == (root / ".kranz/queue" / BUSY_FLOCK).stat().st_ino != replaced[0]
    hold.close()


def test_a_queue_that_was_replaced_is_not_locked(lock: BusyLock, queue: int, root: Path) -> None:
    """A lock in a directory that is no longer the checkout's queue excludes nobody, so it is not given."""
    (root / ".kranz/queue").rename(root / "old")
    (root / ".kranz/queue").mkdir()

    assert lock.try_hold(queue) is None


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP])
def test_b41_a_file_system_without_kernel_locks_is_refused(
    lock: BusyLock, queue: int, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Where locks are not supported the answer is a clear refusal, never a lock that was not taken."""

    def flock(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", flock)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(LocksUnsupported, match="does not support kernel locks"):
        lock.try_hold(queue)

    assert len(os.listdir("/proc/self/fd")) == before


def test_closing_leaves_the_lock_with_whoever_inherited_it(lock: BusyLock, queue: int) -> None:
    """A dispatcher that leaves only closes: the process that shares the descriptor keeps the checkout busy."""
    hold = lock.try_hold(queue)
    assert hold is not None
    shared = [os.dup(fd) for fd in hold.fds]
    hold.close()
    assert lock.try_hold(queue) is None

    for fd in shared:
        os.close(fd)
    again = lock.try_hold(queue)
    assert again is not None
    again.close()


def test_unlock_takes_it_from_everybody(lock: BusyLock, queue: int) -> None:
    """With the end of a run in hand the lock is freed even if a process that shares it lives on."""
    hold = lock.try_hold(queue)
    assert hold is not None
    shared = [os.dup(fd) for fd in hold.fds]
    hold.unlock()
    again = lock.try_hold(queue)

    assert again is not None
    again.close()
    for fd in shared:
        os.close(fd)


def test_b01_a_killed_holder_frees_the_lock(lock: BusyLock, queue: int, root: Path) -> None:
    """The kernel ends a lock with its holder: nobody waits for a timeout or removes anything by hand."""
    code = (
        "import os, sys\nfrom kranzq.busy.lock import BusyLock\nfrom kranzq.model.checkout import Checkout\n"
        "root = sys.argv[1]; queue = os.open(root + '/.kranz/queue', os.O_RDONLY)\n"
        "hold = BusyLock(Checkout(root, os.path.exists(root + '/.git'))).try_hold(queue)\n"
        "print(hold is not None, flush=True); sys.stdin.read()\n"
    )
    with run_python(code, str(root)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert lock.try_hold(queue) is None
        holder.kill()
    hold = lock.try_hold(queue)

    assert hold is not None
    hold.close()


def test_the_mark_names_the_first_lock(lock: BusyLock, queue: int, root: Path) -> None:
    """The mark that missions bear is device and inode of `.git`, or of the queue's lock where there is no git."""
    first = root / ".git" if lock.checkout.has_git else root / ".kranz/queue" / BUSY_FLOCK
    hold = lock.try_hold(queue)
    assert hold is not None

    assert hold.mark == f"{first.stat().st_dev}:{first.stat().st_ino}"
    hold.close()
