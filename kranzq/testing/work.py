"""What the work queue promises of items beside their leases: whom they are for, keys, batches, lists and history."""

from __future__ import annotations

from kranzq.backend import Wanted
from kranzq.errors import Conflict, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import ItemClaim, ItemState, NewItem, WorkItem
from kranzq.testing.contract import BackendContract
from kranzq.testing.items import OTHER, Items, given, item
from kranzq.testing.store import HOLDER, refused

ANN = Holder("ann", uid="u-1")


class WorkContract(BackendContract[NewItem, WorkItem, ItemState, ItemClaim]):
    """The promises; `store` is a fixture of the subclass."""

    def test_an_item_is_kept_as_it_came(self, store: Items) -> None:
        """Every field is there again, for whoever opens the queue next, with an id when none was given."""
        new = item(
            agent="ann", uid="u-1", kind="review", priority=-7, max_attempts=9, created_by="bob", title="é ñ 漢 🙂"
        )
        kept = store.open().enqueue(new).entry
        shown = store.open().show(kept.id)

        assert shown == kept
        assert (shown.title, shown.payload, shown.kind, shown.target) == (new.title, new.payload, new.kind, new.target)
        assert (shown.priority, shown.max_attempts, shown.created_by, shown.attempts) == (-7, 9, "bob", 0)
        assert (shown.claimed_by, shown.claim_expires, shown.result, shown.not_before) == ("", None, "", None)

    def test_an_item_goes_to_whom_it_is_for(self, store: Items) -> None:
        """One agent by its name without regard to case, a uid before any name, one group's members, or anybody."""
        work = store.open()
        for name, whom in (
            ("by-name", {"agent": "AgentY"}),
            ("by-uid", {"uid": "u-1", "agent": "ann"}),
            ("by-group", {"group": "Reviewers"}),
            ("anybody", {}),
        ):
            work.enqueue(item(name, **whom))

        def may(holder: Holder, *groups: str) -> set[str]:
            found = work.claim_many(holder, Wanted(groups=frozenset(groups)), limit=9)
            for one in found:
                work.release(one, "only asking", declined=True)
            return {one.id for one in found}

        assert may(Holder("agenty")) == {"by-name", "anybody"}
        assert may(Holder("ann")) == {"anybody"}
        assert may(Holder("another name", uid="u-1")) == {"by-uid", "anybody"}
        assert may(Holder("ann", uid="u-2"), "REVIEWERS") == {"by-group", "anybody"}
        assert may(Holder("bob"), "reviewer") == {"anybody"}

    def test_a_kind_narrows_what_is_given(self, store: Items) -> None:
        """Who names a kind gets the first of that kind; a kind is no part of another one's name."""
        work = store.open()
        for name, kind in (("w-1", ""), ("w-2", "review"), ("w-3", "review"), ("w-4", "reviews")):
            work.enqueue(item(name, kind=kind, priority=1 if name == "w-3" else 0))

        assert [one.id for one in work.claim_many(HOLDER, Wanted(kind="review"), limit=9)] == ["w-3", "w-2"]
        assert [one.id for one in work.claim_many(HOLDER, limit=9)] == ["w-1", "w-4"]

    def test_priorities_of_all_targets_count_together(self, store: Items) -> None:
        """The highest priority goes first, then the oldest, whomever of those the claimer is it was addressed to."""
        work = store.open()
        for number in range(12):
            whom = ({}, {"agent": "ann"}, {"group": "g"}, {"uid": "u-1"})[number % 4]
            work.enqueue(item(f"w-{number:02}", priority=number // 6, **whom))
        found = work.claim_many(ANN, Wanted(groups=frozenset({"g"})), limit=99)

        assert [one.id for one in found] == [f"w-{number:02}" for number in (*range(6, 12), *range(6))]

    def test_what_is_not_due_waits(self, store: Items) -> None:
        """Before its time an item is delayed and given to nobody; then it has the place of its insertion."""
        work = store.open()
        now = work.enqueue(item("early")).entry.created_at
        work.cancel("early")
        accepted = work.enqueue(item("w-1", not_before=now + 60_000))
        work.enqueue(item("w-2"))

        assert accepted.state is ItemState.DELAYED
        assert (given(work.claim(HOLDER)).id, work.claim(HOLDER)) == ("w-2", None)
        store.pass_time(61)
        assert given(work.claim(OTHER)).id == "w-1"

    def test_what_was_kept_back_waits(self, store: Items) -> None:
        """A release may keep an item back for a while; then it is given again."""
        work = store.open()
        work.enqueue(item("w-1"))

        assert work.release(given(work.claim(HOLDER)), "the service is down", delay_ms=60_000) is ItemState.DELAYED
        assert work.claim(HOLDER) is None
        store.pass_time(61)
        assert work.sweep().opened == 1
        assert given(work.claim(HOLDER)).attempt == 2

    def test_the_same_key_gives_the_same_item(self, store: Items) -> None:
        """An enqueue under a known idempotency key makes nothing; other content is refused; keys are the creator's."""
        work = store.open()
        first = work.enqueue(item(key="k", created_by="ann"))
        again = work.enqueue(item(key="k", created_by="ANN"))
        other = work.enqueue(item(key="k", created_by="bob"))

        assert (first.created, again.created, other.created) == (True, False, True)
        assert (again.entry, other.entry.id != first.entry.id) == (first.entry, True)
        with refused(Conflict):
            work.enqueue(item(key="k", created_by="ann", payload="something else"))
        assert len(work.entries()) == 2
        work.finish(given(work.claim(HOLDER)))
        assert work.enqueue(item(key="k", created_by="ann")).state is ItemState.DONE

    def test_many_are_kept_together_or_not_at_all(self, store: Items) -> None:
        """When one of many is refused, none is kept; the same ones twice in one call are one."""
        work = store.open()
        work.enqueue(item("w-1"))
        with refused(Conflict):
            work.enqueue_many([item("w-0"), item("w-1", payload="another"), item("w-2")])
        assert [one.id for one in work.entries()] == ["w-1"]

        answers = work.enqueue_many([item("w-3"), item("w-3"), item("w-1")])
        assert [one.created for one in answers] == [True, False, False]
        assert work.enqueue_many([]) == []

    def test_many_are_claimed_in_order(self, store: Items) -> None:
        """As many as there are and were asked for, in the order of single claims; too many at once is refused."""
        work = store.open()
        work.enqueue_many([item(f"w-{number}", priority=number % 2) for number in range(6)])

        assert [one.id for one in work.claim_many(HOLDER, limit=4)] == ["w-1", "w-3", "w-5", "w-0"]
        assert len(work.claim_many(HOLDER, limit=1000)) == 2
        for limit in (0, -1, 1001):
            with refused(UsageFault):
                work.claim_many(HOLDER, limit=limit)

    def test_pages_reach_everything_once(self, store: Items) -> None:
        """By cursor every item is reached, newest change first, whatever ended meanwhile; limits are clamped."""
        work = store.open()
        work.enqueue_many([item(f"w-{number:02}") for number in range(23)])
        work.finish(given(work.claim(HOLDER)))
        seen: list[WorkItem] = []
        cursor = None
        while True:
            page = work.page(limit=5, cursor=cursor)
            seen += page.items
            if (cursor := page.cursor) is None:
                break

        assert sorted(one.id for one in seen) == [f"w-{number:02}" for number in range(23)]
        assert [(one.updated_at, one.seq) for one in seen] == sorted(
            ((one.updated_at, one.seq) for one in seen), reverse=True
        )
        assert len(work.page(limit=0).items) == 1
        assert len(work.page(limit=10_000).items) == 23
        for bad in ("x", "1.2.3", "1.", "-1.2", "1" * 50 + ".1"):
            with refused(UsageFault):
                work.page(cursor=bad)

    def test_a_page_of_one_state(self, store: Items) -> None:
        """`open` finds what is delayed and what lapsed too; an unknown state gives an empty page."""
        work = store.open()
        now = work.enqueue(item("w-1")).entry.created_at
        given(work.claim(HOLDER))
        store.pass_time(3600)
        work.sweep()
        work.enqueue(item("w-2"))
        work.enqueue(item("w-3", not_before=now + 99_999_999))

        assert {one.id: one.state.value for one in work.page("open").items} == {
            "w-1": "lapsed",
            "w-2": "open",
            "w-3": "delayed",
        }
        assert [one.id for one in work.page("lapsed").items] == ["w-1"]
        assert (work.page("claimed").items, work.page("nonsense").items) == ((), ())

    def test_the_history_tells_who_tried_what(self, store: Items) -> None:
        """Each claim stays on record with its holder, its end and its reason; none overwrites another."""
        work = store.open()
        work.enqueue(item("w-1", max_attempts=9))
        work.release(given(work.claim(ANN)), "first reason")
        work.release(given(work.claim(OTHER)), "second reason", declined=True)
        given(work.claim(ANN))
        store.pass_time(3600)
        work.finish(given(work.claim(HOLDER)), Outcome.FAILED, "no luck")
        told = [(one.attempt, one.holder, one.holder_uid, one.ended) for one in work.attempts("w-1")]

        assert told == [
            (1, "ann", "u-1", "released"),
            (2, OTHER.name, "", "declined"),
            (3, "ann", "u-1", "lapsed"),
            (4, HOLDER.name, "", "failed"),
        ]
        assert [one.why for one in work.attempts("w-1")][:2] == ["first reason", "second reason"]

    def test_a_mistyped_addressee_is_listed(self, store: Items) -> None:
        """An open item for somebody who never asked for work is listed and counted, until that one asks."""
        work = store.open()
        work.enqueue(item("w-1", agent="anne"))
        work.enqueue(item("w-2", group="nobodys"))
        work.enqueue(item("w-3"))
        work.claim(HOLDER)

        assert [one.id for one in work.unseen()] == ["w-1", "w-2"]
        assert work.stats().unseen == 2
        work.claim(Holder("ANNE"), Wanted(frozenset({"w-none"})))
        assert [one.id for one in work.unseen()] == ["w-2"]

    def test_what_ended_long_ago_is_pruned(self, store: Items) -> None:
        """With its payload, history and key, and only what ended; what is claimed or waits stays however old."""
        work = store.open()
        work.enqueue_many([item(f"w-{number}", key=f"k-{number}") for number in range(4)])
        one, two, _ = work.claim_many(HOLDER, limit=3)
        work.finish(one)
        store.pass_time(100_000)
        work.heartbeat(two)
        work.finish(two)

        assert work.prune(50_000) == 1
        assert sorted(shown.id for shown in work.page().items) == ["w-1", "w-2", "w-3"]
        assert work.enqueue(item("w-0", key="k-0", payload="anew")).created

    def test_stats_count_every_state(self, store: Items) -> None:
        """What there is by state, how old the oldest open item is, and the bytes that it takes."""
        work = store.open()
        first = work.enqueue(item("w-1")).entry
        work.enqueue(item("w-2", not_before=first.created_at + 99_999_999))
        work.enqueue_many([item("w-3"), item("w-4"), item("w-5", priority=9)])
        work.cancel("w-4")
        given(work.claim(HOLDER))
        told = work.stats()

        assert dict(told.by_state) == {
            "open": 2,
            "delayed": 1,
            "claimed": 1,
            "lapsed": 0,
            "done": 0,
            "failed": 0,
            "cancelled": 1,
        }
        assert (told.oldest_open_ms, told.overdue) == (first.created_at, 0)
        assert told.size > 0
        store.pass_time(3600)
        assert work.stats().overdue == 1
