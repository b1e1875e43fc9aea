"""A lease that is kept: when it is renewed, how often a failed renewal is tried again, and what a loss says."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from kranzq.errors import ItemLost, KranzqError, NoSuchItem, StoreUnreachable
from kranzq.leases.kept import KeptLease
from kranzq.model.claim import Holder
from kranzq.model.work import Held, ItemClaim
from tests.laboratory import wait_for

LEASE_S = 30.0
HELD = Held("item", 1, Holder("agent"))


@dataclass
class Store:
    """Answers renewals with what it is told to; notes when each one came."""

    clock: list[float]
    faults: list[Exception] = field(default_factory=list)
    at: list[float] = field(default_factory=list)

    def heartbeat(self, held: Held, lease_ms: int | None = None) -> ItemClaim:
        """Fail with the next fault, if there is one."""
        assert (held, lease_ms) == (HELD, LEASE_S * 1000)
        self.at.append(self.clock[0])
        if self.faults:
            raise self.faults.pop(0)
        return ItemClaim("item", 1, held.holder, None)  # type: ignore[arg-type]  # nobody looks at it


@dataclass
class Lab:
    """A lease on a clock that the test moves."""

    clock: list[float] = field(default_factory=lambda: [500.0])
    ends: list[float] = field(default_factory=list)
    losses: list[KranzqError] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the lease, won just now."""
        self.store = Store(self.clock)
        self.kept = KeptLease(
            self.store,
            HELD,
            LEASE_S,
            self.clock[0],
            confirmed=self.ends.append,
            lost=self.losses.append,
            clock=lambda: self.clock[0],
        )

    def live(self, seconds: float) -> None:
        """Let time pass as the thread sees it: it looks whenever the last look said, and once a second at least."""
        until = self.clock[0] + seconds
        while self.clock[0] < until:
            self.clock[0] = min(until, self.clock[0] + min(max(self.kept.renew_if_due(), 0.01), 1.0))
        self.kept.renew_if_due()


def test_b66_it_is_renewed_at_a_third() -> None:
    """Three leases long there are nine renewals, and each moves the end to a whole lease after it began."""
    lab = Lab()
    lab.live(3 * LEASE_S)

    assert lab.store.at == pytest.approx([500 + 10 * n for n in range(1, 10)], abs=0.1)
    assert lab.ends == pytest.approx([at + LEASE_S for at in lab.store.at])


def test_b66_a_renewal_that_failed_is_tried_again_well_before_the_end() -> None:
    """One failed call costs a second of thirty, not the lease."""
    lab = Lab()
    lab.store.faults = [StoreUnreachable("the database", "it does not answer")]
    lab.live(12)

    assert lab.store.at == pytest.approx([510, 511], abs=0.1)
    assert lab.kept.trouble is None
    assert lab.losses == []


def test_b66_it_goes_on_trying_until_the_end() -> None:
    """A store that is away for most of the lease is asked some twenty times, and what is wrong is known."""
    lab = Lab()
    lab.store.faults = [OSError("no route")] * 100
    lab.live(LEASE_S)

    assert 15 <= len(lab.store.at) <= 25
    assert lab.kept.trouble is not None
    assert "no route" in lab.kept.trouble
    assert lab.kept.ends == 530
    assert lab.losses == []


@pytest.mark.parametrize(
    "fault", [ItemLost("item", 1, "claimed"), ItemLost("item", 1, "cancelled", "why"), NoSuchItem("item")]
)
def test_a_loss_is_told_once_and_ends_the_renewing(fault: KranzqError) -> None:
    """Another has it, somebody cancelled it, or it is gone: there is nothing more to renew."""
    lab = Lab()
    lab.store.faults = [fault]
    lab.live(3 * LEASE_S)

    assert lab.losses == [fault]
    assert lab.kept.loss is fault
    assert len(lab.store.at) == 1


def test_b70_after_a_sleep_it_is_renewed_first_thing() -> None:
    """The clock goes on while the host sleeps, so the first look after it finds the renewal due."""
    lab = Lab()
    lab.live(1)
    lab.clock[0] += 100 * LEASE_S
    lab.kept.renew_if_due()

    assert lab.store.at == [lab.clock[0]]
    assert lab.kept.ends == lab.clock[0] + LEASE_S


def test_a_lease_counts_from_before_the_call() -> None:
    """A slow answer shortens what is left of the lease here: it must not end later than where the store counts it."""
    lab = Lab()
    lab.live(9.5)
    slow = lab.store.heartbeat

    def answer(held: Held, lease_ms: int | None = None) -> ItemClaim:
        kept = slow(held, lease_ms)
        lab.clock[0] += 8
        return kept

    lab.store.heartbeat = answer  # type: ignore[method-assign]
    lab.clock[0] = 510
    lab.kept.renew_if_due()

    assert lab.kept.ends == 510 + LEASE_S


def test_b67_the_thread_renews_while_everything_else_stands_still() -> None:
    """What its lease is for may block as it likes: the renewals come from a thread that waits for nobody."""
    store = Store([0.0])
    done = threading.Event()
    kept = KeptLease(store, HELD, LEASE_S, -1e6, confirmed=lambda _: done.set(), lost=lambda _: None)
    kept.begin()
    assert done.wait(20)
    kept.close()

    wait_for(lambda: not any(one.name == "lease of item" for one in threading.enumerate()), "the thread has left")
