"""The lock on which writers queue: fair, with a deadline, and never left behind by a caller that went away."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kranzq.backends.sql.write_lock import WriteLock
from kranzq.errors import StoreLocked
from tests.flocks import is_free
from tests.laboratory import PATIENCE, REPO, wait_for

HOLD = """
import sys
from kranzq.backends.sql.write_lock import WriteLock
lock = WriteLock(sys.argv[1])
lock.take(30)
print("held", flush=True)
sys.stdin.readline()
lock.let_go()
print("free", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The file."""
    return str(tmp_path / "lock")


@contextlib.contextmanager
def held_elsewhere(path: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lock until it is told to let it go."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def is_waited_for(path: str) -> bool:
    """Whether a thread of ours blocks on it: the kernel tells of those as well."""
    mine, inode = f"-> FLOCK  ADVISORY  WRITE {os.getpid()} ", f":{os.stat(path).st_ino} "
    return any(mine in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


def once_it_waits(path: str, act: Callable[[], object]) -> threading.Thread:
    """Do something as soon as somebody waits, in a thread that has begun."""

    def body() -> None:
        wait_for(lambda: is_waited_for(path), "somebody waits")
        act()

    thread = threading.Thread(target=body)
    thread.start()
    return thread


def let_go(holder: subprocess.Popen[str]) -> None:
    """Tell another process to let it go."""
    assert holder.stdin is not None
    print("go", file=holder.stdin, flush=True)


def threads() -> set[threading.Thread]:
    """The threads that wait for locks, or are there to do so; those of other tests may still be on their way out."""
    return {thread for thread in threading.enumerate() if thread.name == "kranzq-write-lock"}


def test_it_is_taken_let_go_and_taken_again(path: str) -> None:
    """Without any thread as long as nobody else wants it."""
    lock = WriteLock(path)
    before = threads()
    for _ in range(3):
        lock.take(0)
        assert not is_free(Path(path))
        lock.let_go()
        assert is_free(Path(path))
    lock.close()

    assert not threads() - before


def test_it_is_waited_for(path: str) -> None:
    """Whoever waits gets it as soon as it is free, again and again, with one thread for all its waiting."""
    lock, before = WriteLock(path), threads()
    for _ in range(2):
        with held_elsewhere(path) as other:
            thread = once_it_waits(path, functools.partial(let_go, other))
            lock.take(PATIENCE)
            thread.join()
            lock.let_go()
    assert len(threads() - before) == 1
    lock.close()
    wait_for(lambda: not threads() - before, "the thread ends")


def test_a_holder_that_is_killed_lets_go(path: str) -> None:
    """The kernel frees it."""
    lock = WriteLock(path)
    with held_elsewhere(path) as other:
        thread = once_it_waits(path, other.kill)
        lock.take(PATIENCE)
        thread.join()
        lock.close()


def test_past_the_deadline_nothing_is_kept(path: str) -> None:
    """Who gave up has no lock, also not when it comes at last, and may ask again."""
    lock, before = WriteLock(path), threads()
    with held_elsewhere(path) as other:
        for _ in range(2):
            with pytest.raises(StoreLocked):
                lock.take(0.02)
        assert len(threads() - before) == 2
        let_go(other)
        wait_for(lambda: is_free(Path(path)), "those that gave up let go")
        lock.take(PATIENCE)
        lock.close()
    wait_for(lambda: not threads() - before, "their threads end")


def test_waits_are_counted_also_those_in_vain(path: str) -> None:
    """An operator sees from them that a program, or a disk, keeps everybody waiting."""
    lock = WriteLock(path)
    lock.take(0.01)
    lock.let_go()
    assert lock.waits.count == 0
    with held_elsewhere(path), pytest.raises(StoreLocked):
        lock.take(0.02)

    assert lock.waits.count == 1
    assert lock.waits.seconds >= 0.02


def test_who_was_interrupted_while_it_waited_keeps_nothing(path: str) -> None:
    """A signal that raises takes the caller away, and the lock is free for others when its holder lets go."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are for the main thread")

    def raised(*_: object) -> None:
        raise InterruptedError

    lock, ident = WriteLock(path), threading.main_thread().ident
    assert ident is not None
    before = signal.signal(signal.SIGUSR1, raised)
    try:
        with held_elsewhere(path) as other:
            once_it_waits(path, lambda: signal.pthread_kill(ident, signal.SIGUSR1))
            with pytest.raises(InterruptedError):
                lock.take(10)
            let_go(other)
            wait_for(lambda: is_free(Path(path)), "nobody keeps it")
    finally:
        signal.signal(signal.SIGUSR1, before)
    lock.take(PATIENCE)
    lock.close()


def test_a_child_that_forgets_it_does_not_keep_it(path: str) -> None:
    """After a fork the parent's death frees the lock although its child lives on."""
    program = (
        "import os, sys, time\n"
        "from kranzq.backends.sql.write_lock import WriteLock\n"
        "lock = WriteLock(sys.argv[1])\n"
        "lock.take(1)\n"
        "if os.fork() == 0:\n"
        "    lock.forget()\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(100)\n"
        "    os._exit(0)\n"
        "time.sleep(100)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, path], cwd=REPO, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert not is_free(Path(path))
            parent.kill()
            wait_for(lambda: is_free(Path(path)), "it is free")
        finally:
            os.kill(child, signal.SIGKILL)
