"""What items have become is seen by another who looks at the same store, on every engine."""

from __future__ import annotations

import psycopg
import pytest

from kranzq.backend.watching import Seen
from kranzq.backends.sql import watching
from kranzq.backends.sql.watching import ItemWatch, SqlLooks
from kranzq.model.work import Held
from kranzq.testing.items import OTHER, given, item
from kranzq.testing.store import HOLDER
from tests.item_stores import PostgresItems, SqliteItems

Stores = SqliteItems | PostgresItems


def states(seen: Seen) -> list[tuple[object, object]]:
    """Which items were seen, and in which state."""
    assert not seen.lost, seen.lost
    return sorted((one["id"], one["state"]) for one in seen.changes)


def watch_of(engine: Stores) -> ItemWatch:
    """A watch whose clock is that of the store, where that one only moves when it is told to."""
    database = engine.open().database
    if isinstance(engine, PostgresItems):
        return ItemWatch(database)
    return ItemWatch(database, boot_ms=lambda: round(engine.clock.monotonic() * 1000))


@pytest.fixture
def watch(engine: Stores) -> ItemWatch:
    """A watch that has looked once, through connections of its own."""
    found = watch_of(engine)
    assert found.look() == Seen()
    return found


def test_each_state_that_an_item_comes_to_is_seen(engine: Stores, watch: ItemWatch) -> None:
    """Whoever changes it: enqueued, claimed, given back, lapsed, taken up again, ended; and nothing twice."""
    store = engine.open()
    told: list[tuple[object, object]] = []

    def look() -> None:
        told.extend(states(watch.look()))
        assert states(watch.look()) == []

    store.enqueue(item("one"))
    look()
    first = given(store.claim(HOLDER))
    look()
    store.release(Held("one", first.attempt, HOLDER))
    look()
    second = given(store.claim(HOLDER))
    look()
    engine.pass_time(121)
    watch.look()  # time passed for the rows, too, on an engine whose clock stands still
    store.sweep()
    look()
    store.heartbeat(Held("one", second.attempt, HOLDER))
    look()
    store.finish(Held("one", second.attempt, HOLDER))
    look()

    assert told == [("one", state) for state in ("open", "claimed", "open", "claimed", "lapsed", "claimed", "done")]


def test_of_several_changes_between_two_looks_the_last_counts(engine: Stores, watch: ItemWatch) -> None:
    """However long nobody looked: what things have become is told once, and what did not change is not."""
    store = engine.open()
    store.enqueue_many([item(f"item-{number}") for number in range(5)])
    watch.look()
    claim = given(store.claim(HOLDER))
    store.finish(Held(claim.id, claim.attempt, HOLDER))
    store.cancel("item-3")

    told = states(watch.look())

    assert [one for one in told if one[1] != "open"] == [("item-0", "done"), ("item-3", "cancelled")]


def test_what_is_told_has_no_payload(engine: Stores, watch: ItemWatch) -> None:
    """A payload may have a megabyte, and a stream has many readers."""
    engine.open().enqueue(item("one", payload="x" * 100_000))

    (told,) = watch.look().changes

    assert "payload" not in told
    assert "result" not in told
    assert told["title"] == "a title"


def test_a_renewed_lease_is_no_change(engine: Stores, watch: ItemWatch) -> None:
    """Holders renew all the time."""
    store = engine.open()
    store.enqueue(item("one"))
    claim = given(store.claim(OTHER))
    watch.look()

    store.heartbeat(Held("one", claim.attempt, OTHER))

    assert watch.look() == Seen()


def test_too_much_at_once_is_told_as_lost(engine: Stores, watch: ItemWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look reads so many rows at most; afterwards it goes on."""
    monkeypatch.setattr(watching, "_MOST", 10)
    store = engine.open()
    store.enqueue_many([item() for _ in range(11)])

    assert "more than 10" in watch.look().lost

    monkeypatch.undo()
    watch.look()
    store.enqueue(item("after"))
    assert states(watch.look()) == [("after", "open")]


def test_a_clock_that_is_set_back_is_told_as_lost(sqlite_items: SqliteItems) -> None:
    """New changes look older than those that were seen; from there on nothing is missed."""
    watch = watch_of(sqlite_items)
    store = sqlite_items.open()
    watch.look()
    store.enqueue(item("before"))
    assert states(watch.look()) == [("before", "open")]

    sqlite_items.clock.step(-3600)
    store.enqueue(item("after"))

    assert watch.look() == Seen(lost="the clock was set back")
    store.cancel("before")
    assert states(watch.look()) == [("before", "cancelled")]


def test_a_small_correction_of_the_clock_hides_nothing(sqlite_items: SqliteItems) -> None:
    """Clocks are moved by fractions of a second all the time."""
    watch = watch_of(sqlite_items)
    store = sqlite_items.open()
    watch.look()
    store.enqueue(item("before"))
    watch.look()

    sqlite_items.clock.step(-0.4)
    store.enqueue(item("after"))

    assert states(watch.look()) == [("after", "open")]


def test_transactions_that_commit_out_of_order_are_all_seen(postgres_items: PostgresItems) -> None:
    """One that began seconds before the others, and commits after them, shows rows that look old by then."""
    watch = ItemWatch(postgres_items.open().database)
    watch.look()
    with psycopg.connect(postgres_items.url) as slow:
        slow.execute(
            "insert into kranzq_items (id, title, kind, target, target_agent, target_agent_uid, target_group, priority,"
            " state, max_attempts, created_by, created_by_uid, created_at, updated_at, digest) values ('slow', 't', '',"
            " '*', '', '', '', 0, 'open', 1, '', '', kranzq_now(), kranzq_now() - 8000, '')"
        )
        slow.execute("insert into kranzq_payloads select seq, 'p' from kranzq_items where id = 'slow'")
        postgres_items.open().enqueue(item("quick"))
        assert states(watch.look()) == [("quick", "open")]
        slow.commit()

    assert states(watch.look()) == [("slow", "open")]


def test_a_look_is_cheap_beside_a_large_queue(postgres_items: PostgresItems) -> None:
    """The index of newest changes finds what changed, whatever there is beside it."""
    with psycopg.connect(postgres_items.url, autocommit=True) as connection:
        connection.execute(
            "insert into kranzq_items (id, title, kind, target, target_agent, target_agent_uid, target_group, priority,"
            " state, max_attempts, created_by, created_by_uid, created_at, updated_at, digest)"
            " select 'old-' || n, 't', '', '*', '', '', '', 0, case n % 3 when 0 then 'open' else 'done' end, 1, '',"
            " '', 1000 + n, 1000 + n, '' from generate_series(1, 20000) n"
        )
        connection.execute("analyze kranzq_items")
        plan = connection.execute(
            "explain select seq, state, attempts, updated_at from kranzq_items where state in ('open', 'delayed',"
            " 'claimed', 'lapsed', 'done', 'failed', 'cancelled') and updated_at >= kranzq_now() - 12000"
            " and updated_at <= kranzq_now() + 12000 limit 20001"
        ).fetchall()

    assert any("kranzq_listed" in line for (line,) in plan), plan


def test_what_waits_is_counted_by_state_and_kind(engine: Stores) -> None:
    """What has ended is no depth."""
    store = engine.open()
    store.enqueue_many([item(kind="a"), item(kind="a"), item(kind="b"), item("over", kind="b")])
    store.cancel("over")

    found = SqlLooks(store.database).depths()

    assert sorted((one.state, one.kind, one.many) for one in found) == [("open", "a", 2), ("open", "b", 1)]
