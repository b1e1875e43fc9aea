"""Cases of queues that went wrong elsewhere, each on both engines under its number."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from kranzq import work
from kranzq.backend.items import WorkStore
from kranzq.backends.sql.opening import open_database, open_store
from kranzq.backends.sql.schema import newest
from kranzq.backends.sql.sqlite import SqliteDatabase
from kranzq.backends.sql.statements import migrations
from kranzq.errors import ClaimLost, ItemLost, KranzqError, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import Held, ItemState
from kranzq.testing.items import OTHER, ItemStore, given, item
from kranzq.testing.leases import HOLDERS_CALLS
from kranzq.testing.store import HOLDER, together
from tests.item_stores import SqliteItems, settle
from tests.laboratory import PATIENCE, REPO, wait_for

FIRST_VERBS: dict[str, Callable[[WorkStore], object]] = {
    "enqueue": lambda store: store.enqueue(item()),
    "claim": lambda store: store.claim(HOLDER),
    "claim by request": lambda store: store.claim(HOLDER, request_id="r"),
    "page": lambda store: store.page(),
    "stats": lambda store: store.stats(),
    "unseen": lambda store: store.unseen(),
    "sweep": lambda store: store.sweep(),
    "prune": lambda store: store.prune(1),
    "entries": lambda store: store.entries(ItemState.DELAYED),
    "grant_grace": lambda store: store.grant_grace(1),
}


def first_step_only(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database as the first release left it."""
    with monkeypatch.context() as patched:
        patched.setattr("kranzq.backends.sql.sqlite.migrations", lambda dialect: migrations(dialect)[:1])
        SqliteDatabase(str(path)).migrate("the first release")


@pytest.mark.parametrize("verb", FIRST_VERBS)
@pytest.mark.parametrize("before", ["nothing", "the first release"])
def test_b64_whatever_is_called_first_finds_its_schema(
    verb: str, before: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a new database and on one of the first release, every verb works as the first one."""
    path = tmp_path / "work.db"
    if before == "the first release":
        first_step_only(path, monkeypatch)
    with work.open(f"sqlite:///{path}") as store:
        FIRST_VERBS[verb](store)

    assert SqliteDatabase(str(path)).schema().version == newest()


OPENED = """
import sys
from kranzq import work
from kranzq.work import NewItem
print("ready", flush=True)
sys.stdin.readline()
with work.open(sys.argv[1]) as store:
    store.enqueue(NewItem("a", "b", id=sys.argv[2]))
"""


@pytest.mark.race
@pytest.mark.parametrize("kind", ["new", "old", "postgres"])
def test_b64_programs_that_start_at_once_migrate_once(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Each waits for the one that takes the steps, and all of them can work then."""
    url = f"sqlite:///{tmp_path}/work.db"
    if kind == "old":
        first_step_only(tmp_path / "work.db", monkeypatch)
    elif kind == "postgres":
        url = request.getfixturevalue("bare_postgres_url")
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", OPENED, url, f"w-{number}"],
            cwd=REPO,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for one in programs:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in programs:
        one.communicate("go\n", timeout=50)
    with open_store(url) as store:
        kept = sorted(entry.id for entry in store.entries())

    assert [one.returncode for one in programs] == [0] * 4
    assert kept == [f"w-{number}" for number in range(4)]
    with contextlib.closing(open_database(url)) as database:
        assert database.schema().version == newest()


@pytest.mark.parametrize("how", ["renewed", "silent"])
def test_b66_a_long_job_is_started_once_as_long_as_it_is_renewed(engine: ItemStore, how: str) -> None:
    """With heartbeats, one of which fails, there is one start; without, the second comes after the lease, fenced."""
    store = engine.open()
    store.enqueue(item("w-1"))
    first, others = given(store.claim(HOLDER, lease_ms=50_000)), []
    for second in range(0, 600, 20):
        engine.pass_time(20)
        others += [claim] if (claim := store.claim(OTHER, lease_ms=3_600_000)) is not None else []
        if how == "renewed" and second != 300:
            store.heartbeat(first, 50_000)

    assert [claim.attempt for claim in others] == ([] if how == "renewed" else [2])
    if how == "renewed":
        store.finish(first)
    else:
        with pytest.raises(ItemLost, match="not yours any more"):
            store.finish(first)


@pytest.mark.parametrize("attempt", ["1", 1.0, -1, None, True, 2**31, 2**63, 10**30, math.nan, "", "2"])
def test_b68_an_attempt_that_is_no_such_number_is_none(engine: ItemStore, attempt: Any) -> None:
    """Nothing that merely looks like the number is believed, and no field changes."""
    store = engine.open()
    store.enqueue(item("w-1"))
    given(store.claim(HOLDER))
    before, history = store.show("w-1"), store.attempts("w-1")

    for call in HOLDERS_CALLS:
        with pytest.raises((UsageFault, ClaimLost)):
            call(store, Held("w-1", attempt, HOLDER))
    assert (store.show("w-1"), store.attempts("w-1")) == (before, history)


def test_b68_a_name_that_comes_back_is_not_its_old_attempt(engine: ItemStore) -> None:
    """After a, b, a only the last claim counts, whoever it was; the fences differ although the names do not."""
    store, ann, bob = engine.open(), Holder("ann"), Holder("bob")
    store.enqueue(item("w-1", max_attempts=9))
    claims = []
    for holder in (ann, bob, ann):
        claims.append(given(store.claim(holder)))
        engine.pass_time(3600)
    store.sweep()

    for stale in claims[:2]:
        for call in HOLDERS_CALLS:
            with pytest.raises(ItemLost):
                call(store, stale)
    assert len({claim.attempt for claim in claims}) == 3
    store.finish(claims[2])


def test_b70_a_step_of_the_wall_clock_moves_no_lease(sqlite_items: SqliteItems) -> None:
    """A15: on one host leases count on the clock that nobody sets; an hour forth or a year back changes nothing."""
    store = sqlite_items.open()
    store.enqueue_many([item("w-1"), item("w-2")])
    claim = given(store.claim(HOLDER))
    for seconds in (3600, -31_536_000, 86_400):
        sqlite_items.clock.step(seconds)
        assert not store.sweep()
    sqlite_items.pass_time(119)
    assert not store.sweep()
    sqlite_items.pass_time(2)
    assert store.sweep().lapsed == (claim.id,)


def test_b70_another_boot_is_the_end_of_every_lease(sqlite_items: SqliteItems) -> None:
    """A holder of before the restart is gone, whatever the new boot's clock says; grace of before is forgotten."""
    store = sqlite_items.open()
    store.enqueue_many([item("w-1"), item("w-2")])
    claims = store.claim_many(HOLDER, limit=2, lease_ms=3_600_000)
    store.grant_grace(3600)
    sqlite_items.boot = "the next boot"
    found = store.claim_many(OTHER, limit=9)

    assert [(one.id, one.attempt) for one in found] == [("w-1", 2), ("w-2", 2)]
    for claim in claims:
        with pytest.raises(ItemLost):
            store.finish(claim)


def test_b70_after_a_sleep_of_all_holders_renew_before_anything_lapses(engine: ItemStore) -> None:
    """Three leases passed for everybody: with one round of grace no healthy work is given away."""
    store = engine.open()
    store.enqueue_many([item(f"w-{number}") for number in range(3)])
    claims = store.claim_many(HOLDER, limit=3)
    engine.pass_time(360)
    store.grant_grace(40)
    assert store.claim(OTHER) is None
    engine.pass_time(20)
    for claim in claims[:2]:
        store.heartbeat(claim)
    engine.pass_time(21)

    assert [claim.id for claim in store.claim_many(OTHER, limit=9)] == ["w-2"]


KILLED = """
import os, signal, sys
from kranzq import work
from kranzq.work import Holder
with work.open(sys.argv[1]) as store:
    claim = store.claim(Holder("ann"), lease_ms=1)
    if claim is None:
        sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.crash
def test_b72_what_kills_its_worker_is_given_three_times(tmp_path: Path) -> None:
    """Counted when it is claimed: after the third worker died the item has failed, is seen and given to nobody."""
    url = f"sqlite:///{tmp_path}/work.db"
    with open_store(url) as store:
        store.enqueue(item("w-1"))
        codes = []
        for _ in range(4):
            codes.append(subprocess.run([sys.executable, "-c", KILLED, url], cwd=REPO, check=False).returncode)
            store.sweep()
        shown = store.show("w-1")

        assert codes == [-9, -9, -9, 3]
        assert (shown.state, shown.attempts, shown.result) == (ItemState.FAILED, 3, "the last lease ran out")
        assert [one.id for one in store.entries(ItemState.FAILED)] == ["w-1"]


@pytest.mark.parametrize("limit", [0, -1, 1_000_001, 2**63, 1.5, "3", True, None, math.nan])
def test_b72_an_odd_limit_is_refused(limit: Any) -> None:
    """Before anything is kept, and by the name of its field."""
    with pytest.raises(UsageFault, match="max_attempts"):
        item(max_attempts=limit)


def test_b72_one_attempt_is_one(engine: ItemStore) -> None:
    """By lapse and by release; whoever asks after it sees how often it was tried."""
    store = engine.open()
    store.enqueue_many([item("w-1", max_attempts=1), item("w-2", max_attempts=1)])
    first, second = store.claim_many(HOLDER, limit=2)
    assert store.release(second) is ItemState.FAILED
    engine.pass_time(3600)

    assert store.claim(HOLDER) is None
    assert [(one.id, one.attempts) for one in store.entries(ItemState.FAILED)] != []
    assert store.show(first.id).state is ItemState.FAILED


def refusals(acts: list[Callable[[], object]]) -> list[KranzqError]:
    """Run all of them in the same instant; what was refused."""
    refused: list[KranzqError] = []

    def run(index: int) -> None:
        try:
            acts[index]()
        except KranzqError as fault:
            refused.append(fault)

    together(len(acts), run)
    return refused


ROUNDS = int(os.environ.get("KRANZQ_RACE_ROUNDS", "60"))


@pytest.mark.race
@pytest.mark.timeout(max(120, ROUNDS / 5))
def test_b74_an_end_and_a_lapse_at_the_same_instant_are_one(engine: ItemStore) -> None:
    """Finish, sweep and another's claim race when the lease is just over: one of them wins, and the item says so."""
    store, chance = engine.open(), random.Random(3)
    ends: set[str] = set()
    for number in range(ROUNDS):
        name = f"w-{number}"
        store.enqueue(item(name, max_attempts=chance.choice([1, 3])))
        claim = given(store.claim(HOLDER, lease_ms=1000))
        engine.pass_time(1.001)
        acts: list[Callable[[], object]] = [
            functools.partial(store.finish, claim, Outcome.SUCCEEDED, "the result"),
            store.sweep,
            functools.partial(store.claim, OTHER),
        ]
        chance.shuffle(acts)
        refused = refusals(acts)
        shown = store.show(name)
        ends.add(shown.state.value)
        if refused:
            assert [type(fault) for fault in refused] == [ItemLost]
            assert shown.state in {ItemState.FAILED, ItemState.CLAIMED, ItemState.LAPSED}
            assert shown.result != "the result"
        else:
            assert (shown.state, shown.result) == (ItemState.DONE, "the result")
        store.sweep()
        assert store.show(name).state is shown.state
        if not shown.state.is_terminal:
            store.cancel(name)
        if number % 50 == 49:
            store.prune(-1)

    assert "done" in ends


def test_b75_a_waiter_that_was_cut_off_is_woken_again(postgres_url: str) -> None:
    """Each time that the server ends all connections, the next item is heard of and found, without spin or new ones."""
    cut = (
        "select pg_terminate_backend(pid, 30000) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    counts, began = [], time.process_time()
    with (
        open_store(postgres_url) as there,
        open_store(postgres_url) as here,
        psycopg.connect(postgres_url, autocommit=True) as admin,
    ):
        for _ in range(4):
            settled, found = threading.Event(), list[object]()

            def wait(settled: threading.Event = settled, found: list[object] = found) -> None:
                settle(there)
                settled.set()
                found.append(
                    wait_for(lambda: there.wait_for_work(PATIENCE) and there.claim(HOLDER), "it is heard of, and there")
                )

            waiter = threading.Thread(target=wait, daemon=True)
            waiter.start()
            assert settled.wait(PATIENCE)
            admin.execute(cut)
            here.enqueue(item())
            waiter.join(PATIENCE)
            assert len(found) == 1
            row = admin.execute(
                "select count(*) from pg_stat_activity"
                " where datname = current_database() and backend_type = 'client backend'"
            ).fetchone()
            counts.append(row[0] if row is not None else 0)

    assert max(counts) <= counts[0] + 1
    assert time.process_time() - began < 5


@pytest.mark.parametrize("when", [1_800_000_000, 99_999_999_999, -1, 2**63, 1e12, "1800000000000", math.nan, True])
def test_b77_a_time_that_cannot_be_milliseconds_is_refused(when: Any) -> None:
    """Seconds for milliseconds, text, fractions and what lies outside of any calendar, by the name of the field."""
    with pytest.raises(UsageFault, match="not_before"):
        item(not_before=when)


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland", "Europe/Berlin"])
def test_b77_a_due_time_is_the_same_instant_in_every_zone(zone: str, tmp_path: Path) -> None:
    """The zone of whoever looks, or of the server, moves nothing."""
    url = f"sqlite:///{tmp_path}/work.db"
    program = (
        "import sys; from kranzq import work\n"
        "with work.open(sys.argv[1]) as store:\n"
        "    print(*(f'{one.id}={one.state.value}' for one in store.page().items))\n"
        "    print(store.sweep().opened)\n"
    )
    with open_store(url) as store:
        now = store.enqueue(item("w-1")).entry.created_at
        store.enqueue(item("w-2", not_before=now + 1_800_000))
        store.enqueue(item("w-3", not_before=now - 1_800_000))
        store.enqueue(item("w-4", not_before=0))
    env = os.environ | {"TZ": zone}
    done = subprocess.run(
        [sys.executable, "-c", program, url], cwd=REPO, env=env, check=True, capture_output=True, text=True
    )

    assert sorted(done.stdout.split()) == ["0", "w-1=open", "w-2=delayed", "w-3=open", "w-4=open"]
