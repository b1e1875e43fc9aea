"""The conformance suite: what every backend of missions promises, as tests that pytest collects from a subclass.

Write a class that inherits `BackendContract` and has a fixture `store`; its name begins with `Test`. A promise that is
not here is not a promise.
"""

from __future__ import annotations

import random

from kranzq.backend import Wanted
from kranzq.errors import ClaimLost, Conflict, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.model.policy import INTERRUPTION_LIMIT
from kranzq.model.state import State
from kranzq.testing.store import HOLDER, Store, make, missions, refused, take, together


class BackendContract:
    """The promises; `store` is a fixture of the subclass."""

    def test_an_enqueued_mission_is_there_for_everybody(self, store: Store) -> None:
        """When enqueue returns, whoever looks sees the entry, with an id of its own."""
        accepted = store.open().enqueue(make("m-1", 1))

        assert (accepted.created, accepted.state) == (True, State.QUEUED)
        assert store.open().entries() == [accepted.entry]
        assert (accepted.entry.priority, len(accepted.entry.id or "")) == (1, 32)

    def test_the_same_mission_twice_is_one_entry(self, store: Store) -> None:
        """A repeated approval changes nothing, and the answer says so and shows what is there: also the priority."""
        first = store.open().enqueue(make("m-1", 5))
        second = store.open().enqueue(make("m-1", 0))

        assert (second.created, second.entry) == (False, first.entry)
        assert store.open().entries() == [first.entry]

    def test_the_same_mission_with_another_command_is_refused(self, store: Store) -> None:
        """An approval that contradicts what is there is refused, and nothing is changed."""
        first = store.open().enqueue(make("m-1", 2, "true"))
        with refused(Conflict):
            store.open().enqueue(make("m-1", 2, "false"))

        assert store.open().entries() == [first.entry]

    def test_ids_that_differ_in_case_only_are_refused(self, store: Store) -> None:
        """Two missions whose ids a person or a file system may take for one are not queued beside each other."""
        store.open().enqueue(make("m-1"))
        with refused(Conflict):
            store.open().enqueue(make("M-1"))

        assert missions(store.open()) == ["m-1"]

    def test_one_of_many_simultaneous_approvals_makes_the_entry(self, store: Store) -> None:
        """Of twenty approvals in the same instant exactly one says that it made the entry."""
        answers: list[bool] = []
        together(20, lambda _: answers.append(store.open().enqueue(make("m-1")).created))

        assert (answers.count(True), missions(store.open())) == (1, ["m-1"])

    def test_a_priority_out_of_range_is_refused(self, store: Store) -> None:
        """A priority that could not sort right is refused at the door."""
        for priority in (-1, 256, 2**31):
            with refused(UsageFault):
                store.open().enqueue(make("m-1", priority))

        assert store.open().entries() == []

    def test_numbers_only_grow(self, store: Store) -> None:
        """A number is never given out again, also not after everything was claimed or finished."""
        numbers = [store.open().enqueue(make("m-0")).entry.number]
        claim = take(store.open())
        numbers.append(store.open().enqueue(make("m-1")).entry.number)
        store.open().finish(claim, Outcome.SUCCEEDED)
        store.open().finish(take(store.open()), Outcome.SUCCEEDED)
        numbers.append(store.open().enqueue(make("m-2")).entry.number)

        assert numbers == sorted(set(numbers))

    def test_the_order_is_by_priority_then_insertion(self, store: Store) -> None:
        """Entries are listed and claimed by the number of their priority, the lowest first, then as they came."""
        backend, chance = store.open(), random.Random(7)  # noqa: S311 - no secret, a repeatable order
        made = [(chance.choice([0, 5, 9, 10, 100, 255]), f"m-{count}") for count in range(24)]
        for priority, mission in made:
            backend.enqueue(make(mission, priority))
        expected = [mission for _, mission in sorted(made, key=lambda one: one[0])]

        assert missions(backend) == expected
        assert [str(take(backend).entry.mission) for _ in made] == expected

    def test_a_look_changes_nothing(self, store: Store) -> None:
        """Looking is no lock: two looks see the same, at most as many as were asked for, and claiming goes on."""
        backend = store.open()
        for count in range(3):
            backend.enqueue(make(f"m-{count}"))

        assert backend.entries() == backend.entries()
        assert [str(entry.mission) for entry in backend.entries(limit=2)] == ["m-0", "m-1"]
        assert backend.entries(limit=0) == []
        assert str(take(store.open()).entry.mission) == "m-0"

    def test_nothing_to_claim_is_an_answer(self, store: Store) -> None:
        """An empty store gives no claim and no error, and neither does one without what is wanted."""
        assert store.open().claim(HOLDER) is None
        store.open().enqueue(make("m-1"))

        assert store.open().claim(HOLDER, Wanted(frozenset({"m-2"}))) is None

    def test_the_wanted_mission_is_claimed_and_the_others_stay(self, store: Store) -> None:
        """Who wants certain missions gets the first of those, and nobody else loses a place."""
        backend = store.open()
        for count in range(4):
            backend.enqueue(make(f"m-{count}"))
        claim = backend.claim(HOLDER, Wanted(frozenset({"m-3", "m-1"})))

        assert claim is not None
        assert str(claim.entry.mission) == "m-1"
        assert missions(backend) == ["m-0", "m-2", "m-3"]

    def test_a_claimed_mission_counts_as_queued(self, store: Store) -> None:
        """While a mission is claimed it is not queued a second time: the answer is its state."""
        store.open().enqueue(make("m-1"))
        claim = take(store.open())
        accepted = store.open().enqueue(make("m-1"))

        assert (accepted.created, accepted.state) == (False, State.CLAIMED)
        assert (missions(store.open()), missions(store.open(), State.CLAIMED)) == ([], ["m-1"])
        store.open().finish(claim, Outcome.SUCCEEDED)

    def test_one_more_run_waits_behind_the_running_one(self, store: Store) -> None:
        """With *again* a claimed mission is queued once more, and claimed only when the first has ended."""
        store.open().enqueue(make("m-1"))
        first = take(store.open())

        assert store.open().enqueue(make("m-1", again=True)).created
        assert store.open().claim(HOLDER) is None
        store.open().finish(first, Outcome.SUCCEEDED)
        assert str(take(store.open()).entry.mission) == "m-1"

    def test_no_entry_has_two_holders(self, store: Store) -> None:
        """However many claim at once, each entry is given to one of them, and none is forgotten."""
        for count in range(40):
            store.open().enqueue(make(f"m-{count}"))
        got: list[str] = []

        def claim_all(number: int) -> None:
            backend = store.open()
            while (claim := backend.claim(Holder(f"holder {number}"))) is not None:
                got.append(str(claim.entry.mission))

        together(6, claim_all)

        assert sorted(got) == sorted(f"m-{count}" for count in range(40))

    def test_a_finished_entry_is_gone(self, store: Store) -> None:
        """Finish retires the entry whatever the outcome; then the mission can be approved anew."""
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
            assert store.open().enqueue(make("m-1")).created
            store.open().finish(take(store.open()), outcome)

            assert all(missions(store.open(), state) == [] for state in State)

    def test_an_ended_claim_is_lost(self, store: Store) -> None:
        """What was finished or released cannot be finished or released again."""
        backend = store.open()
        backend.enqueue(make("m-1"))
        released = take(backend)
        backend.release(released)
        finished = take(backend)
        backend.finish(finished, Outcome.SUCCEEDED)

        for claim in (released, finished):
            with refused(ClaimLost):
                store.open().finish(claim, Outcome.SUCCEEDED)
            with refused(ClaimLost):
                store.open().release(claim)

    def test_a_released_entry_has_its_old_place(self, store: Store) -> None:
        """Release puts the entry before what was queued after it, and says that it is queued."""
        backend = store.open()
        backend.enqueue(make("m-1"))
        claim = take(backend)
        backend.enqueue(make("m-2"))

        assert backend.release(claim, "changed my mind") is State.QUEUED
        assert missions(store.open()) == ["m-1", "m-2"]

    def test_release_counts_nothing(self, store: Store) -> None:
        """Releasing is no interruption: an entry is not parked for it, however often."""
        backend = store.open()
        backend.enqueue(make("m-1"))
        for _ in range(2 * INTERRUPTION_LIMIT):
            assert backend.release(take(backend)) is State.QUEUED

        assert missions(backend) == ["m-1"]

    def test_a_stale_claim_changes_nothing(self, store: Store) -> None:
        """A claim that was released means nothing for the next claim of the same entry, by the same holder too."""
        backend = store.open()
        backend.enqueue(make("m-1"))
        old = take(backend)
        backend.release(old)
        new = take(backend)
        with refused(ClaimLost):
            backend.finish(old, Outcome.SUCCEEDED)
        with refused(ClaimLost):
            backend.release(old)

        assert missions(backend, State.CLAIMED) == ["m-1"]
        backend.finish(new, Outcome.SUCCEEDED)

    def test_recovery_puts_back_what_a_gone_holder_left(self, store: Store) -> None:
        """The entry of a gone holder has its old place again, and that holder's claim is lost."""
        store.open().enqueue(make("m-1"))
        claim = store.claim_and_die()
        store.open().enqueue(make("m-2"))

        assert len(store.open().recover()) == 1
        assert missions(store.open()) == ["m-1", "m-2"]
        with refused(ClaimLost):
            store.open().finish(claim, Outcome.SUCCEEDED)
        assert missions(store.open()) == ["m-1", "m-2"]

    def test_recovery_leaves_living_holders_alone(self, store: Store) -> None:
        """Anybody may recover at any time: what a living holder has stays its own."""
        store.open().enqueue(make("m-1"))
        claim = take(store.open())

        assert store.open().recover() == ()
        store.open().finish(claim, Outcome.SUCCEEDED)
        assert store.open().recover() == ()

    def test_recovery_by_many_moves_each_claim_once(self, store: Store) -> None:
        """Many that recover at once put each entry back exactly once."""
        expected = [f"m-{count}" for count in range(4)]
        for mission in expected:
            store.open().enqueue(make(mission))
        for _ in expected:
            store.claim_and_die()
        moved: list[str] = []
        together(6, lambda _: moved.extend(store.open().recover()))

        assert len(moved) == len(set(moved)) == len(expected)
        assert missions(store.open()) == expected
        assert missions(store.open(), State.CLAIMED) == []

    def test_what_ends_its_holder_again_and_again_is_parked(self, store: Store) -> None:
        """An entry whose holders die three times waits for a person, and a new approval of it is refused."""
        store.open().enqueue(make("m-1"))
        for _ in range(INTERRUPTION_LIMIT):
            store.claim_and_die()
            store.open().recover()

        assert (missions(store.open()), missions(store.open(), State.PARKED)) == ([], ["m-1"])
        with refused(Conflict):
            store.open().enqueue(make("m-1"))

    def test_cancel_removes_what_waits(self, store: Store) -> None:
        """Cancel removes a queued or parked entry and says whether there was one."""
        store.open().enqueue(make("m-1"))
        store.open().enqueue(make("m-2"))

        assert store.open().cancel(MissionId("m-1"), "not needed")
        assert not store.open().cancel(MissionId("m-1"))
        assert missions(store.open()) == ["m-2"]

    def test_cancel_leaves_a_claim_to_its_holder(self, store: Store) -> None:
        """A claimed entry is not taken away under its holder's feet: nothing was removed, and it can be finished."""
        store.open().enqueue(make("m-1"))
        claim = take(store.open())

        assert not store.open().cancel(MissionId("m-1"))
        store.open().finish(claim, Outcome.SUCCEEDED)
