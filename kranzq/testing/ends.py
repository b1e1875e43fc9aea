"""How claims of items end: once, whoever asks again, and never for somebody who holds nothing."""

from __future__ import annotations

import functools

from kranzq.model.outcome import Outcome
from kranzq.model.work import Finish, Held, ItemState
from kranzq.testing.items import OTHER, Items, given, item
from kranzq.testing.leases import HOLDERS_CALLS, lost
from kranzq.testing.store import HOLDER


class EndsContract:
    """The promises; `store` is a fixture of the subclass."""

    def test_the_same_end_again_is_a_success(self, store: Items) -> None:
        """An answer that was lost may be asked for again; another end is refused, and the first stays."""
        work = store.open()
        for outcome, other in ((Outcome.SUCCEEDED, Outcome.FAILED), (Outcome.FAILED, Outcome.SUCCEEDED)):
            name = f"w-{outcome.value}"
            work.enqueue(item(name))
            claim = given(work.claim(HOLDER))
            work.finish(claim, outcome, "a result")
            before, history = work.show(name), work.attempts(name)

            work.finish(claim, outcome, "a result")
            for act in (
                functools.partial(work.finish, claim, outcome, "another result"),
                functools.partial(work.finish, claim, other, "a result"),
                functools.partial(work.finish, Held(name, claim.attempt, OTHER), outcome, "a result"),
                functools.partial(work.heartbeat, claim),
                functools.partial(work.release, claim),
            ):
                lost(act)
            assert (work.show(name), work.attempts(name)) == (before, history)

    def test_the_same_release_again_gives_the_same_answer(self, store: Items) -> None:
        """Also when another has claimed since: nothing of it is changed."""
        work = store.open()
        work.enqueue(item("w-1"))
        claim = given(work.claim(HOLDER))
        assert work.release(claim, "not mine") is ItemState.OPEN
        assert work.release(claim, "not mine") is ItemState.OPEN
        new = given(work.claim(OTHER))
        before = work.show("w-1")
        work.release(claim, "not mine")

        assert work.show("w-1") == before
        work.finish(new)

    def test_a_claim_whose_answer_was_lost_is_given_again(self, store: Items) -> None:
        """The same request gives its holder the same item and attempt, and nobody else."""
        work = store.open()
        for count in range(3):
            work.enqueue(item(f"w-{count}"))
        first = given(work.claim(HOLDER, request_id="r-1"))
        again = given(work.claim(HOLDER, request_id="r-1"))

        assert (again.id, again.attempt) == (first.id, first.attempt) == ("w-0", 1)
        assert given(work.claim(OTHER, request_id="r-1")).id == "w-1"
        assert given(work.claim(HOLDER, request_id="r-2")).id == "w-2"
        assert len(work.attempts("w-0")) == 1

    def test_a_cancelled_item_tells_its_holder(self, store: Items) -> None:
        """Cancel needs no holder; the holder's next call, whatever it is, says that it was cancelled and why."""
        work = store.open()
        for name in ("w-1", "w-2"):
            work.enqueue(item(name))
            claim = given(work.claim(HOLDER))
            if name == "w-2":
                store.pass_time(3600)
                work.sweep()
            assert work.cancel(name, "no longer wanted")
            assert not work.cancel(name, "twice")
            for call in HOLDERS_CALLS:
                fault = lost(functools.partial(call, work, claim))
                assert (fault.state, fault.cancelled) == ("cancelled", "no longer wanted")
            assert work.show(name).result == "no longer wanted"
            assert [one.ended for one in work.attempts(name)] == ["cancelled"]

    def test_of_many_ends_each_is_judged_by_itself(self, store: Items) -> None:
        """What is refused among ends that are handed in together leaves the others alone, and is told in its place."""
        work = store.open()
        for name in ("w-1", "w-2", "w-3"):
            work.enqueue(item(name))
        claims = work.claim_many(HOLDER, limit=3)
        work.cancel("w-2")
        ends = [Finish(one, Outcome.SUCCEEDED, "a result") for one in (*claims, claims[0])]
        ends += [Finish(Held("w-none", 1, HOLDER)), Finish(Held("w-3", 1, HOLDER), Outcome.FAILED)]
        faults = work.finish_many(ends)

        assert [type(fault).__name__ for fault in faults] == [
            *("NoneType", "ItemLost", "NoneType", "NoneType", "NoSuchItem", "ItemLost")
        ]
        assert [work.show(one.id).state.value for one in claims] == ["done", "cancelled", "done"]

    def test_among_many_ends_of_one_item_the_one_that_counts_is_taken(self, store: Items) -> None:
        """Stale attempts and strangers before it and behind it are refused, and hide nothing."""
        work = store.open()
        work.enqueue(item("w-1", max_attempts=9))
        stale = given(work.claim(HOLDER))
        store.pass_time(3600)
        live = given(work.claim(HOLDER))
        strange = Held("w-1", live.attempt, OTHER)
        ends = [Finish(one, Outcome.SUCCEEDED, "a result") for one in (stale, strange, live, live, stale, strange)]
        faults = work.finish_many([*ends, Finish(live, Outcome.FAILED)])

        assert [type(fault).__name__ for fault in faults] == [
            *("ItemLost", "ItemLost", "NoneType", "NoneType", "ItemLost", "ItemLost", "ItemLost")
        ]
        assert (work.show("w-1").state, work.show("w-1").result) == (ItemState.DONE, "a result")
