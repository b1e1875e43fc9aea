"""The lock on which writers queue: fair, with a deadline, and never left behind by a caller that went away."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backends.sql.write_lock import WriteLock
from kranzq.errors import StoreLocked
from tests.laboratory import REPO, wait_for

HOLD = """
import sys
from kranzq.backends.sql.write_lock import WriteLock
lock = WriteLock(sys.argv[1])
lock.take(10)
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


def is_free(path: str) -> bool:
    """Whether anybody may have it now."""
    lock = WriteLock(path)
    try:
        lock.take(0)
    except StoreLocked:
        return False
    finally:
        lock.close()
    return True


def threads() -> set[threading.Thread]:
    """The threads that wait for locks, or are there to do so; those of other tests may still be on their way out."""
    return {thread for thread in threading.enumerate() if thread.name == "kranzq-write-lock"}


def test_it_is_taken_let_go_and_taken_again(path: str) -> None:
    """Without any thread as long as nobody else wants it."""
    lock = WriteLock(path)
    before = threads()
    for _ in range(3):
        lock.take(0)
        assert not is_free(path)
        lock.let_go()
        assert is_free(path)
    lock.close()

    assert len(threads() - before) <= 4  # those of the looks from outside, on their way out


def test_it_is_waited_for(path: str) -> None:
    """Whoever waits gets it as soon as it is free, again and again, with one thread for all its waiting."""
    lock, before = WriteLock(path), threads()
    for _ in range(2):
        with held_elsewhere(path) as other:
            thread = threading.Timer(
                0.05, lambda other=other: other.stdin and print("go", file=other.stdin, flush=True)
            )
            thread.start()
            lock.take(10)
            thread.join()
            lock.let_go()
    assert len(threads() - before) == 1
    lock.close()
    wait_for(lambda: not threads() - before, "the thread ends")


def test_a_holder_that_is_killed_lets_go(path: str) -> None:
    """The kernel frees it."""
    lock = WriteLock(path)
    with held_elsewhere(path) as other:
        threading.Timer(0.05, other.kill).start()
        lock.take(10)
        lock.close()


def test_past_the_deadline_nothing_is_kept(path: str) -> None:
    """Who gave up has no lock, also not when it comes at last, and may ask again."""
    lock, before = WriteLock(path), threads()
    with held_elsewhere(path) as other:
        for _ in range(2):
            with pytest.raises(StoreLocked):
                lock.take(0.02)
        assert len(threads() - before) == 2
        assert other.stdin is not None
        print("go", file=other.stdin, flush=True)
        wait_for(lambda: is_free(path), "those that gave up let go")
        lock.take(10)
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
            threading.Timer(0.05, lambda: signal.pthread_kill(ident, signal.SIGUSR1)).start()
            with pytest.raises(InterruptedError):
                lock.take(10)
            assert other.stdin is not None
            print("go", file=other.stdin, flush=True)
            wait_for(lambda: is_free(path), "nobody keeps it")
    finally:
        signal.signal(signal.SIGUSR1, before)
    lock.take(10)
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
        "    time.sleep(30)\n"
        "    os._exit(0)\n"
        "time.sleep(30)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, path], cwd=REPO, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        try:
            assert not is_free(path)
            parent.kill()
            wait_for(lambda: is_free(path), "it is free")
        finally:
            os.kill(child, signal.SIGKILL)
