"""Promises about who holds the busy lock, held against real processes and real locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kranzq.liveness import start_ticks
from kranzq.runs.holders import (
    Holder,
    HoldersSeen,
    Situation,
    flock_holders,
    judge_holders,
    judge_lock,
    keeper_lives,
    key_of,
)
from tests.laboratory import PATIENCE, wait_for

ROOT = str(Path(__file__).parents[3])
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_unshare = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")

PRELUDE = "import fcntl, os, signal, struct, subprocess, sys\nlock = os.open(sys.argv[1], os.O_RDONLY)\n"
SAY = "print('ready', *({extra}), flush=True); signal.pause()\n"
DISPATCHER = PRELUDE + "fcntl.flock(lock, fcntl.LOCK_EX)\n" + SAY.format(extra="()")
READER = PRELUDE + "fcntl.flock(lock, fcntl.LOCK_SH)\n" + SAY.format(extra="()")
WAITER = PRELUDE + "print('ready', flush=True); fcntl.flock(lock, fcntl.LOCK_EX)\n"
KEEPER = (
    PRELUDE
    + "fcntl.fcntl(lock, fcntl.F_SETLK, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))\n"
    + SAY.format(extra="()")
)
GONE_DISPATCHER = PRELUDE + (
    "fcntl.flock(lock, fcntl.LOCK_EX); os.set_inheritable(lock, True)\n"
    "child = subprocess.Popen(['sleep', '60'], close_fds=False, stdout=subprocess.DEVNULL, start_new_session=True)\n"
    "print('ready', child.pid, flush=True); os._exit(0)\n"
)
Start = Callable[..., tuple[int, list[int]]]


@pytest.fixture
def lock(tmp_path: Path) -> str:
    """A lock file; a directory, as `.git` mostly is."""
    path = tmp_path / ".git"
    path.mkdir()
    return str(path)


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a stand-in and wait until it says that it is ready; gives its pid and what else it said."""
    started: list[subprocess.Popen[str]] = []
    left: list[int] = []

    def begin(code: str, *arguments: str, before: tuple[str, ...] = ()) -> tuple[int, list[int]]:
        process = subprocess.Popen(
            [*before, sys.executable, "-c", code, *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout is not None
        word, *numbers = process.stdout.readline().split()
        assert word == "ready"
        said = [int(number) for number in numbers]
        if code == GONE_DISPATCHER:  # the only one whose answer is a process of ours; other answers are no targets
            left.append(os.pidfd_open(said[0]))
            process.wait(PATIENCE)
        return process.pid, said

    yield begin
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    for fd in left:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)


def pids(path: str) -> set[int]:
    """Who holds the lock."""
    key = key_of(path)
    assert key is not None
    return {holder.pid for holder in flock_holders([key]).holders}


def test_a_dispatcher_with_the_lock_is_seen(lock: str, start: Start) -> None:
    """Whoever took the lock and still has it is a dispatcher at work."""
    pid, _ = start(DISPATCHER, lock)
    key = key_of(lock)
    assert key is not None
    ticks = start_ticks(pid)
    assert ticks is not None

    assert flock_holders([key]).holders == (Holder(pid, pid, ticks, key),)
    assert judge_lock([lock]).situation is Situation.DISPATCHER
    assert judge_lock([lock]).pid == pid


def test_what_outlives_the_dispatcher_is_left_over(lock: str, start: Start) -> None:
    """A lock whose taker is not among its holders, and beside which no keeper lives, is held by leftovers."""
    dispatcher, (child,) = start(GONE_DISPATCHER, lock)
    judged = judge_lock([lock])

    assert judged.situation is Situation.LEFTOVERS
    assert [(holder.pid, holder.taker) for holder in judged.holders] == [(child, dispatcher)]


def test_a_living_keeper_decides_before_all_else(lock: str, start: Start) -> None:
    """While a keeper lives nobody is left over, and when it is killed it stops counting at once."""
    start(GONE_DISPATCHER, lock)
    keeper, _ = start(KEEPER, lock)

    assert keeper_lives(lock) == keeper
    assert judge_lock([lock]).situation is Situation.KEEPER
    assert judge_lock([lock]).pid == keeper
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: keeper_lives(lock) is None, "the keeper's lock goes with it")
    assert judge_lock([lock]).situation is Situation.LEFTOVERS


def test_asking_for_a_keeper_takes_nothing(lock: str, start: Start) -> None:
    """Asking never makes a lock busy, needs no right to write, and works with a descriptor too."""
    fd = os.open(lock, os.O_RDONLY)
    try:
        assert keeper_lives(fd) is None
        assert keeper_lives(lock) is None
        keeper, _ = start(KEEPER, lock)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

        assert keeper_lives(fd) == keeper
    finally:
        os.close(fd)


def test_a_missing_lock_file_has_no_keeper(tmp_path: Path) -> None:
    """Where there is no lock file there is no keeper and no holder to see."""
    path = str(tmp_path / "none")

    assert keeper_lives(path) is None
    assert key_of(path) is None
    assert judge_lock([path]).situation is Situation.CANNOT_SEE


def test_a_waiter_is_no_holder(lock: str, start: Start) -> None:
    """Who blocks on the lock does not hold it."""
    holder, _ = start(DISPATCHER, lock)
    waiter, _ = start(WAITER, lock)
    wait_for(lambda: f"-> FLOCK  ADVISORY  WRITE {waiter} " in Path("/proc/locks").read_text(), "it waits")

    assert pids(lock) == {holder}


def test_a_reader_is_no_holder(lock: str, start: Start) -> None:
    """Who has the lock shared, as a waiting dispatcher does for an instant, does not hold it."""
    start(READER, lock)

    assert pids(lock) == set()
    assert judge_lock([lock]).situation is Situation.CANNOT_SEE


def test_another_file_s_holder_is_none_of_ours(lock: str, start: Start, tmp_path: Path) -> None:
    """A lock on another file says nothing about this one."""
    other = tmp_path / "other"
    other.touch()
    start(DISPATCHER, str(other))

    assert pids(lock) == set()


def test_a_keeper_beside_either_lock_counts(lock: str, start: Start, tmp_path: Path) -> None:
    """With two locks a keeper beside the second is enough."""
    second = tmp_path / ".busy.flock"
    second.touch()
    keeper, _ = start(KEEPER, str(second))

    assert judge_lock([lock, str(second)]).pid == keeper


def test_a_hidden_taker_may_still_be_at_work() -> None:
    """A taker whom we may not look into counts as at work, unless it is younger than what it is said to have left."""
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    younger = Holder(4711, os.getpid(), ticks + 100, (1, 2))
    older = Holder(4711, os.getpid(), ticks - 1, (1, 2))

    assert judge_holders(HoldersSeen((younger,), (os.getpid(),))).situation is Situation.CANNOT_SEE
    assert judge_holders(HoldersSeen((older,), (os.getpid(),))).situation is Situation.LEFTOVERS
    assert judge_holders(HoldersSeen((younger,), ())).situation is Situation.LEFTOVERS


@needs_root
def test_another_users_holder_is_reported_as_not_seen(
    lock: str, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Who may not look into the holder says so instead of seeing nobody."""
    os.chmod(lock, 0o755)
    ours = (Path(tempfile.gettempdir()), tmp_path_factory.getbasetemp().parent)
    for folder in Path(lock).parents:
        if any(top in folder.parents for top in ours):
            os.chmod(folder, 0o755)
    holder, _ = start(DISPATCHER, lock)
    code = (
        "import os, sys; from kranzq.runs.holders import *; os.setuid(65534); "
        "s = flock_holders([key_of(sys.argv[1])]); print('ready', len(s.holders), "
        "*s.cannot_look, flush=True); assert judge_lock([sys.argv[1]]).situation is Situation.CANNOT_SEE"
    )
    _, (count, *cannot_look) = start(code, lock)

    assert count == 0
    assert holder in cannot_look


@needs_unshare
@pytest.mark.system
def test_a_keeper_of_another_namespace_is_noticed(lock: str, start: Start) -> None:
    """From inside a container a keeper outside is nobody we know, yet it lives; a holder outside cannot be seen."""
    keeper, _ = start(KEEPER, lock)
    start(GONE_DISPATCHER, lock)
    inside = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")
    code = (
        "import sys; from kranzq.runs.holders import *; "
        "print('ready', keeper_lives(sys.argv[1]) if sys.argv[2] == 'keeper' else "
        "int(judge_lock([sys.argv[1]]).situation is Situation.CANNOT_SEE), flush=True)"
    )
    _, (seen,) = start(code, lock, "keeper", before=inside)
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: keeper_lives(lock) is None, "the keeper's lock goes with it")
    _, (blind,) = start(code, lock, "holders", before=inside)

    assert (seen, blind) == (0, 1)


@needs_unshare
@pytest.mark.system
def test_inside_a_container_a_gone_taker_is_no_dispatcher(lock: str, start: Start) -> None:
    """In a private pid namespace, where a gone taker has the number 0, what it left is told from a dispatcher."""
    code = (
        "import fcntl, os, subprocess, sys; from kranzq.runs.holders import *; path = sys.argv[1]\n"
        "print('ready', end=' ', flush=True); first = os.fork()\n"
        "if not first:\n"
        "    fd = os.open(path, os.O_RDONLY); fcntl.flock(fd, fcntl.LOCK_EX); os.set_inheritable(fd, True)\n"
        "    subprocess.Popen(['sleep', '60'], close_fds=False, stdout=-3)\n"
        "    print(int(judge_lock([path]).situation is Situation.DISPATCHER), end=' ', flush=True); os._exit(0)\n"
        "os.waitpid(first, 0); judged = judge_lock([path])\n"
        "print(int(judged.situation is Situation.LEFTOVERS), judged.holders[0].taker, flush=True)\n"
    )
    _, said = start(code, lock, before=("unshare", "--fork", "--pid", "--mount-proc", "--kill-child"))

    assert said == [1, 1, 0]


@needs_unshare
@pytest.mark.system
def test_holders_on_an_overlay_are_seen(tmp_path: Path) -> None:
    """Where the kernel's device of a lock is not the one that stat shows, as in containers, holders are still found."""
    code = (
        "import fcntl, os, sys; from kranzq.runs.holders import *; fd = os.open(sys.argv[1], os.O_RDONLY); "
        "fcntl.flock(fd, fcntl.LOCK_EX); print(judge_lock([sys.argv[1]]).pid == os.getpid())"
    )
    mount = (
        'set -e; cd "$1"; mkdir low up tmp over; touch low/lock; mount -t tmpfs none tmp; mkdir tmp/up tmp/work; '
        "mount -t overlay none -o lowerdir=low,upperdir=tmp/up,workdir=tmp/work over; "
        'cd "$2"; exec "$3" -c "$4" "$1/over/lock"'
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, "sh", str(tmp_path), ROOT, sys.executable, code],
        capture_output=True,
        text=True,
        check=False,
    )

    if "unknown filesystem" in done.stderr:
        pytest.skip("no overlay file system")
    assert (done.stdout.strip(), done.stderr) == ("True", "")
