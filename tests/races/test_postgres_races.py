"""Several programs at one moment on a real PostgreSQL: what the second one sees, waits for, and is told."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
import pytest

from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.database import Transaction
from kranzq.backends.sql.opening import open_store
from kranzq.backends.sql.statements import statements
from kranzq.errors import ItemLost
from kranzq.model.claim import Holder
from kranzq.model.work import Finish, ItemClaim
from kranzq.testing.items import given, item
from kranzq.testing.store import HOLDER, together
from tests.laboratory import wait_for

pytestmark = pytest.mark.race


@pytest.fixture
def stores(postgres_url: str) -> Iterator[list[SqlBackend]]:
    """The same queue as eight programs have it, each with connections of its own."""
    found = [open_store(postgres_url) for _ in range(8)]
    yield found
    for one in found:
        one.close()


def test_one_request_that_is_sent_many_times_at_once_gets_one_item(stores: list[SqlBackend]) -> None:
    """A caller that was too impatient holds one item, not eight."""
    for number in range(10):
        stores[0].enqueue_many([item() for _ in range(8)])
        with ThreadPoolExecutor(8) as pool:
            told = list(pool.map(lambda store, request=f"r-{number}": claimed(store, request), stores))

        assert len({(one.id, one.attempt) for one in told}) == 1
        assert len(told) == 8


def claimed(store: SqlBackend, request: str) -> ItemClaim:
    """What the request gets."""
    return given(store.claim(HOLDER, request_id=request))


def test_a_cancel_in_the_moment_of_a_claim_reaches_the_holder(stores: list[SqlBackend]) -> None:
    """Whichever comes first: a holder whose item was cancelled reads that at its next call, with the reason."""
    taken = 0
    with ThreadPoolExecutor(2) as pool:
        for number in range(150):
            stores[0].enqueue(item(f"w-{number}"))
            claim = pool.submit(stores[1].claim, HOLDER)
            assert pool.submit(stores[2].cancel, f"w-{number}", "enough").result()
            held = claim.result()
            if held is not None:
                taken += 1
                with pytest.raises(ItemLost) as raised:
                    stores[1].finish(held)
                assert raised.value.cancelled == "enough"
                assert [one.ended for one in stores[3].attempts(held.id)] == ["cancelled"]

    assert taken, "never was a claim first: the race was not run"


def test_a_heartbeat_that_waits_for_a_lapse_holds(stores: list[SqlBackend], postgres_url: str) -> None:
    """The holder that is late by nothing goes on, and its history says nothing of a lapse."""
    stores[0].enqueue(item("w-1"))
    held = given(stores[0].claim(HOLDER, lease_ms=1))
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(postgres_url, cursor_factory=psycopg.ClientCursor) as sweeper:
            lapse = statements("postgres")["lapse"][0].encode()
            wait_for(lambda: sweeper.execute(lapse, {"most": 9}).fetchone(), "the lease is over")
            call = pool.submit(stores[1].heartbeat, held)
            wait_for(lambda: waits(postgres_url), "the heartbeat waits for the row")
            sweeper.commit()
        renewed = call.result(20)

    assert renewed.item.state.value == "claimed"
    assert [(one.ended, one.why) for one in stores[2].attempts("w-1")] == [(None, "")]


def waits(url: str) -> int | None:
    """A process of the server that waits for a lock in this database."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        ).fetchone()
    return found[0] if found is not None else None


def test_an_end_in_the_moment_of_a_lapse_is_an_end(stores: list[SqlBackend]) -> None:
    """Whichever comes first, the item is done, and its one attempt is."""
    stores[0].enqueue_many([item(f"w-{number}", max_attempts=2) for number in range(60)])
    held = stores[0].claim_many(HOLDER, limit=60, lease_ms=1)

    def act(place: int) -> None:
        if place == 0:
            stores[0].finish_many([Finish(one) for one in held[:30]])
        elif place == 1:
            for one in held[30:]:
                stores[1].finish(one)
        else:
            stores[place].sweep()

    together(4, act)

    assert stores[0].stats().by_state["done"] == 60
    assert {one.ended for each in held for one in stores[0].attempts(each.id)} == {"done"}


def test_transactions_that_wait_for_each_other_are_run_again(stores: list[SqlBackend]) -> None:
    """A deadlock is undone by the server, and the one that was undone succeeds at the next try."""
    stores[0].enqueue_many([item("w-1"), item("w-2")])
    both, runs = threading.Barrier(2), list[str]()

    def act(transaction: Transaction, names: Sequence[str]) -> None:
        runs.append(names[0])
        for name in names:
            transaction.run("cancel", id=name, why="")
            if len(runs) <= 2 and name == names[0]:
                both.wait(20)

    with ThreadPoolExecutor(2) as pool:
        orders = (("w-1", "w-2"), ("w-2", "w-1"))
        calls = [pool.submit(stores[0].database.write, partial(act, names=names)) for names in orders]
        for call in calls:
            call.result(20)

    assert len(runs) == 3
    assert [stores[1].show(name).state.value for name in ("w-1", "w-2")] == ["cancelled"] * 2


def test_a_call_whose_connection_is_ended_while_it_waits_is_made_again(
    stores: list[SqlBackend], postgres_url: str
) -> None:
    """An administrator ends a session that waits for a row: its call goes on in another one."""
    stores[0].enqueue(item("w-1"))
    held = given(stores[0].claim(HOLDER))
    with ThreadPoolExecutor(1) as pool, psycopg.connect(postgres_url, autocommit=True) as administrator:
        with psycopg.connect(postgres_url) as other:
            other.execute("select 1 from kranzq_items for update")
            call = pool.submit(stores[0].finish, held)
            first = wait_for(lambda: waits(postgres_url), "the call waits for the row")
            administrator.execute("select pg_terminate_backend(%s)", (first,))
            wait_for(lambda: waits(postgres_url) not in {None, first}, "it waits again")
        call.result(20)

    assert stores[1].show("w-1").state.value == "done"


def test_many_programs_drain_three_targets_without_a_clash(stores: list[SqlBackend]) -> None:
    """Eight claimers of three overlapping targets: each item once, in few empty answers, until nothing is left."""
    stores[0].enqueue_many([item(**({}, {"agent": "ann"}, {"uid": "u-1"})[number % 3]) for number in range(600)])
    told: list[str] = []
    empty: list[int] = []

    def drain(place: int) -> None:
        while stores[0].entries(limit=1):
            held = stores[place].claim(Holder("ann", uid="u-1"))
            if held is None:
                empty.append(place)
                continue
            told.append(held.id)
            stores[place].finish(held)

    together(8, drain)

    assert len(told) == len(set(told)) == 600
    assert stores[0].stats().by_state["done"] == 600
    assert len(empty) <= 8 + 600 // 10
