"""A long-lived sweeper: on its timer, with grace after a sleep, on clocks that a test moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

import kranzq.work
from kranzq.backend import Wanted
from kranzq.backend.items import WorkStore
from kranzq.config import Config
from kranzq.errors import StoreUnreachable
from kranzq.events import Event, ItemsPruned, Warned, subscribe
from kranzq.leases.asleep import SLACK_S
from kranzq.leases.sweeper import GRACE_S, PRUNE_EVERY_S, Sweeper
from kranzq.model.claim import Holder
from kranzq.model.work import ItemState, NewItem, Recovered
from kranzq.wiring import working
from tests.item_stores import SqliteItems
from tests.scenes import passes

PERIOD_S = 15.0


@dataclass
class Clocks:
    """The monotonic clock of the process and the clock of the store, moved together or apart."""

    mine: float = 1000.0
    theirs: float = 7.0

    def pass_by(self, seconds: float, *, asleep: float = 0.0) -> None:
        """Let time pass: `asleep` more of it for the store alone."""
        self.mine += seconds
        self.theirs += seconds + asleep


@dataclass
class Store:
    """Notes in which order it was called; fails while it is `away`."""

    calls: list[str] = field(default_factory=list)
    away: bool = False

    def grant_grace(self, seconds: float) -> None:
        """Note it."""
        self._call(f"grace {seconds:g}")

    def sweep(self) -> Recovered:
        """Note it."""
        self._call("sweep")
        return Recovered(opened=1)

    def prune(self, older_than_s: float) -> int:
        """Note it."""
        self._call(f"prune {older_than_s:g}")
        return 2

    def _call(self, what: str) -> None:
        if self.away:
            raise StoreUnreachable("the database", "it does not answer")
        self.calls.append(what)


def make(store: Store, clocks: Clocks, retention_s: float | None = None) -> Sweeper:
    """A sweeper on these clocks."""
    return Sweeper(
        cast("WorkStore", store),
        period_s=PERIOD_S,
        retention_s=retention_s,
        monotonic=lambda: clocks.mine,
        store_clock=lambda: clocks.theirs,
    )


def test_it_sweeps_once_a_period() -> None:
    """At its start and then on the timer; between, asking costs nothing."""
    store, clocks = Store(), Clocks()
    sweeper = make(store, clocks)

    assert sweeper.sweep_if_due() == Recovered(opened=1)
    assert sweeper.sweep_if_due() is None
    assert sweeper.due_in() == PERIOD_S
    clocks.pass_by(PERIOD_S)
    assert sweeper.sweep_if_due() is not None
    assert store.calls == ["sweep", "sweep"]


@pytest.mark.parametrize(
    ("seconds", "asleep"),
    [(PERIOD_S + SLACK_S + 1, 0.0), (3600.0, 0.0), (PERIOD_S, SLACK_S + 1), (PERIOD_S, 3600.0)],
)
def test_b70_after_a_sleep_holders_get_one_round_to_renew(seconds: float, asleep: float) -> None:
    """Stopped as a process, or suspended with the host: grace comes first, once, and then the sweep as ever."""
    store, clocks = Store(), Clocks()
    sweeper = make(store, clocks)
    sweeper.sweep_if_due()
    clocks.pass_by(seconds, asleep=asleep)

    sweeper.sweep_if_due()
    assert store.calls == ["sweep", f"grace {GRACE_S:g}", "sweep"]
    clocks.pass_by(PERIOD_S)
    sweeper.sweep_if_due()
    assert store.calls[3:] == ["sweep"]


@pytest.mark.parametrize(("seconds", "asleep"), [(PERIOD_S + SLACK_S, 0.0), (PERIOD_S, SLACK_S), (PERIOD_S, -50.0)])
def test_a_busy_machine_is_no_sleep(seconds: float, asleep: float) -> None:
    """A little late, a clock that drifts or is set back: no grace, for dead holders would live on it."""
    store, clocks = Store(), Clocks()
    sweeper = make(store, clocks)
    sweeper.sweep_if_due()
    clocks.pass_by(seconds, asleep=asleep)

    sweeper.sweep_if_due()
    assert store.calls == ["sweep", "sweep"]


def test_b70_on_a_real_store_the_living_renew_and_the_dead_lapse_after_the_grace(tmp_path: Path) -> None:
    """The host sleeps for ten minutes, over two leases: nobody lapses before the living have renewed."""
    items = SqliteItems(tmp_path / "work.db")
    store = items.open()
    for name in ("living", "dead"):
        store.enqueue(NewItem("title", "payload", id=name))
    living, dead = (
        store.claim(Holder(name), Wanted(frozenset({name})), lease_ms=60_000) for name in ("living", "dead")
    )
    assert living is not None
    assert dead is not None
    clocks = Clocks()
    sweeper = Sweeper(store, period_s=PERIOD_S, monotonic=lambda: clocks.mine, store_clock=items.clock.monotonic)
    sweeper.sweep_if_due()
    items.clock.advance(600)
    clocks.mine += PERIOD_S

    assert not sweeper.sweep_if_due()
    assert store.claim(Holder("another")) is None, "a claimer that wakes first waits, too"
    store.heartbeat(living, 3_600_000)
    for _ in range(5):
        items.clock.advance(PERIOD_S)
        clocks.mine += PERIOD_S
        sweeper.sweep_if_due()
    assert (store.show("living").state, store.show("dead").state) == (ItemState.CLAIMED, ItemState.LAPSED)
    items.close()


def test_the_settings_make_one(isolated: Path) -> None:
    """A daemon or server gets it ready made: on the store's own clock, with the retention of the settings."""
    settings = Config.load({"HOME": str(isolated), "KRANZQ_WORK_SWEEP_SECONDS": "0.01"}).work
    with kranzq.work.open() as store:
        store.enqueue(NewItem("title", "payload", id="one"))
        store.claim(Holder("me"), lease_ms=1)
        sweeper = working.sweeper(store, settings)
        passes(0.01)
        done = sweeper.sweep_if_due()  # the first one: for a later one that is held up nobody lapses, as after a sleep

        assert done is not None
        assert done.lapsed == ("one",)
        assert sweeper.due_in() <= 0.01


def test_a_store_that_was_away_is_like_a_sleep() -> None:
    """It is said once; nobody could renew meanwhile, so there is grace when it is back."""
    heard: list[Event] = []
    forget = subscribe(heard.append)
    store, clocks = Store(), Clocks()
    sweeper = make(store, clocks)
    sweeper.sweep_if_due()
    store.away = True
    for _ in range(3):
        clocks.pass_by(PERIOD_S)
        assert sweeper.sweep_if_due() is None
    store.away = False
    clocks.pass_by(PERIOD_S)
    sweeper.sweep_if_due()
    forget()

    assert [type(one) for one in heard] == [Warned]
    assert store.calls == ["sweep", f"grace {GRACE_S:g}", "sweep"]


def test_old_items_go_once_an_hour() -> None:
    """Retention costs a look an hour, not one a sweep."""
    heard: list[Event] = []
    forget = subscribe(heard.append)
    store, clocks = Store(), Clocks()
    sweeper = make(store, clocks, retention_s=100.0)
    for _ in range(3):
        sweeper.sweep_if_due()
        clocks.pass_by(PERIOD_S)
    clocks.pass_by(PRUNE_EVERY_S)
    sweeper.sweep_if_due()
    forget()

    assert store.calls.count("prune 100") == 2
    assert heard == [ItemsPruned(2), ItemsPruned(2)]
