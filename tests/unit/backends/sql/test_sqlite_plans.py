"""No statement of a claim's life costs more behind a backlog: by SQLite's plans, and by the steps that it makes."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kranzq.backends.sql.database import Transaction
from kranzq.backends.sql.sqlite import SqliteDatabase
from kranzq.backends.sql.statements import statements
from tests.item_stores import SqliteItems

COLUMNS = (
    "id, title, kind, target, target_agent, target_agent_uid, target_group, priority, state, max_attempts, created_by,"
    " created_by_uid, created_at, updated_at, not_before, digest, claimed_by, attempts, lease_boot, lease_ends"
)
FILL = f"""
insert into kranzq_items ({COLUMNS})
with recursive n(n) as (select 1 union all select n + 1 from n where n < :many)
select :state || :target || :priority || n, 't', 'k', :target, '', '', '', :priority, :state, 1000000, '', '', n, n,
    9000000000000, '', 'ann', 0, 'one boot', 9000000000000
from n
"""
TARGETS = ["*", "g:x", "n:ann"]
BACKLOGS: dict[str, list[tuple[str, str, int]]] = {
    "others' in front": [("open", "n:other", 5), ("lapsed", "g:others", 5)],
    "all mine": [("open", "n:ann", 0)],
    "much that ended": [("done", "n:ann", 5), ("failed", "*", 5), ("cancelled", "*", 5)],
    "much that is not due": [("delayed", "n:ann", 5)],
    "much that is claimed": [("claimed", "n:ann", 5)],
    "all for anybody": [("lapsed", "*", 0)],
}
PLANS: dict[str, str] = {
    "claim": "kranzq_ready",
    "claim_kind": "kranzq_ready_kind",
    "claim_named": "sqlite_autoindex_kranzq_items_1",
    "is_due": "kranzq_leases",
    "lapse": "kranzq_leases",
    "open_due": "kranzq_due",
    "newest": "kranzq_listed",
    "page_keys": "kranzq_listed",
    "changed": "kranzq_listed",
    "claimed_before": "kranzq_requests",
    "heartbeat": "sqlite_autoindex_kranzq_items_1",
    "finish": "sqlite_autoindex_kranzq_items_1",
    "release": "sqlite_autoindex_kranzq_items_1",
    "cancel": "sqlite_autoindex_kranzq_items_1",
    "enqueue": "",
    "prune": "kranzq_listed",
}


@pytest.fixture
def items(tmp_path: Path) -> Iterator[SqliteItems]:
    """An empty queue."""
    store = SqliteItems(tmp_path / "work.db")
    yield store
    store.close()


def fill(path: Path, backlog: list[tuple[str, str, int]], many: int) -> None:
    """So many items of each kind, and one that is ready for the claimer behind them all."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma synchronous=off")
        for state, target, priority in [*backlog, ("open", "n:ann", -1)]:
            number = 1 if priority < 0 else many
            connection.execute(FILL, {"many": number, "state": state, "target": target, "priority": priority})
        connection.execute("insert into kranzq_payloads select seq, 'p' from kranzq_items")
        connection.commit()


def values(**more: object) -> dict[str, object]:
    """Parameters for any of the statements."""
    names = (
        "boot now wall holder holder_uid lease request_id kind most id attempt state result why declined delay before"
        " before_seq title target target_agent target_agent_uid target_group priority max_attempts created_by"
        " created_by_uid not_before digest since span"
    )
    return (
        dict.fromkeys(names.split(), 0)
        | {"targets": json.dumps(TARGETS), "ids": '["x"]', "seqs": "[1]", "boot": "one boot"}
        | more
    )


@pytest.mark.parametrize("name", PLANS)
def test_each_statement_goes_by_its_index(items: SqliteItems, name: str) -> None:
    """No table of items is scanned, and where the index delivers the order nothing of the backlog is sorted."""
    with contextlib.closing(sqlite3.connect(items.path)) as connection:
        found = connection.execute("explain query plan " + statements("sqlite")[name][0], values()).fetchall()
    plan = [(parent, detail) for _, parent, _, detail in found]
    told = "\n".join(detail for _, detail in plan)

    assert PLANS[name] in told
    assert not any(
        detail.startswith("SCAN") and not detail.startswith(("SCAN t ", "SCAN n ")) and "kranzq_items" in detail
        for _, detail in plan
    ), told
    sorting = {parent for parent, detail in plan if "TEMP B-TREE" in detail}
    searching = {parent for parent, detail in plan if PLANS[name] and PLANS[name] in detail}
    if name != "claim_named":  # whoever names ids has as few as it named
        assert not sorting & searching, told


def steps(items: SqliteItems, act: Callable[[Transaction], object]) -> int:
    """How many instructions SQLite makes for an act, which is then undone."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    database = items.database()

    def counted(transaction: Transaction) -> None:
        connection = cast("Any", transaction)._connection
        connection.set_progress_handler(tick, 1)
        act(transaction)
        connection.set_progress_handler(None, 1)
        raise LookupError

    with pytest.raises(LookupError):
        database.write(counted)
    database.close()
    return count


ACTS: dict[str, Callable[[Transaction], object]] = {
    "claim": lambda transaction: transaction.all("claim", **values(holder="ann", lease=1)),
    "claim_kind": lambda transaction: transaction.all("claim_kind", **values(holder="ann", lease=1, kind="k")),
    "is_due": lambda transaction: transaction.all("is_due", **values()),
    "lapse": lambda transaction: transaction.all("lapse", **values(most=100)),
    "open_due": lambda transaction: transaction.all("open_due", **values(most=100)),
    "newest": lambda transaction: transaction.all("newest", **values(state="open", most=1)),
}


@pytest.mark.parametrize("backlog", BACKLOGS)
def test_the_steps_of_a_claim_do_not_grow_with_the_backlog(items: SqliteItems, tmp_path: Path, backlog: str) -> None:
    """A claim behind ten thousand of each makes as many steps as one behind ten."""
    many = SqliteItems(tmp_path / "many.db")
    fill(items.path, BACKLOGS[backlog], 10)
    fill(many.path, BACKLOGS[backlog], 10_000)

    for name, act in ACTS.items():
        few, more = steps(items, act), steps(many, act)
        assert more <= 1.2 * few + 20, f"{name}: {few} steps behind ten, {more} behind ten thousand"


def test_the_engine_is_what_was_measured(items: SqliteItems) -> None:
    """The statements run on a connection with full synchronisation and foreign keys."""
    database: SqliteDatabase = items.database()
    with contextlib.closing(database._connect()) as connection:
        told = {name: connection.execute(f"pragma {name}").fetchone()[0] for name in ("synchronous", "foreign_keys")}
        mode = connection.execute("pragma journal_mode").fetchone()[0]

    assert (told, mode) == ({"synchronous": 2, "foreign_keys": 1}, "wal")
