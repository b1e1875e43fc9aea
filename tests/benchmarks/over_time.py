"""(h) What it costs after a long life: 20,000 missions through one checkout, a million items through one database.

The same figure is taken at the beginning and at the end, and what lies on the disk by then is counted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kranzq import queue, work
from kranzq.model.checkout import Checkout
from tests.benchmarks import checkouts, figures
from tests.benchmarks.asked import Asked, Result, Row, Table, Target
from tests.benchmarks.items import HOLDER, LEASE_MS, claimed, new_item
from tests.benchmarks.job import Job
from tests.benchmarks.places import disk
from tests.benchmarks.rounds import timed_ms

FIRST, LAST = "at the beginning", "at the end"
AT_ONCE, PAUSE_S = 100, 0.08
BATCH, CLAIMED = 1_000, 100
SPANS = 10
"""The samples of one end are told apart in so many parts, for their spread."""
MISSIONS = "Milliseconds from the rename by which an entry appears to its mission's first instruction, the daemon idle."
ITEMS = "Milliseconds of a claim with its end, one client, each durable."


def run(asked: Asked) -> Result:
    """A table of missions and one of items."""
    here = disk(asked.folder).there / "h"
    here.mkdir()
    tables, targets = [], []
    for measured, what in ((_missions, "missions"), (_items, "items")):
        table = measured(here, asked)
        tables.append(table)
        targets.append(_target(table, what))
    return Result(tables, targets)


def _missions(here: Path, asked: Asked) -> Table:
    many, samples = asked.so_many(40, 20_000), asked.so_many(5, 200)
    repo = checkouts.checkout(here / "checkout")
    job = Job(here, "job")
    kranz = Path(repo.root) / ".kranz"
    ends: dict[str, list[float]] = {}
    disk_used: dict[str, Mapping[str, float | str]] = {}
    with checkouts.daemon(repo, here / "daemon.log") as process:
        for end in (FIRST, LAST):
            ends[end] = [_dispatched(repo, job) for _ in range(samples)]
            resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            disk_used[end] = {**used(kranz), "MiB of the daemon": resident / 2**20}
            if end == FIRST:
                _through(repo, many - samples)
    job.close()
    return _table(f"{many:,} missions through one checkout", MISSIONS, ends, disk_used)


def _dispatched(repo: Checkout, job: Job) -> float:
    time.sleep(PAUSE_S)
    began = checkouts.enqueued(repo, job.argv)
    taken = (job.heard_ns() - began) / 1e6
    checkouts.wait_for(lambda: checkouts.settled(repo), "the mission is settled")
    return taken


def _through(repo: Checkout, many: int) -> None:
    """So many missions that end at once, some at a time."""
    while many > 0:
        part = min(AT_ONCE, many)
        for _ in range(part):
            queue.enqueue(repo, checkouts.mission(("true",)))
        checkouts.wait_for(lambda: checkouts.settled(repo), f"{part} missions are settled", seconds=300)
        many -= part


def _items(here: Path, asked: Asked) -> Table:
    many, samples = asked.so_many(2_000, 1_000_000), asked.so_many(20, 500)
    folder = here / "items"
    folder.mkdir()
    ends: dict[str, list[float]] = {}
    disk_used: dict[str, Mapping[str, float | str]] = {}
    with work.open(f"sqlite://{folder}/work.db") as store:
        for end in (FIRST, LAST):
            store.enqueue_many([new_item()] * samples)
            ends[end] = [timed_ms(_one_of(store)) for _ in range(samples)]
            disk_used[end] = used(folder)
            if end == FIRST:
                _worked_off(store, many)
        pruned = store.prune(0)
        disk_used[f"after {pruned:,} that ended were pruned"] = used(folder)
    return _table(f"{many:,} items through one database, SQLite", ITEMS, ends, disk_used)


def _one_of(store: work.SharedStore) -> Callable[[], None]:
    return lambda: store.finish(claimed(store))


def _worked_off(store: work.SharedStore, many: int) -> None:
    while many > 0:
        part = min(BATCH, many)
        store.enqueue_many([new_item()] * part)
        while claims := store.claim_many(HOLDER, limit=CLAIMED, lease_ms=LEASE_MS):
            store.finish_many([work.Finish(one) for one in claims])
        many -= part


def _table(
    title: str, how: str, ends: Mapping[str, list[float]], disk_used: Mapping[str, Mapping[str, float | str]]
) -> Table:
    first = _spans(ends[FIRST])
    rows = [figures.row_of(name, "ours", _spans(found), first, more=disk_used[name]) for name, found in ends.items()]
    rows += [Row(name, "ours", more=more) for name, more in disk_used.items() if name not in ends]
    return Table(title, "ms", how, rows, FIRST)


def _spans(found: list[float]) -> list[list[float]]:
    size = max(1, len(found) // SPANS)
    return [found[at : at + size] for at in range(0, len(found), size)]


def _target(table: Table, what: str) -> Target:
    row = table.row(LAST)
    return figures.target(f"{what}: latency at the end", row.ratio, 1.5, 3, against=FIRST)


def used(folder: Path) -> dict[str, float | str]:
    """MiB that a folder takes on the disk, and files in it."""
    sizes = list(_sizes(folder))
    return {"MiB on disk": sum(sizes) / 2**20, "files": len(sizes)}


def _sizes(folder: Path) -> Iterator[int]:
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(where, name)).st_blocks * 512
            except FileNotFoundError:  # a daemon is at work there
                continue
