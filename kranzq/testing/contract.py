"""The conformance suite: what every backend promises, of missions as of items, as tests that pytest collects.

A backend's author writes a class that inherits `MissionContract` (`kranzq.testing.missions`) or `WorkContract` and
`LeasedContract` (`kranzq.testing.work`, `kranzq.testing.leases`); both begin with what stands here. The class has a
fixture `store`, and its name begins with `Test`. A promise that is not in a suite is not a promise.
"""

from __future__ import annotations

import random
from typing import Generic

from kranzq.backend import Wanted
from kranzq.errors import ClaimLost, Conflict
from kranzq.model.claim import Holder
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.testing.store import HOLDER, C, N, S, Store, T, refused, take, together

LOSSES = 3
"""So many lost holders set work aside: the default of items, and the limit of missions."""


class BackendContract(Generic[N, T, S, C]):
    """The promises; `store` is a fixture of the subclass."""

    def test_what_was_enqueued_is_there_for_everybody(self, store: Store[N, T, S, C]) -> None:
        """When enqueue returns, whoever looks sees the work, and says the same of it."""
        accepted = store.open().enqueue(store.make("m-1"))

        assert (accepted.created, accepted.state, store.named(accepted.entry)) == (True, store.waiting, "m-1")
        assert store.open().entries(store.waiting) == [accepted.entry]

    def test_the_same_id_twice_is_one(self, store: Store[N, T, S, C]) -> None:
        """A repeated enqueue changes nothing, and the answer says so and shows what is there."""
        first = store.open().enqueue(store.make("m-1"))
        second = store.open().enqueue(store.make("m-1"))

        assert (second.created, second.entry, second.state) == (False, first.entry, store.waiting)
        assert store.open().entries(store.waiting) == [first.entry]

    def test_the_same_id_for_something_else_is_refused(self, store: Store[N, T, S, C]) -> None:
        """An enqueue that contradicts what is there is refused, and nothing is changed."""
        first = store.open().enqueue(store.make("m-1", content="true"))
        with refused(Conflict):
            store.open().enqueue(store.make("m-1", content="false"))

        assert store.open().entries(store.waiting) == [first.entry]

    def test_one_of_many_simultaneous_enqueues_makes_it(self, store: Store[N, T, S, C]) -> None:
        """Of twenty enqueues in the same instant exactly one says that it made the work."""
        answers: list[bool] = []
        together(20, lambda _: answers.append(store.open().enqueue(store.make("m-1")).created))

        assert (answers.count(True), store.names(store.waiting)) == (1, ["m-1"])

    def test_the_order_is_by_urgency_then_insertion(self, store: Store[N, T, S, C]) -> None:
        """Work is listed and claimed by its urgency, then as it came, whatever was claimed in between."""
        backend, chance = store.open(), random.Random(7)  # noqa: S311 - no secret, a repeatable order
        made = [(chance.choice([0, 5, 9, 10, 100, 255]), f"m-{count}") for count in range(24)]
        for urgency, name in made:
            backend.enqueue(store.make(name, urgency))
        expected = [name for _, name in sorted(made, key=lambda one: -one[0])]

        assert store.names(store.waiting) == expected
        assert [store.given(take(store)) for _ in made] == expected

    def test_a_look_changes_nothing(self, store: Store[N, T, S, C]) -> None:
        """Looking is no lock: two looks see the same, at most as many as were asked for, and claiming goes on."""
        backend = store.open()
        for count in range(3):
            backend.enqueue(store.make(f"m-{count}"))

        assert backend.entries(store.waiting) == backend.entries(store.waiting)
        assert [store.named(entry) for entry in backend.entries(store.waiting, limit=2)] == ["m-0", "m-1"]
        assert backend.entries(store.waiting, limit=0) == []
        assert store.given(take(store)) == "m-0"

    def test_nothing_to_claim_is_an_answer(self, store: Store[N, T, S, C]) -> None:
        """An empty store gives no claim and no error, and neither does one without what is wanted."""
        assert store.open().claim(HOLDER) is None
        store.open().enqueue(store.make("m-1"))

        assert store.open().claim(HOLDER, Wanted(frozenset({"m-2"}))) is None

    def test_what_is_wanted_is_claimed_and_the_rest_stays(self, store: Store[N, T, S, C]) -> None:
        """Who wants certain ids gets the first of those, and nobody else loses a place."""
        backend = store.open()
        for count in range(4):
            backend.enqueue(store.make(f"m-{count}"))
        claim = backend.claim(HOLDER, Wanted(frozenset({"m-3", "m-1"})))

        assert claim is not None
        assert store.given(claim) == "m-1"
        assert store.names(store.waiting) == ["m-0", "m-2", "m-3"]

    def test_what_is_claimed_is_still_there(self, store: Store[N, T, S, C]) -> None:
        """While work is claimed it is not made a second time: the answer is its state."""
        store.open().enqueue(store.make("m-1"))
        claim = take(store)
        accepted = store.open().enqueue(store.make("m-1"))

        assert (accepted.created, accepted.state) == (False, store.claimed)
        assert (store.names(store.waiting), store.names(store.claimed)) == ([], ["m-1"])
        store.open().finish(claim, Outcome.SUCCEEDED)

    def test_nothing_has_two_holders(self, store: Store[N, T, S, C]) -> None:
        """However many claim at once, each piece of work is given to one of them, and none is forgotten."""
        for count in range(40):
            store.open().enqueue(store.make(f"m-{count}"))
        got: list[str] = []

        def claim_all(number: int) -> None:
            backend = store.open()
            while (claim := backend.claim(Holder(f"holder {number}"))) is not None:
                got.append(store.given(claim))

        together(6, claim_all)

        assert sorted(got) == sorted(f"m-{count}" for count in range(40))

    def test_finish_retires(self, store: Store[N, T, S, C]) -> None:
        """What has ended, well or badly, waits no more, has no holder and is given to nobody."""
        for name, outcome in (("m-1", Outcome.SUCCEEDED), ("m-2", Outcome.FAILED)):
            store.open().enqueue(store.make(name))
            store.open().finish(take(store), outcome)

        assert store.names(store.waiting) == store.names(store.claimed) == []
        assert store.open().claim(HOLDER) is None
        assert store.open().recover() == ()

    def test_an_ended_claim_is_lost(self, store: Store[N, T, S, C]) -> None:
        """What was given back cannot be finished, and what was finished cannot be given back or end otherwise."""
        backend = store.open()
        backend.enqueue(store.make("m-1"))
        released = take(store)
        backend.release(released)
        finished = take(store)
        with refused(ClaimLost):
            store.open().finish(released, Outcome.SUCCEEDED)
        backend.finish(finished, Outcome.SUCCEEDED)

        for claim in (released, finished):
            with refused(ClaimLost):
                store.open().finish(claim, Outcome.FAILED)
            with refused(ClaimLost):
                store.open().release(claim, "too late")
        assert store.names(store.waiting) == store.names(store.claimed) == []

    def test_what_was_released_has_its_old_place(self, store: Store[N, T, S, C]) -> None:
        """Release puts work before what came after it, and says that it waits."""
        backend = store.open()
        backend.enqueue(store.make("m-1"))
        claim = take(store)
        backend.enqueue(store.make("m-2"))

        assert backend.release(claim, "changed my mind") == store.waiting
        assert store.names(store.waiting) == ["m-1", "m-2"]
        assert store.given(take(store)) == "m-1"

    def test_a_stale_claim_changes_nothing(self, store: Store[N, T, S, C]) -> None:
        """A claim that was given back means nothing for the next claim of the same work, by the same holder too."""
        backend = store.open()
        backend.enqueue(store.make("m-1"))
        old = take(store)
        backend.release(old)
        new = take(store)
        with refused(ClaimLost):
            backend.finish(old, Outcome.SUCCEEDED)
        with refused(ClaimLost):
            backend.release(old, "once more")

        assert store.names(store.claimed) == ["m-1"]
        backend.finish(new, Outcome.SUCCEEDED)

    def test_recovery_puts_back_what_a_gone_holder_left(self, store: Store[N, T, S, C]) -> None:
        """Its work has its old place again; once another has it, what the first one says changes nothing."""
        store.open().enqueue(store.make("m-1"))
        [old] = store.claim_and_die()
        store.open().enqueue(store.make("m-2"))

        assert len(store.open().recover()) == 1
        assert store.names(store.waiting) == ["m-1", "m-2"]
        new = take(store)
        assert store.given(new) == "m-1"
        with refused(ClaimLost):
            store.open().finish(old, Outcome.SUCCEEDED)
        with refused(ClaimLost):
            store.open().release(old)
        assert store.names(store.claimed) == ["m-1"]
        store.open().finish(new, Outcome.SUCCEEDED)

    def test_recovery_leaves_living_holders_alone(self, store: Store[N, T, S, C]) -> None:
        """Anybody may recover at any time: what a living holder has stays its own."""
        store.open().enqueue(store.make("m-1"))
        claim = take(store)

        assert store.open().recover() == ()
        store.open().finish(claim, Outcome.SUCCEEDED)
        assert store.open().recover() == ()

    def test_recovery_by_many_moves_each_claim_once(self, store: Store[N, T, S, C]) -> None:
        """Many that recover at once put everything back exactly once."""
        expected = [f"m-{count}" for count in range(4)]
        for name in expected:
            store.open().enqueue(store.make(name))
        store.claim_and_die(len(expected))
        moved: list[str] = []
        together(6, lambda _: moved.extend(store.open().recover()))

        assert len(moved) == len(set(moved)) == len(expected)
        assert store.names(store.waiting) == expected
        assert store.names(store.claimed) == []

    def test_what_loses_its_holder_again_and_again_is_set_aside(self, store: Store[N, T, S, C]) -> None:
        """Work whose holders are lost three times is given to nobody any more, and is still to be seen."""
        store.open().enqueue(store.make("m-1"))
        for _ in range(LOSSES):
            assert store.names(store.waiting) == ["m-1"]
            store.claim_and_die()
            store.open().recover()

        assert (store.names(store.waiting), store.names(store.claimed)) == ([], [])
        assert store.names(store.aside) == ["m-1"]
        assert store.open().claim(HOLDER) is None

    def test_cancel_ends_what_waits(self, store: Store[N, T, S, C]) -> None:
        """What was cancelled is given to nobody, and the answer says whether there was something to end."""
        store.open().enqueue(store.make("m-1"))
        store.open().enqueue(store.make("m-2"))

        assert store.open().cancel(MissionId("m-1"), "not needed")
        assert not store.open().cancel(MissionId("m-1"))
        assert store.names(store.waiting) == ["m-2"]
        assert store.given(take(store)) == "m-2"
