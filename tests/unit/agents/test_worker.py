"""The agent's loop on a store and a runner that a test plays: what is asked again, when it waits, when it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from kranzq.agents import work
from kranzq.agents.item_run import ItemEnd, ItemRunner
from kranzq.agents.waiting import MOST_S, until_there_is_one
from kranzq.agents.work import Worker
from kranzq.backend import Wanted
from kranzq.errors import StoreUnreachable
from kranzq.leases.asleep import Asleep
from kranzq.leases.sweeper import GRACE_S
from kranzq.model.claim import Holder
from kranzq.model.work import ItemClaim

AWAY = StoreUnreachable("the database", "it does not answer")
ME = Holder("me")


def claim(name: str) -> ItemClaim:
    """A claim, whose item nobody looks at."""
    return ItemClaim(name, 1, ME, cast("Any", None))


@dataclass
class Store:
    """Answers claims one after the other; an exception is raised, None is nothing to claim."""

    answers: list[ItemClaim | Exception | None]
    requests: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    away: int = 0
    """So many calls for grace fail."""
    on_wait: Callable[[], None] = lambda: None

    def claim(self, holder: Holder, wanted: Wanted, *, lease_ms: int, request_id: str) -> ItemClaim | None:
        """The next answer."""
        assert (holder, lease_ms) == (ME, 60_000)
        self.requests.append(request_id)
        self.calls.append("claim")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def grant_grace(self, seconds: float) -> None:
        """Note it."""
        if self.away:
            self.away -= 1
            raise AWAY
        self.calls.append(f"grace {seconds:g}")

    def wait_for_work(self, seconds: float) -> bool:
        """Note it."""
        self.calls.append("wait")
        self.on_wait()
        return False


@dataclass
class Stopping:
    """Wanted once the store has no answer left, or the pauses are used up."""

    store: Store

    @property
    def wanted(self) -> bool:
        """Whether the test is over."""
        return not self.store.answers


@dataclass
class Wake:
    """Notes the pauses."""

    pauses: list[float] = field(default_factory=list)

    def clear(self) -> None:
        """Nothing to forget."""

    def wait(self, seconds: float | None) -> bool:
        """Note it."""
        self.pauses.append(seconds or 0.0)
        return False


@dataclass
class Runner:
    """Ends each item as it is told to."""

    store: Store
    hows: list[Any] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)
    lease_s: float = 60.0
    meanwhile: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        """Make what is stopped and woken."""
        self.stopping, self.wake = Stopping(self.store), Wake()

    def run(self, one: ItemClaim, won_at: float) -> ItemEnd:
        """Note it, and end it."""
        assert won_at > 0
        self.ran.append(one.id)
        self.meanwhile()
        return ItemEnd(one.id, self.hows.pop(0) if self.hows else "done")

    def tell(self, text: str) -> None:
        """Note it."""
        self.told.append(text)


def make(runner: Runner, *, seconds: float | None = None, most: int | None = None) -> Worker:
    """A worker on them."""
    return Worker(cast("ItemRunner", runner), ME, Wanted(), seconds, most)


def test_a6_a_claim_whose_answer_was_lost_is_asked_for_again() -> None:
    """Under the same request id until there was an answer, and under a new one for the next item."""
    store = Store([claim("one"), AWAY, AWAY, claim("two"), claim("three")])
    runner = Runner(store)
    make(runner).work()

    first, *lost, third = store.requests
    assert len(set(lost)) == 1
    assert len({first, lost[0], third}) == 3
    assert runner.ran == ["one", "two", "three"]
    assert len([text for text in runner.told if "Trying again" in text]) == 1


def test_without_for_ever_a_store_that_is_away_is_a_fault() -> None:
    """Whoever asked for one item is told at once."""
    with pytest.raises(StoreUnreachable):
        make(Runner(Store([AWAY])), seconds=0.0, most=1).work()


def test_a_broken_command_does_not_use_up_everything_that_waits() -> None:
    """After a failure the loop waits, longer each time; a success begins anew."""
    store = Store([claim(str(number)) for number in range(10)])
    runner = Runner(store, ["released", "failed", "lost", "done", *["released"] * 6])
    make(runner).work()

    assert runner.wake.pauses == [1, 2, 4, 1, 2, 4, 8, 16]  # after the last one it is stopped, and does not wait


def test_the_wait_has_an_end() -> None:
    """However long it was broken, a minute later it is tried again."""
    store = Store([claim(str(number)) for number in range(20)])
    runner = Runner(store, ["released"] * 20)
    make(runner).work()

    assert max(runner.wake.pauses) == work.PACE_MOST_S


def test_a_command_that_cannot_start_ends_the_loop() -> None:
    """No other item would fare better."""
    runner = Runner(Store([claim("one"), claim("two")]), ["not started"])
    make(runner).work()

    assert runner.ran == ["one"]


def test_b70_a_loop_that_slept_lets_the_others_renew_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """All holders slept, too: whoever claims first after it must not take over what they would renew."""
    store = Store([None, claim("one")])
    runner = Runner(store)
    worker = make(runner)
    monkeypatch.setattr(worker._asleep, "seconds", lambda meant: 600.0 if "wait" in store.calls else 0.0)
    worker.work()

    assert store.calls == ["claim", "wait", f"grace {GRACE_S:g}", "claim"]


@dataclass
class Clocks:
    """Two clocks that a test moves: of this process, and the boot clock."""

    awake: float = 0.0
    asleep: float = 0.0

    def pass_by(self, seconds: float, *, asleep: float = 0.0) -> None:
        """Let time pass, `asleep` more of it while the host sleeps."""
        self.awake += seconds
        self.asleep += asleep

    def watched(self) -> Asleep:
        """What looks at them."""
        return Asleep(monotonic=lambda: self.awake, other=lambda: self.awake + self.asleep)


@pytest.mark.parametrize(
    ("asleep", "calls"),
    [
        (0.0, ["claim", "wait", "claim", "claim"]),
        (600.0, ["claim", "wait", "claim", f"grace {GRACE_S:g}", "claim"]),
    ],
)
def test_b70_a_long_run_is_no_sleep(asleep: float, calls: list[str]) -> None:
    """Busy agents must not keep the leases of dead ones from lapsing; after a sleep of the host others renew first."""
    store, clocks = Store([None, claim("one"), claim("two")]), Clocks()
    runner = Runner(store, meanwhile=lambda: clocks.pass_by(1800.0, asleep=asleep))
    worker = make(runner)
    worker._asleep = clocks.watched()
    worker.work()

    assert store.calls == calls


def test_b70_a_sleep_is_not_forgotten_while_the_store_is_away() -> None:
    """After a sleep the network may come back late: the others get their time to renew all the same."""
    store, clocks = Store([None, claim("one")], away=2), Clocks()
    store.on_wait = lambda: clocks.pass_by(0.1, asleep=600.0 if store.calls.count("wait") == 1 else 0.0)
    worker = make(Runner(store))
    worker._asleep = clocks.watched()
    worker.work()

    assert [call for call in store.calls if call != "wait"][-2:] == [f"grace {GRACE_S:g}", "claim"]


def test_the_pauses_grow_and_stay_short() -> None:
    """Looking again costs little at first, and an item never waits for longer than two seconds."""
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) < 9

    assert until_there_is_one(lambda: None, None, wait) is None
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, MOST_S, MOST_S, MOST_S]
