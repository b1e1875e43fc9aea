"""Subjects in turn: each round every one of them, beginning with another one each time, with a canary before it."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kranzq.disk.atomic import sync_file_system
from tests.benchmarks.asked import Kind, Row, Table
from tests.benchmarks.figures import Rounds, row_of

CANARY_STEPS = 40_000
CANARY_BYTES = b"\0" * 4096


@dataclass
class Subject:
    """Something to measure. `sample` gives one figure in the unit of its table; a fault ends this subject alone."""

    name: str
    kind: Kind
    sample: Callable[[], float]
    note: str = ""
    rounds: list[list[float]] = field(default_factory=list)
    fault: str = ""


@dataclass
class Measured:
    """What the rounds gave."""

    subjects: Sequence[Subject]
    canary: list[tuple[float, float]]

    def of(self, names: Collection[str]) -> Measured:
        """Some of the subjects, for a table of their own."""
        return Measured([one for one in self.subjects if one.name in names], self.canary)

    def rounds_of(self, name: str) -> Rounds:
        """The samples of a subject."""
        return next((one.rounds for one in self.subjects if one.name == name and not one.fault), [])

    def table(self, title: str, unit: str, how: str, *, base: str = "", absent: Sequence[Row] = ()) -> Table:
        """All subjects as a table; those that failed and those that are absent come last, with the reason."""
        against = self.rounds_of(base) if base else None
        failed = [Row(one.name, "absent", note=one.fault) for one in self.subjects if one.fault]
        well = [one for one in self.subjects if not one.fault]
        rows = [row_of(one.name, one.kind, one.rounds, against, note=one.note) for one in well]
        return Table(title, unit, how, [*rows, *failed, *absent], base if against else "")


def measure(subjects: Sequence[Subject], rounds: int, times: int, folder: Path, *, warm_up: int = 1) -> Measured:
    """So many rounds of so many samples each, after a warm-up that counts for nothing.

    Before each turn what lies unsynced on the file system of `folder` is written: nobody pays for a neighbour that
    syncs nothing.
    """
    for one in subjects:
        _turn(one, warm_up, count=False)
    canary = []
    gc.collect()
    gc.disable()  # a collection in the middle of a sample is nobody's property
    try:
        for number in range(rounds):
            canary.append(sing(folder))
            first = number % len(subjects) if subjects else 0
            for one in [*subjects[first:], *subjects[:first]]:
                _write_back(folder)
                _turn(one, times)
            gc.collect()
    finally:
        gc.enable()
    return Measured(subjects, canary)


def _write_back(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            sync_file_system(fd)
    finally:
        os.close(fd)


def _turn(subject: Subject, times: int, *, count: bool = True) -> None:
    if subject.fault:
        return
    found = []
    try:
        found += [subject.sample() for _ in range(times)]
    except Exception as fault:  # noqa: BLE001 (a peer may fail in any way, and the others go on)
        subject.fault = f"failed: {type(fault).__name__}: {fault}".partition("\n")[0][:200]
        print(f"  {subject.name}: {subject.fault}", file=sys.stderr, flush=True)
        return
    if count:
        subject.rounds.append(found)


def sing(folder: Path) -> tuple[float, float]:
    """Milliseconds of a fixed piece of work, and of one synced write: they tell whether the machine was disturbed."""
    began = time.perf_counter()
    total = 0
    for number in range(CANARY_STEPS):
        total += number & 7
    counted = time.perf_counter()
    fd = os.open(folder / ".canary", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(fd, CANARY_BYTES, 0)
        os.fsync(fd)
        again = time.perf_counter()
        os.pwrite(fd, CANARY_BYTES, 0)
        os.fsync(fd)
        ended = time.perf_counter()
    finally:
        os.close(fd)
    return (counted - began) * 1000, (ended - again) * 1000


def timed_ms(act: Callable[[], object]) -> float:
    """The milliseconds of a call."""
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000
