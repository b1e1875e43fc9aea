"""What leases promise: who holds an item and until when, what a late call may still do, what makes an item fail.

Runs over `kranzq.testing.items.Items`; every test says what it claims, lets time pass, and asks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from kranzq.backend.items import WorkStore
from kranzq.errors import ClaimLost, ItemLost, NoSuchItem
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import DEFAULT_LEASE_MS, MOST_LEASE_MS, Held, ItemState
from kranzq.testing.items import OTHER, Items, given, item
from kranzq.testing.store import HOLDER, refused

HOLDERS_CALLS: tuple[Callable[[WorkStore, Held], object], ...] = (
    lambda work, held: work.heartbeat(held),
    lambda work, held: work.finish(held, Outcome.SUCCEEDED, "a late result"),
    lambda work, held: work.finish(held, Outcome.FAILED, "a late failure"),
    lambda work, held: work.release(held, "a late reason"),
    lambda work, held: work.release(held, "a late reason", declined=True),
)
"""Everything that a holder may say of its item."""
EARLY_S = 60.0
"""So long before its end a lease must still be there, on a store whose clock goes on by itself, however busy it is."""


def lost(act: Callable[[], object]) -> ItemLost:
    """The fault of an act that must be refused because the item is another's, or has ended."""
    try:
        act()
    except ItemLost as fault:
        return fault
    raise AssertionError("a call of somebody who holds nothing was accepted")


class LeasedContract:
    """The promises; `store` is a fixture of the subclass."""

    def test_a_heartbeat_extends_the_lease_from_now(self, store: Items) -> None:
        """Who renews in time keeps its item for as long as it likes, under the same attempt."""
        work = store.open()
        work.enqueue(item("w-1"))
        claim = given(work.claim(HOLDER, lease_ms=600_000))
        for _ in range(4):
            store.pass_time(500)
            renewed = work.heartbeat(claim, 600_000)
            assert not work.sweep()
            assert (renewed.attempt, renewed.item.state) == (claim.attempt, ItemState.CLAIMED)

        assert work.claim(OTHER) is None
        work.finish(claim)
        assert work.show("w-1").state is ItemState.DONE

    def test_a_heartbeat_may_shorten_the_lease(self, store: Items) -> None:
        """The lease is what the last heartbeat said."""
        work = store.open()
        work.enqueue(item("w-1"))
        work.heartbeat(given(work.claim(HOLDER, lease_ms=3_600_000)), 1000)
        store.pass_time(2)

        assert work.sweep().lapsed == ("w-1",)

    def test_a_list_counts_only_what_is_in_its_state(self, store: Items) -> None:
        """What lapsed is in front of the next claimer, and takes no place among what is open."""
        work = store.open()
        work.enqueue(item("w-1", priority=1))
        (claim,) = store.claim_and_die()
        work.enqueue(item("w-2"))
        work.sweep()

        assert [one.id for one in work.entries(limit=1)] == ["w-2"]
        assert [one.id for one in work.entries(ItemState.LAPSED, limit=1)] == [claim.id]

    def test_what_lapsed_is_still_its_holders(self, store: Items) -> None:
        """After the lease, while nobody else has claimed, holder and attempt stay and each of its calls is accepted."""
        work = store.open()
        for number, call in enumerate(HOLDERS_CALLS):
            work.enqueue(item(f"w-{number}"))
            claim = given(work.claim(HOLDER))
            store.pass_time(3600)
            assert work.sweep().lapsed == (claim.id,)
            lapsed = work.show(claim.id)
            assert (lapsed.state, lapsed.claimed_by, lapsed.attempts) == (ItemState.LAPSED, HOLDER.name, 1)

            call(work, claim)
            after = work.show(claim.id)
            assert after.state is not ItemState.LAPSED
            if not after.state.is_terminal:
                work.cancel(claim.id)

    def test_what_lapsed_unseen_is_still_its_holders_too(self, store: Items) -> None:
        """A lease that is over although nobody has swept counts no more and no less than one that was swept."""
        work = store.open()
        work.enqueue(item("w-1"))
        claim = given(work.claim(HOLDER))
        store.pass_time(3600)

        assert work.heartbeat(claim).item.state is ItemState.CLAIMED
        assert not work.sweep()

    def test_a_revived_lease_is_a_whole_one(self, store: Items) -> None:
        """A heartbeat after the lapse gives a lease from now: nobody else gets the item within it."""
        work = store.open()
        work.enqueue(item("w-1"))
        claim = given(work.claim(HOLDER))
        store.pass_time(3600)
        work.sweep()
        work.heartbeat(claim)
        store.pass_time(100)

        assert work.claim(OTHER) is None
        assert [(one.ended, one.attempt) for one in work.attempts("w-1")] == [(None, 1)]
        store.pass_time(30)
        assert given(work.claim(OTHER)).attempt == 2

    def test_once_another_has_claimed_every_late_call_is_refused(self, store: Items) -> None:
        """From that moment the first holder is told that it lost the item, and no call of it changes any field."""
        work = store.open()
        work.enqueue(item("w-1"))
        old = given(work.claim(HOLDER))
        store.pass_time(3600)
        new = given(work.claim(OTHER))
        before, history = work.show("w-1"), work.attempts("w-1")

        for call in HOLDERS_CALLS:
            fault = lost(functools.partial(call, work, old))
            assert (fault.item, fault.attempt, fault.state, fault.cancelled) == ("w-1", 1, "claimed", None)
        assert (work.show("w-1"), work.attempts("w-1")) == (before, history)
        work.finish(new)

    def test_a_claim_is_not_its_holders_name(self, store: Items) -> None:
        """The same holder under its earlier attempt is refused, also when it came by way of another holder."""
        work = store.open()
        work.enqueue(item("w-1", max_attempts=5))
        claims = []
        for holder in (HOLDER, HOLDER, OTHER, HOLDER):
            claims.append(given(work.claim(holder)))
            store.pass_time(3600)
        before = work.show("w-1")

        assert [claim.attempt for claim in claims] == [1, 2, 3, 4]
        for claim in claims[:-1]:
            for call in HOLDERS_CALLS:
                lost(functools.partial(call, work, claim))
        assert work.show("w-1") == before

    def test_only_holder_and_attempt_together_count(self, store: Items) -> None:
        """Another's name, another's uid or another attempt changes nothing; neither does one that never was."""
        work, ann = store.open(), Holder("ann", uid="u-1")
        work.enqueue(item("w-1"))
        claim = given(work.claim(ann))
        before = work.show("w-1")

        for attempt, holder in (
            (claim.attempt, Holder("bob", uid="u-2")),
            (claim.attempt, Holder("ann", uid="u-2")),
            (claim.attempt, Holder("bob")),
            (claim.attempt + 1, ann),
            (0, ann),
        ):
            for call in HOLDERS_CALLS:
                with refused(ClaimLost):
                    call(work, Held("w-1", attempt, holder))
        assert work.show("w-1") == before
        work.heartbeat(Held("w-1", claim.attempt, Holder("renamed", uid="u-1")))
        work.finish(Held("w-1", claim.attempt, Holder("ANN")))

    def test_an_unknown_item_is_not_a_lost_one(self, store: Items) -> None:
        """A wrong id is told apart from a lost lease."""
        work = store.open()
        for call in HOLDERS_CALLS:
            with refused(NoSuchItem):
                call(work, Held("w-none", 1, HOLDER))
        for act in (work.show, work.attempts, work.cancel):
            with refused(NoSuchItem):
                act("w-none")

    def test_an_attempt_is_never_used_again(self, store: Items) -> None:
        """Each claim has a fence above all before it: after a release, a declined one, and a lapse."""
        work = store.open()
        work.enqueue(item("w-1", max_attempts=100))
        fences = []
        for number in range(9):
            claim = given(work.claim(HOLDER))
            fences.append(claim.attempt)
            if number % 3 == 2:
                store.pass_time(3600)
            else:
                work.release(claim, "no", declined=number % 3 == 1)

        assert fences == list(range(1, 10))
        assert [one.attempt for one in work.attempts("w-1")] == fences

    def test_a_declined_attempt_uses_nothing_up(self, store: Items) -> None:
        """However many decline, the item stays open; one that fails it is counted."""
        work = store.open()
        work.enqueue(item("w-1", max_attempts=1))
        for _ in range(5):
            assert work.release(given(work.claim(HOLDER)), "not for me", declined=True) is ItemState.OPEN
        shown = work.show("w-1")

        assert (shown.attempts, shown.declined) == (5, 5)
        assert work.release(given(work.claim(HOLDER)), "tried") is ItemState.FAILED
        assert {one.ended for one in work.attempts("w-1")} == {"declined", "released"}

    def test_attempts_are_used_up_by_lapse_and_by_release_alike(self, store: Items) -> None:
        """After its last attempt an item has failed, with a reason, is given to nobody and refuses its holder."""
        for last in ("lapsed", "released"):
            work, name = store.open(), f"w-{last}"
            work.enqueue(item(name, max_attempts=3))
            work.release(given(work.claim(HOLDER)), "one")
            given(work.claim(HOLDER))
            store.pass_time(3600)
            claim = given(work.claim(HOLDER))
            if last == "lapsed":
                store.pass_time(3600)
                assert work.sweep().failed == (name,)
            else:
                assert work.release(claim, "three") is ItemState.FAILED
            shown = work.show(name)

            assert (shown.state, shown.attempts, bool(shown.result)) == (ItemState.FAILED, 3, True)
            assert work.claim(HOLDER) is None
            for call in HOLDERS_CALLS[:3]:
                lost(functools.partial(call, work, claim))
            assert [one.ended for one in work.attempts(name)] == ["released", "lapsed", last]

    def test_a_lease_has_a_default_and_a_ceiling(self, store: Items) -> None:
        """None, zero and less are two minutes; no lease is longer than a day, also not by a heartbeat."""
        work = store.open()
        for wanted, expected in (
            (None, DEFAULT_LEASE_MS),
            (0, DEFAULT_LEASE_MS),
            (-5, DEFAULT_LEASE_MS),
            (1000, 1000),
            (31_536_000_000, MOST_LEASE_MS),
            (2**63, MOST_LEASE_MS),
        ):
            accepted = work.enqueue(item())
            claim = given(work.claim(HOLDER, lease_ms=wanted))
            assert (claim.item.claim_expires or 0) - claim.item.updated_at == expected
            work.heartbeat(claim, wanted)
            if (early := expected / 1000 - EARLY_S) > 0:
                store.pass_time(early)
                assert not work.sweep()
            store.pass_time(EARLY_S + 1)
            assert work.sweep().lapsed == (accepted.entry.id,)
            work.cancel(accepted.entry.id)

    def test_grace_keeps_every_lease_for_a_while(self, store: Items) -> None:
        """After a host slept, holders have one round to renew before anything lapses or is claimed by another."""
        work = store.open()
        work.enqueue(item("w-1"))
        work.enqueue(item("w-2"))
        one, two = (given(work.claim(HOLDER)) for _ in range(2))
        store.pass_time(3600)
        work.grant_grace(60)

        assert not work.sweep()
        assert work.claim(OTHER) is None
        work.heartbeat(one)
        store.pass_time(61)
        assert work.sweep().lapsed == (two.id,)
