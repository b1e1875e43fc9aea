"""Commits that callers share: each caller gets its own answer, whatever becomes of the others."""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from kranzq.backends.sql.commits import Call, Commits
from kranzq.backends.sql.database import Transaction
from kranzq.errors import StoreUnreachable
from tests.laboratory import PATIENCE, wait_for

INTERRUPTS = 120
NOTHING = cast("Transaction", None)


class Store:
    """Commits that can be held up, and the sizes of their batches."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.free = threading.Event()
        self.begun = threading.Event()
        self.commits = Commits(self.commit, "a store")

    def commit(self, batch: Sequence[Call]) -> None:
        """Run each act; the first batch waits until it is let go on."""
        self.batches.append(len(batch))
        self.begun.set()
        assert self.free.wait(PATIENCE)
        for call in batch:
            try:
                call.run(NOTHING)
            except ValueError as fault:
                call.fail(fault)

    def start(self, act: Callable[[Transaction], Any], answers: list[Any]) -> threading.Thread:
        """Run an act in a thread of its own; its answer or its fault is kept."""

        def body() -> None:
            try:
                answers.append(self.commits.run(act))
            except Exception as fault:  # noqa: BLE001 - it is the answer
                answers.append(fault)

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        return thread

    def waiting(self) -> int:
        """How many wait behind the batch that is being committed."""
        return len(self.commits._pending)


def saying(what: object) -> Callable[[Transaction], object]:
    """An act that gives this."""
    return lambda _: what


def fail(_: Transaction) -> None:
    """An act that is refused."""
    raise ValueError("refused")


def test_a_lone_caller_commits_itself() -> None:
    """In its own thread, without anybody else."""
    store = Store()
    store.free.set()

    assert store.commits.run(lambda _: threading.current_thread()) is threading.current_thread()
    assert store.batches == [1]


def test_those_that_came_meanwhile_are_committed_together() -> None:
    """Each gets its own answer, and a refused one its own fault."""
    store, answers = Store(), list[Any]()
    threads = [store.start(lambda _: "first", answers)]
    assert store.begun.wait(PATIENCE)
    threads += [store.start(saying(number), answers) for number in range(5)]
    threads.append(store.start(fail, answers))
    wait_for(lambda: store.waiting() == 6, "six wait")
    store.free.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert store.batches == [1, 6]
    assert sorted(str(answer) for answer in answers) == ["0", "1", "2", "3", "4", "first", "refused"]


def test_a_failed_commit_is_told_to_all_of_it_and_the_next_goes_on() -> None:
    """Nobody waits for ever behind a fault."""
    store, answers = Store(), list[Any]()

    def broken(batch: Sequence[Call]) -> None:
        store.batches.append(len(batch))
        store.begun.set()
        assert store.free.wait(PATIENCE)
        if len(store.batches) < 3:
            raise OSError("the disk is gone")
        for call in batch:
            call.run(NOTHING)

    store.commits = Commits(broken, "a store")
    threads = [store.start(lambda _: "one", answers)]
    assert store.begun.wait(PATIENCE)
    threads += [store.start(lambda _: "two", answers) for _ in range(2)]
    wait_for(lambda: store.waiting() == 2, "two wait")
    store.free.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert [str(answer) for answer in answers] == ["the disk is gone"] * 3
    assert store.commits.run(lambda _: "three") == "three"


@pytest.mark.parametrize("behind", [0, 1])
def test_who_was_interrupted_while_it_waited_holds_nobody_up(behind: int) -> None:
    """A signal that raises in a waiting caller takes that one away; those behind it and later ones are served."""
    store, answers = Store(), list[Any]()
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("signals are for the main thread")

    def interrupt() -> None:
        wait_for(lambda: store.waiting() == 1, "it waits")
        for _ in range(behind):
            store.start(lambda _: "behind", answers)
        wait_for(lambda: store.waiting() == 1 + behind, "so does who comes behind it")
        assert main.ident is not None
        signal.pthread_kill(main.ident, signal.SIGUSR1)
        wait_for(lambda: store.waiting() == behind, "it gave up")
        store.free.set()

    def raised(*_: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGUSR1, raised)
    try:
        first = store.start(lambda _: "first", answers)
        assert store.begun.wait(PATIENCE)
        breaker = threading.Thread(target=interrupt, daemon=True)
        breaker.start()
        with pytest.raises(InterruptedError):
            store.commits.run(lambda _: pytest.fail("it was given up"))
    finally:
        signal.signal(signal.SIGUSR1, before)
    breaker.join(PATIENCE)
    first.join(PATIENCE)
    later = store.start(lambda _: "later", answers)
    later.join(PATIENCE)
    wait_for(lambda: len(answers) == 2 + behind, "everybody else was served")

    assert sorted(answers) == sorted(["first", "later", *(["behind"] if behind else [])])


def test_who_was_interrupted_while_it_led_holds_nobody_up() -> None:
    """Wherever a signal raises in the thread that commits for all: whoever comes next, or waits, is served."""
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("signals are for the main thread")

    def commit(batch: Sequence[Call]) -> None:
        for call in batch:
            call.run(NOTHING)

    def raised(*_: object) -> None:
        raise InterruptedError

    def others() -> None:
        while len(interrupts) < INTERRUPTS:
            with contextlib.suppress(StoreUnreachable):
                commits.run(saying("other"))
            served.append(True)

    def interrupt() -> None:
        assert main.ident is not None
        while len(interrupts) < INTERRUPTS:
            if asked.acquire(timeout=0.1):
                time.sleep(random.uniform(0, 3e-4))
                signal.pthread_kill(main.ident, signal.SIGUSR1)

    commits, asked = Commits(commit, "a store"), threading.Semaphore(0)
    interrupts, served = list[bool](), list[bool]()
    before, interval = signal.signal(signal.SIGUSR1, raised), sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    threads = [threading.Thread(target=body, daemon=True) for body in (others, others, interrupt)]
    try:
        for thread in threads:
            thread.start()
        while len(interrupts) < INTERRUPTS:
            try:
                asked.release()
                while True:
                    with contextlib.suppress(StoreUnreachable):
                        commits.run(saying("mine"))
            except InterruptedError:
                interrupts.append(True)
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        sys.setswitchinterval(interval)
        signal.signal(signal.SIGUSR1, before)

    assert commits.run(saying("last")) == "last"
    assert served
    assert not any(thread.is_alive() for thread in threads)
