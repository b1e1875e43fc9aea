"""The weaknesses that the seed's work queue has, by their numbers, and that ours has not; on both engines.

A2 (a lease protects the item, not what its holder does) and A16's strict priority stay, as
docs/reference/compatibility.md says. A11 is in the plans of each engine, A14 and A19 are in its troubles.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kranzq import events
from kranzq.backend import Wanted
from kranzq.errors import Conflict, ItemLost, NoSuchItem, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import MOST_LEASE_MS, MOST_TEXT, MOST_TITLE, Held, ItemState, NewItem, Target
from kranzq.testing.items import OTHER, ItemStore, given, item
from kranzq.testing.store import HOLDER
from tests.item_stores import PostgresItems, SqliteItems, settle
from tests.laboratory import PATIENCE


def test_a1_leases_lapse_although_nobody_claims(engine: ItemStore) -> None:
    """A sweep puts things right and tells of it; until then stats say what is overdue."""
    store = engine.open()
    store.enqueue_many([item("w-1"), item("w-2", max_attempts=1)])
    store.claim_many(HOLDER, limit=2)
    engine.pass_time(3600)
    assert store.stats().overdue == 2
    heard: list[events.Event] = []
    end = events.subscribe(heard.append)
    try:
        swept = store.sweep()
    finally:
        end()

    assert (swept.lapsed, swept.failed) == (("w-1",), ("w-2",))
    assert [event.name for event in heard] == ["WorkSwept"]
    assert store.stats().overdue == 0
    assert {one.id: one.state.value for one in store.page().items} == {"w-1": "lapsed", "w-2": "failed"}


def test_a1_a_sweep_of_many_is_done_in_short_steps(engine: ItemStore) -> None:
    """However many leases are over, all of them lapse, and each is told once."""
    store = engine.open()
    store.enqueue_many([item(f"w-{number:03}") for number in range(250)])
    store.claim_many(HOLDER, limit=250)
    engine.pass_time(3600)

    assert sorted(store.sweep().lapsed) == [f"w-{number:03}" for number in range(250)]
    assert not store.sweep()


@pytest.mark.parametrize("wanted", [31_536_000_000, 2**63 - 1, 2**63, 10**30])
def test_a3_no_lease_is_longer_than_a_day(engine: ItemStore, wanted: int) -> None:
    """Whatever a claim or a heartbeat asks for, and nothing overflows."""
    store = engine.open()
    store.enqueue(item("w-1"))
    claim = given(store.claim(HOLDER, lease_ms=wanted))
    store.heartbeat(claim, wanted)
    engine.pass_time(MOST_LEASE_MS / 1000 + 1)

    assert store.sweep().lapsed == ("w-1",)


def test_a4_an_enqueue_that_is_repeated_makes_one_item(engine: ItemStore) -> None:
    """By one's own id or by a key, also in one call and after the item has ended."""
    store = engine.open()
    by_key = [store.enqueue(item(key="k", created_by="ann")).entry.id for _ in range(3)]
    by_id = [store.enqueue(item("w-1")).created for _ in range(3)]

    assert (len(set(by_key)), by_id) == (1, [True, False, False])
    for kept in store.claim_many(HOLDER, limit=9):
        store.finish(kept)
    assert store.enqueue(item(key="k", created_by="ann")).entry.id == by_key[0]
    with pytest.raises(Conflict):
        store.enqueue(item("w-1", priority=1))


def test_a5_the_same_end_again_is_a_success(engine: ItemStore) -> None:
    """A holder whose answer was lost may ask again, as often as it likes."""
    store = engine.open()
    store.enqueue(item("w-1"))
    claim = given(store.claim(HOLDER))
    for _ in range(3):
        store.finish(claim, Outcome.SUCCEEDED, "the result")

    assert store.show("w-1").result == "the result"


def test_a6_a_claim_whose_answer_was_lost_burns_nothing(engine: ItemStore) -> None:
    """Three lost answers under one request are one attempt."""
    store = engine.open()
    store.enqueue(item("w-1"))
    claims = [given(store.claim(HOLDER, request_id="r-1")) for _ in range(4)]

    assert {(claim.id, claim.attempt) for claim in claims} == {("w-1", 1)}
    assert store.show("w-1").attempts == 1


def test_a6_an_item_that_ended_is_not_given_again_by_its_request(engine: ItemStore) -> None:
    """A request whose item has ended, or which another has, is a new one."""
    store = engine.open()
    store.enqueue_many([item("w-1"), item("w-2")])
    store.finish(given(store.claim(HOLDER, request_id="r-1")))

    assert given(store.claim(HOLDER, request_id="r-1")).id == "w-2"
    assert store.claim(OTHER, request_id="r-1") is None


def test_a7_polite_refusals_and_restarts_burn_nothing(engine: ItemStore) -> None:
    """A declined attempt raises the fence and uses nothing up."""
    store = engine.open()
    store.enqueue(item("w-1", max_attempts=3))
    for _ in range(10):
        assert store.release(given(store.claim(HOLDER)), "restart", declined=True) is ItemState.OPEN

    claim = given(store.claim(HOLDER))
    assert (claim.attempt, claim.item.declined) == (11, 10)


def test_a8_another_uid_is_another_holder_and_a_bare_name_is_counted(engine: ItemStore) -> None:
    """Who holds with a uid is not spoken for by another uid; a caller without one is known by name, and counted."""
    store, ann = engine.open(), Holder("ann", uid="u-1")
    store.enqueue(item("w-1"))
    claim = given(store.claim(ann))
    for attempt in (1, 2, 3):
        with pytest.raises(ItemLost):
            store.finish(Held("w-1", attempt, Holder("ann", uid="u-2")))
    assert store.counters().get("m4c.holder_by_name", 0) == 0
    store.heartbeat(Held("w-1", claim.attempt, Holder("ann")))

    assert store.counters()["m4c.holder_by_name"] == 1


def test_who_is_given_by_name_only_is_counted(engine: ItemStore) -> None:
    """An addressee or a claimer without a uid is counted by the seed's names; with one, or for anybody, it is not."""
    store = engine.open()
    store.enqueue(NewItem("for anybody", "p"))
    store.enqueue(NewItem("by uid", "p", target=Target(agent="ann", uid="u-1")))
    store.claim(Holder("ann", uid="u-1"))
    assert not {"work_enqueue.uid_not_carried", "work_claim.uid_not_carried"} & store.counters().keys()
    store.enqueue(NewItem("by name", "p", target=Target(agent="bob")))
    store.claim(Holder("bob"))

    assert store.counters()["work_enqueue.uid_not_carried"] == 1
    assert store.counters()["work_claim.uid_not_carried"] == 1


def test_a8_a_holder_learns_that_its_item_was_cancelled(engine: ItemStore) -> None:
    """Not only that it has lost it: also that, and why, at its next call."""
    store = engine.open()
    store.enqueue(item("w-1"))
    claim = given(store.claim(HOLDER))
    store.cancel("w-1", "the plan changed")
    with pytest.raises(ItemLost, match="was cancelled: the plan changed") as caught:
        store.heartbeat(claim)

    assert caught.value.cancelled == "the plan changed"


@pytest.mark.parametrize(
    ("written", "asked"), [("AgentY", "agenty"), ("agenty", "AGENTY"), ("\u00dcnal", "\u00dcNAL")], ids=ascii
)
def test_a9_names_match_without_regard_to_ascii_case(engine: ItemStore, written: str, asked: str) -> None:
    """Of an agent and of a group alike, as in presence; a holder may write its name otherwise than when it claimed."""
    store = engine.open()
    store.enqueue_many([item("w-1", agent=written), item("w-2", group=written)])
    first, second = store.claim_many(Holder(asked), Wanted(groups=frozenset({asked})), limit=9)

    store.heartbeat(Held(first.id, first.attempt, Holder(written)))
    store.finish(Held(second.id, second.attempt, Holder(written.lower() if written.isascii() else written)))


@pytest.mark.parametrize(
    ("one", "other"), [("\u00c9", "\u00e9"), ("\u017f", "s"), ("\u212a", "k"), ("\u0130", "i")], ids=ascii
)
def test_a9_other_letters_are_not_folded(engine: ItemStore, one: str, other: str) -> None:
    """Beyond ASCII two names are two, on every engine and whatever its locale."""
    store = engine.open()
    store.enqueue_many([item("w-1", agent=one), item("w-2")])
    claim = given(store.claim(Holder(other)))

    assert (claim.id, store.claim(Holder(other))) == ("w-2", None)
    with pytest.raises(ItemLost):
        store.finish(Held("w-2", claim.attempt, Holder(one)))


def test_a10_what_nobody_may_ever_claim_is_listed(engine: ItemStore) -> None:
    """A deleted agent's uid and a group without members are seen, with their number; groups can be claimed."""
    store = engine.open()
    store.enqueue_many([item("w-1", uid="deleted", agent="ann"), item("w-2", group="nobody"), item("w-3", group="g")])
    claim = given(store.claim(Holder("ann", uid="u-1"), Wanted(groups=frozenset({"g"}))))

    assert claim.id == "w-3"
    assert [one.id for one in store.unseen()] == ["w-1", "w-2"]
    assert store.stats().unseen == 2


def test_a12_what_ended_is_reached_by_pages_and_then_pruned(engine: ItemStore) -> None:
    """No cap hides old items, and they do not stay for ever."""
    store = engine.open()
    for _ in range(3):
        store.enqueue_many([item() for _ in range(250)])
        for claim in store.claim_many(HOLDER, limit=250):
            store.finish(claim)
    seen, cursor = set(), None
    while True:
        page = store.page("done", limit=500, cursor=cursor)
        seen |= {one.id for one in page.items}
        if (cursor := page.cursor) is None:
            break
    engine.pass_time(100)

    assert len(seen) == 750
    assert (store.prune(1000), store.prune(50), store.prune(50)) == (0, 750, 0)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        *(("title", "x" * (MOST_TITLE + 1)), ("payload", "x" * (MOST_TEXT + 1)), ("kind", "x" * 201)),
        *(("title", "é" * MOST_TITLE), ("title", " \n\t"), ("payload", ""), ("payload", "a\0b"), ("title", "\ud800")),
        *(("key", "x" * 201), ("created_by", "\0")),
    ],
    ids=range(10),
)
def test_a12_sizes_are_limited_at_the_door(field: str, text: str) -> None:
    """In bytes, by the name of the field; half a character and NUL are no text."""
    with pytest.raises(UsageFault, match=field):
        item(**{field: text})


def test_a12_the_largest_item_is_taken_and_given_whole(engine: ItemStore) -> None:
    """A megabyte of payload and of result, in letters of more than one byte."""
    store, payload = engine.open(), "漢" * (MOST_TEXT // 3)
    store.enqueue(item("w-1", title="t" * MOST_TITLE, payload=payload))
    claim = given(store.claim(HOLDER))
    assert claim.item.payload == payload
    store.finish(claim, Outcome.SUCCEEDED, payload)

    assert store.show("w-1").result == payload
    with pytest.raises(UsageFault, match="result"):
        store.finish(claim, Outcome.SUCCEEDED, "x" * (MOST_TEXT + 1))


def test_a13_a_claim_puts_right_what_is_overdue_before_it_looks(engine: ItemStore) -> None:
    """In one call: the lapsed item of a higher priority is given before what is open."""
    store = engine.open()
    store.enqueue_many([item("w-1", priority=9), item("w-2")])
    given(store.claim(HOLDER))
    engine.pass_time(3600)
    other = engine.open()

    assert (given(other.claim(OTHER)).id, [one.ended for one in store.attempts("w-1")]) == ("w-1", ["lapsed", None])


@pytest.mark.parametrize("seconds", [300, -300])
def test_a15_a_step_of_the_clock_takes_no_lease_and_gives_none(sqlite_items: SqliteItems, seconds: int) -> None:
    """Live holders stay, and dead ones do not hold on; for PostgreSQL only the server's own clock counts."""
    store = sqlite_items.open()
    store.enqueue(item("w-1"))
    claim = given(store.claim(HOLDER))
    sqlite_items.clock.step(seconds)
    assert not store.sweep()
    store.heartbeat(claim)
    sqlite_items.pass_time(121)

    assert store.sweep().lapsed == ("w-1",)


def test_a16_equal_moments_have_an_order(engine: ItemStore) -> None:
    """What came in the same millisecond, in one call, is given in the order of insertion, also after a release."""
    store = engine.open()
    store.enqueue_many([item(f"w-{number}") for number in range(9)])
    store.release(given(store.claim(HOLDER)), "back")
    expected = [f"w-{number}" for number in range(9)]

    assert [one.id for one in store.entries()] == expected
    assert [one.id for one in store.claim_many(HOLDER, limit=9)] == expected


def test_a17_no_reason_is_overwritten(engine: ItemStore) -> None:
    """Each attempt keeps who had it, how it ended and why; the result is that of the end."""
    store = engine.open()
    store.enqueue(item("w-1", max_attempts=9))
    for who, why in (("ann", "first"), ("bob", "second"), ("ann", "third")):
        store.release(given(store.claim(Holder(who))), why)
    store.finish(given(store.claim(HOLDER)), Outcome.SUCCEEDED, "the result")

    assert [(one.holder, one.why) for one in store.attempts("w-1")][:3] == [
        *(("ann", "first"), ("bob", "second"), ("ann", "third"))
    ]
    assert store.show("w-1").result == "the result"


def test_a18_whoever_waits_elsewhere_hears_of_a_change(engine: SqliteItems | PostgresItems) -> None:
    """Another program that waits for work is woken by an enqueue, long before its time is over."""
    here, there = engine.open(), engine.open()
    there.claim(HOLDER)
    settled, woken = threading.Event(), list[bool]()

    def wait() -> None:
        settle(there)
        settled.set()
        woken.append(there.wait_for_work(PATIENCE))

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    assert settled.wait(PATIENCE)
    here.enqueue(item("w-1"))
    waiter.join(PATIENCE)

    assert woken == [True]


def test_a18_events_say_what_happened_to_which_item(engine: ItemStore) -> None:
    """Each successful call is one event with the item's id; one that changed nothing is none."""
    store = engine.open()
    heard: list[tuple[str, Any]] = []
    end = events.subscribe(lambda event: heard.append((event.name, getattr(event, "item", None))))
    try:
        store.enqueue(item("w-1"))
        store.enqueue(item("w-1"))
        claim = given(store.claim(HOLDER))
        store.claim(OTHER)
        store.heartbeat(claim)
        store.release(claim)
        store.finish(claim := given(store.claim(HOLDER)))
        store.finish(claim)
        store.enqueue(item("w-2"))
        store.cancel("w-2")
        store.cancel("w-2")
    finally:
        end()

    names = (
        "ItemEnqueued ItemClaimed LeaseRenewed ItemReleased ItemClaimed ItemEnded ItemEnqueued ItemCancelled".split()
    )
    assert [name for name, _ in heard] == names
    assert [item for _, item in heard] == ["w-1"] * 6 + ["w-2"] * 2


@pytest.mark.parametrize(
    "call",
    [
        lambda store, held: store.heartbeat(held),
        lambda store, held: store.finish(held),
        lambda store, held: store.release(held),
    ],
    ids=["heartbeat", "finish", "release"],
)
def test_a20_a_wrong_id_and_a_lost_lease_are_two_things(engine: ItemStore, call: Callable[..., object]) -> None:
    """The first is not found, the second is lost, with the state that the item has now."""
    store = engine.open()
    store.enqueue(item("w-1"))
    old = given(store.claim(HOLDER))
    engine.pass_time(3600)
    given(store.claim(OTHER))
    with pytest.raises(NoSuchItem):
        call(store, Held("w-2", 1, HOLDER))
    with pytest.raises(ItemLost) as caught:
        call(store, old)

    assert (caught.value.item, caught.value.attempt, caught.value.state) == ("w-1", 1, "claimed")


def test_a21_the_moment_of_loss_is_anothers_claim_and_is_seen_before(engine: ItemStore) -> None:
    """An expired lease is shown as lapsed; its holder may come back until another has the item, and not after."""
    store = engine.open()
    store.enqueue(item("w-1"))
    claim = given(store.claim(HOLDER))
    engine.pass_time(3600)
    store.sweep()
    assert store.show("w-1").state is ItemState.LAPSED
    assert store.heartbeat(claim).item.state is ItemState.CLAIMED
    engine.pass_time(3600)
    given(store.claim(OTHER))
    with pytest.raises(ItemLost):
        store.heartbeat(claim)
