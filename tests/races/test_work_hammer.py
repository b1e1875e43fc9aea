"""Many real programs hammer every verb of the work queue while they are killed and stopped at random.

A few seconds by default; `KRANZQ_HAMMER_SECONDS=60 pytest -s tests/races/test_work_hammer.py` for a long run, with the
counts. Each program writes what it saw; `tests.history_checker`, which knows nothing of kranzq, judges it in the end.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from kranzq import work
from tests.history_checker import Kept, check, counts, read
from tests.laboratory import REPO, wait_for

SECONDS = float(os.environ.get("KRANZQ_HAMMER_SECONDS", "5"))
PROGRAMS = 8
VERBS = ("enqueue", "claim", "heartbeat", "finish", "release", "cancel", "sweep", "page")
FOREIGN_WRITER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
while True:
    time.sleep(1)
    connection.execute("begin immediate")
    time.sleep(3)
    connection.execute("rollback")
    time.sleep(1)
"""
pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(max(120, 6 * SECONDS))]


class Troop:
    """The programs that hammer one queue."""

    def __init__(self, url: str, folder: Path, threads: int) -> None:
        self.url, self.folder, self.threads = url, folder, threads
        self.running: list[subprocess.Popen[bytes]] = []
        self.killed = self.stopped = 0
        folder.mkdir()

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        """A program in the background; what it says on its standard error goes to a file."""
        with (self.folder / "errors").open("ab") as errors:
            return subprocess.Popen(argv, cwd=REPO, stdin=subprocess.DEVNULL, stderr=errors)

    def hammer(self, seconds: float) -> subprocess.Popen[bytes]:
        """One program that hammers so long; with 0 it takes and ends what there is."""
        words = (self.url, str(self.folder), str(seconds), str(self.threads))
        return self.start(sys.executable, "-m", "tests.races.work_hammer", *words)

    def run(self, seconds: float) -> None:
        """Let them hammer; now and then one is killed and another one begins, or one is stopped beyond its leases."""
        chance = random.Random(11)
        self.running = [self.hammer(600) for _ in range(PROGRAMS)]
        wait_for(lambda: len(list(self.folder.glob("*.jsonl"))) >= PROGRAMS * self.threads, "they all begin")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.1, 0.6))  # no condition to wait for: the moment is to be any
            victim = self.running.pop(chance.randrange(PROGRAMS))
            if chance.random() < 0.3:
                self.stopped += 1
                victim.send_signal(signal.SIGSTOP)
                time.sleep(0.8)
                victim.send_signal(signal.SIGCONT)
                self.running.append(victim)
            else:
                self.killed += 1
                end(victim)
                self.running.append(self.hammer(600))
        wait_for(self.has_seen_all, "every verb was accepted, however few calls there were in that time", seconds=60)
        self.end()

    def has_seen_all(self) -> bool:
        """Whether each verb was accepted at least once."""
        return set(VERBS) <= {call.verb for call in read(self.folder) if call.accepted}

    def drain(self, left: Callable[[], int]) -> None:
        """Take and end everything, as soon as the leases of the killed ones are over."""

        def drained() -> bool:
            assert self.hammer(0).wait(60) == 0, self.errors()
            return left() == 0

        wait_for(drained, "everything has ended", seconds=60)

    def errors(self) -> str:
        """What the programs said of faults that no call of theirs caught."""
        return (self.folder / "errors").read_text()[-3000:]

    def end(self) -> None:
        """Kill them all."""
        while self.running:
            end(self.running.pop())

    def judge(self, kept: dict[str, Kept]) -> None:
        """Nothing that was seen may contradict what is promised."""
        calls = read(self.folder)
        told = f"{len(calls)} calls; {self.killed} programs killed, {self.stopped} stopped; {len(kept)} items kept\n"
        sys.stdout.write(told + counts(calls))

        faults = check(calls, kept, drained=True)
        assert not faults, f"{len(faults)} faults, from {self.folder}:\n" + "\n".join(faults[:20])
        assert self.errors() == ""
        for verb in VERBS:
            assert any(call.verb == verb and call.accepted for call in calls), f"{verb} was never accepted"


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill it and wait for its end."""
    process.kill()
    process.wait()


@contextlib.contextmanager
def troop(url: str, folder: Path, threads: int) -> Iterator[Troop]:
    """Programs on a queue that is there, none of which is left behind."""
    work.open(url).close()
    one = Troop(url, folder, threads)
    try:
        yield one
    finally:
        one.end()


def kept_by(rows: list[tuple[str, str, int, str]], attempts: list[tuple[str, int, str, str | None]]) -> dict[str, Kept]:
    """What a database holds, from its rows of items and of attempts."""
    kept = {item: Kept(state, many, result) for item, state, many, result in rows}
    for item, attempt, holder, ended in attempts:
        kept[item].history.append((attempt, holder, ended))
    return kept


ITEMS = "select id, state, attempts, result from kranzq_items"
ATTEMPTS = "select i.id, a.attempt, a.holder, a.ended from kranzq_attempts a join kranzq_items i on i.seq = a.seq"
LEFT = "select count(*) from kranzq_items where state not in ('done', 'failed', 'cancelled')"


def test_b61_sqlite_keeps_its_promises_under_kills_and_a_foreign_writer(tmp_path: Path) -> None:
    """Eight programs, a ninth that holds SQLite's own lock for three of every five seconds: nobody hears of a lock."""
    path = str(tmp_path / "work.db")
    with troop(f"sqlite:///{path}", tmp_path / "history", threads=2) as one:
        one.running.append(foreign := one.start(sys.executable, "-I", "-S", "-c", FOREIGN_WRITER, path))
        one.running.clear()
        try:
            one.run(SECONDS)
        finally:
            end(foreign)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            one.drain(lambda: int(connection.execute(LEFT).fetchone()[0]))
            kept = kept_by(connection.execute(ITEMS).fetchall(), connection.execute(ATTEMPTS).fetchall())
            assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        one.judge(kept)


def test_postgres_keeps_its_promises_under_kills(postgres_url: str, tmp_path: Path) -> None:
    """Eight programs with four threads each, every thread on a connection of its own."""
    with troop(postgres_url, tmp_path / "history", threads=4) as one:
        one.run(SECONDS)
        with psycopg.connect(postgres_url, autocommit=True) as connection:

            def left() -> int:
                row = connection.execute(LEFT).fetchone()
                return int(row[0]) if row is not None else 0

            one.drain(left)
            kept = kept_by(connection.execute(ITEMS).fetchall(), connection.execute(ATTEMPTS).fetchall())
        one.judge(kept)
