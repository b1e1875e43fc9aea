"""Clients at once, threads or processes, that act without a pause: how often each had its turn, and what it waited."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

from tests.benchmarks.asked import Kind
from tests.benchmarks.client import without_a_pause
from tests.benchmarks.rounds import Subject

Who = Literal["floor", "ours"]
Waits = list[list[float]]
"""For each client what each of its acts took, in milliseconds."""


def by_threads(acts: Sequence[Callable[[], object]], seconds: float) -> Waits:
    """A thread for each act; all begin together. Raises what the first of them raised."""
    begin = threading.Barrier(len(acts))

    def run(act: Callable[[], object]) -> list[float]:
        begin.wait()
        return without_a_pause(act, seconds)

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(run, acts))


class Processes:
    """Processes that have the database open and wait for their turns: none pays for its start."""

    def __init__(self, who: Who, url: str, most: int) -> None:
        words = [sys.executable, "-m", "tests.benchmarks.client", who, url]
        self._all = [
            subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(most)
        ]

    def until_ready(self) -> None:
        """Wait until all have the database open. Raises RuntimeError when one has ended."""
        for one in self._all:
            _line(one)

    def run(self, many: int, seconds: float) -> Waits:
        """Let so many of them claim and finish. Raises RuntimeError when one has ended."""
        acting = self._all[:many]
        for one in acting:
            assert one.stdin is not None
            one.stdin.write(f"{seconds}\n")
            one.stdin.flush()
        return [[float(wait) for wait in _line(one).split()] for one in acting]

    def close(self) -> None:
        """End them all."""
        for one in self._all:
            assert one.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                one.stdin.close()
        for one in self._all:
            with one:
                assert one.stdout is not None
                one.stdout.read()


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("a process of the benchmark has ended, see above")
    return line


@contextlib.contextmanager
def processes(who: Who, url: str, most: int) -> Iterator[Processes]:
    """So many processes, gone at the end."""
    started = Processes(who, url, most)
    try:
        started.until_ready()
        yield started
    finally:
        started.close()


@dataclass
class AtOnce:
    """So many clients, and what all their rounds gave."""

    name: str
    kind: Kind
    clients: int
    seconds: float
    turn: Callable[[], Waits]
    note: str = ""
    rounds: list[Waits] = field(default_factory=list)

    def subject(self) -> Subject:
        """Each sample is a turn of all of them, and the acts a second in it."""
        return Subject(self.name, self.kind, self._sample, self.note)

    def _sample(self) -> float:
        self.rounds.append(self.turn())
        return self.rates()[-1]

    def rates(self) -> list[float]:
        """The acts a second, of each round."""
        return [sum(len(one) for one in each) / self.seconds for each in self.rounds]

    def fairness(self) -> list[float]:
        """The acts of the client that got least, as a part of those of the one that got most, of each round."""
        return [min(len(one) for one in each) / max(len(one) for one in each) for each in self.rounds]

    def waits(self) -> list[float]:
        """What all acts of all rounds took, in milliseconds."""
        return [wait for each in self.rounds for one in each for wait in one]
