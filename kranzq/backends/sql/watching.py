"""What has become of items since the last look, found by the index of newest changes; and what there is, for metrics.

Two things must not hide a change. A transaction shows its rows when it commits, with the time at which it began: so
each look goes back far enough behind the last one, and what it knows already is no news. A clock that is set back lets
new rows look old: that is found out by comparing it with the boot clock, and told as lost.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from kranzq.backend.watching import Depth, Seen, Waits
from kranzq.backends.sql import rows
from kranzq.backends.sql.database import Database, Row, Transaction
from kranzq.backends.sql.sqlite import boot_now
from kranzq.model.work_json import told_json

SPAN_MS = 12_000
"""So long a transaction may take from its beginning to its commit: the patience of a call, and a little."""
SLACK_MS = 1_000
"""Behind the newest change on one host, where one transaction comes after the other: a clock may be corrected a bit."""
_STEP_MS = 500
_MOST = 20_000
"""More changes between two looks are not told one by one."""
_NEAR_S, _FAR_S = 0.05, 0.2

Key = tuple[str, int, int]
"""State, attempts and time of the newest change: two states of an item never have the same."""


class ItemWatch:
    """Satisfies `Watch` for the items of a database."""

    def __init__(self, database: Database, *, boot_ms: Callable[[], int] = lambda: boot_now()[1]) -> None:
        self._database, self._boot_ms = database, boot_ms
        self.pause_s = _NEAR_S if database.is_near else _FAR_S
        self._known: dict[int, Key] | None = None
        self._since, self._wall, self._looked = 0, 0, 0

    def look(self) -> Seen:
        """What items have become."""
        first, before = self._known is None, self._boot_ms()
        if first:
            self._since = self._database.wall_ms() - SPAN_MS
        wall, found, told = self._database.read(self._read)
        lost = self._why_lost(wall, before, len(found))
        if lost:  # what is told from now on is told from what there is now
            self._since = wall - SPAN_MS
            wall, found, _ = self._database.read(self._read)
        self._known = {row["seq"]: _key(row) for row in found}
        self._since = self._following(wall, [row["updated_at"] for row in found])
        self._wall, self._looked = wall, self._boot_ms()
        return Seen(lost=lost) if lost or first else Seen(tuple(told_json(rows.item(row)) for row in told))

    def _read(self, transaction: Transaction) -> tuple[int, list[Row], list[Row]]:
        asked = {"since": self._since, "span": SPAN_MS, "most": _MOST + 1}
        clock, found = transaction.several([("clock", {}), ("changed", asked)])
        known = self._known
        news = [row["seq"] for row in found if known is not None and known.get(row["seq"]) != _key(row)]
        told = transaction.all("changed_rows", seqs=json.dumps(news)) if len(news) > 0 and len(found) <= _MOST else []
        return clock[0]["wall"], found, told

    def _why_lost(self, wall: int, before: int, found: int) -> str:
        if self._known is not None and wall < self._wall + (before - self._looked) - _STEP_MS:
            return "the clock was set back"
        return f"more than {_MOST} items changed at once" if found > _MOST else ""

    def _following(self, wall: int, changed: list[int]) -> int:
        """From where on the next look reads."""
        if not self._database.is_near:
            return wall - SPAN_MS
        return max([self._since, *(min(one, wall) - SLACK_MS for one in changed)])


class SqlLooks:
    """Satisfies `StoreLooks`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def items(self) -> ItemWatch:
        """A new watch."""
        return ItemWatch(self._database)

    def depths(self) -> list[Depth]:
        """What waits or runs, by state and kind."""
        found = self._database.read(lambda transaction: transaction.all("depths"), single=True)
        return [Depth(row["state"], row["kind"], row["many"]) for row in found]

    def waits(self) -> Waits:
        """How callers of this process have waited."""
        return self._database.waits()


def _key(row: Row) -> Key:
    return row["state"], row["attempts"], row["updated_at"]
