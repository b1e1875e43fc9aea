"""What backends of missions promise beyond the common suite, and the store that both suites work on."""

from __future__ import annotations

import abc

from kranzq.backend import Backend
from kranzq.errors import ClaimLost, Conflict, UsageFault
from kranzq.model.claim import Claim
from kranzq.model.entry import MAX_PRIORITY, Entry, Own
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome
from kranzq.model.policy import INTERRUPTION_LIMIT
from kranzq.model.state import State
from kranzq.testing.contract import BackendContract
from kranzq.testing.store import HOLDER, Store, claim_as_gone, refused, take

Missions = Store[Entry, Entry, State, Claim]


class MissionStore(abc.ABC):
    """A `Store` of missions whose holders are processes of this machine; `open` is the subclass's."""

    waiting, claimed, aside = State.QUEUED, State.CLAIMED, State.PARKED

    @abc.abstractmethod
    def open(self) -> Backend[Entry, Entry, State, Claim]:
        """A backend on the store."""

    def make(self, name: str, urgency: int = 100, content: str = "") -> Entry:
        """A mission; the lowest number of a priority goes first."""
        return make(name, MAX_PRIORITY - urgency, *([content] if content else []))

    def names(self, state: State) -> list[str]:
        """The missions in a state, in order."""
        return [str(entry.mission) for entry in self.open().entries(state)]

    def named(self, kept: Entry) -> str:
        """Its mission."""
        return str(kept.mission)

    def given(self, claim: Claim) -> str:
        """The mission of a claim."""
        return str(claim.entry.mission)

    def claim_and_die(self, count: int = 1) -> list[Claim]:
        """Claim for processes that are gone."""
        return [claim_as_gone(self.open()) for _ in range(count)]


def make(mission: str, priority: int = 2, *command: str, again: bool = False) -> Entry:
    """A new entry."""
    own = Own(id="0" * 32, command=command, again=again) if command or again else None
    return Entry(MissionId(mission), priority, own=own)


class MissionContract(BackendContract[Entry, Entry, State, Claim]):
    """The promises; `store` is a fixture of the subclass."""

    def test_each_entry_has_an_id_of_its_own(self, store: Missions) -> None:
        """An entry keeps its priority and gets an id of 32 characters, the mission's next entry another one."""
        first = store.open().enqueue(make("m-1", 1)).entry
        store.open().finish(take(store), Outcome.SUCCEEDED)
        second = store.open().enqueue(make("m-1", 1)).entry

        assert (first.priority, len(first.id or "")) == (1, 32)
        assert first.id != second.id

    def test_the_same_mission_twice_keeps_its_priority(self, store: Missions) -> None:
        """A repeated approval changes nothing of what is there: also not the priority."""
        first = store.open().enqueue(make("m-1", 5))
        second = store.open().enqueue(make("m-1", 0))

        assert (second.created, second.entry) == (False, first.entry)
        assert store.open().entries() == [first.entry]

    def test_ids_that_differ_in_case_only_are_refused(self, store: Missions) -> None:
        """Two missions whose ids a person or a file system may take for one are not queued beside each other."""
        store.open().enqueue(make("m-1"))
        with refused(Conflict):
            store.open().enqueue(make("M-1"))

        assert store.names(State.QUEUED) == ["m-1"]

    def test_a_priority_out_of_range_is_refused(self, store: Missions) -> None:
        """A priority that could not sort right is refused at the door."""
        for priority in (-1, 256, 2**31):
            with refused(UsageFault):
                store.open().enqueue(make("m-1", priority))

        assert store.open().entries() == []

    def test_numbers_only_grow(self, store: Missions) -> None:
        """A number is never given out again, also not after everything was claimed or finished."""
        numbers = [store.open().enqueue(make("m-0")).entry.number]
        claim = take(store)
        numbers.append(store.open().enqueue(make("m-1")).entry.number)
        store.open().finish(claim, Outcome.SUCCEEDED)
        store.open().finish(take(store), Outcome.SUCCEEDED)
        numbers.append(store.open().enqueue(make("m-2")).entry.number)

        assert numbers == sorted(set(numbers))

    def test_one_more_run_waits_behind_the_running_one(self, store: Missions) -> None:
        """With *again* a claimed mission is queued once more, and claimed only when the first has ended."""
        store.open().enqueue(make("m-1"))
        first = take(store)

        assert store.open().enqueue(make("m-1", again=True)).created
        assert store.open().claim(HOLDER) is None
        store.open().finish(first, Outcome.SUCCEEDED)
        assert store.given(take(store)) == "m-1"

    def test_a_finished_mission_is_gone_and_may_come_again(self, store: Missions) -> None:
        """Finish removes the entry whatever the outcome; then the mission can be approved anew."""
        for outcome in (Outcome.SUCCEEDED, Outcome.FAILED):
            assert store.open().enqueue(make("m-1")).created
            store.open().finish(take(store), outcome)

            assert all(store.names(state) == [] for state in State)

    def test_what_ended_cannot_end_again(self, store: Missions) -> None:
        """A claim that was finished or released is lost, also for the same call once more."""
        backend = store.open()
        backend.enqueue(make("m-1"))
        released = take(store)
        backend.release(released)
        with refused(ClaimLost):
            backend.release(released)
        finished = take(store)
        backend.finish(finished, Outcome.SUCCEEDED)
        with refused(ClaimLost):
            backend.finish(finished, Outcome.SUCCEEDED)

    def test_release_counts_nothing(self, store: Missions) -> None:
        """Releasing is no interruption: an entry is not parked for it, however often."""
        backend = store.open()
        backend.enqueue(make("m-1"))
        for _ in range(2 * INTERRUPTION_LIMIT):
            assert backend.release(take(store)) is State.QUEUED

        assert store.names(State.QUEUED) == ["m-1"]

    def test_a_gone_holder_has_lost_its_claim_at_once(self, store: Missions) -> None:
        """A process that is gone has nothing any more once recovery has seen it, whoever speaks in its name."""
        store.open().enqueue(make("m-1"))
        [claim] = store.claim_and_die()
        assert len(store.open().recover()) == 1
        with refused(ClaimLost):
            store.open().finish(claim, Outcome.SUCCEEDED)

        assert store.names(State.QUEUED) == ["m-1"]

    def test_a_parked_mission_is_not_approved_anew(self, store: Missions) -> None:
        """An entry whose holders die three times waits for a person, and a new approval of it is refused."""
        store.open().enqueue(make("m-1"))
        for _ in range(INTERRUPTION_LIMIT):
            store.claim_and_die()
            store.open().recover()

        assert (store.names(State.QUEUED), store.names(State.PARKED)) == ([], ["m-1"])
        with refused(Conflict):
            store.open().enqueue(make("m-1"))

    def test_cancel_leaves_a_claim_to_its_holder(self, store: Missions) -> None:
        """A claimed entry is not taken away under its holder's feet: nothing was removed, and it can be finished."""
        store.open().enqueue(make("m-1"))
        claim = take(store)

        assert not store.open().cancel(MissionId("m-1"))
        store.open().finish(claim, Outcome.SUCCEEDED)
