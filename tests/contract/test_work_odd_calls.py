"""Calls that nobody should make: refused alike on both engines, by the name of what is wrong, with nothing changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from kranzq.backend import Wanted
from kranzq.backend.items import WorkStore
from kranzq.errors import Conflict, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import Finish, Held, ItemClaim
from kranzq.testing.items import ItemStore, given, item
from kranzq.testing.store import HOLDER

Call = Callable[[WorkStore, ItemClaim, Any], object]
NO_NUMBERS = (math.nan, "1", True, 1.5)
NO_LENGTHS = (math.nan, math.inf, -math.inf, 1e300, 2**70, "1", None, True)
NO_TEXTS = ("a\0b", "\ud800", 1, None, b"x")
CALLS: dict[str, tuple[Call, tuple[Any, ...]]] = {
    "limit of entries": (lambda store, _, odd: store.entries(limit=odd), (*NO_NUMBERS, -1, 2**70)),
    "limit of unseen": (lambda store, _, odd: store.unseen(odd), (*NO_NUMBERS, -1, 2**70, None)),
    "limit of page": (lambda store, _, odd: store.page(limit=odd), (*NO_NUMBERS, None)),
    "limit of claim_many": (lambda store, _, odd: store.claim_many(HOLDER, limit=odd), (*NO_NUMBERS, 0, 1001, None)),
    "lease of a claim": (lambda store, _, odd: store.claim(HOLDER, lease_ms=odd), NO_NUMBERS),
    "lease of a heartbeat": (lambda store, held, odd: store.heartbeat(held, odd), NO_NUMBERS),
    "delay": (lambda store, held, odd: store.release(held, delay_ms=odd), (*NO_NUMBERS, -1, 2**70, None)),
    "age": (lambda store, _, odd: store.prune(odd), NO_LENGTHS),
    "grace": (lambda store, _, odd: store.grant_grace(odd), (*NO_LENGTHS, -1, 86_401)),
    "id to show": (lambda store, _, odd: store.show(odd), NO_TEXTS),
    "id of attempts": (lambda store, _, odd: store.attempts(odd), NO_TEXTS),
    "id to cancel": (lambda store, _, odd: store.cancel(odd), NO_TEXTS),
    "reason of a cancel": (lambda store, _, odd: store.cancel("w-2", odd), NO_TEXTS),
    "reason of a release": (lambda store, held, odd: store.release(held, odd), NO_TEXTS),
    "result": (lambda store, held, odd: store.finish(held, Outcome.SUCCEEDED, odd), NO_TEXTS),
    "request": (lambda store, _, odd: store.claim(HOLDER, request_id=odd), (*NO_TEXTS, "x" * 201)),
    "holder": (lambda store, _, odd: store.claim(Holder(odd)), (*NO_TEXTS, " ", "", "x" * 201)),
    "holder's uid": (lambda store, _, odd: store.claim(Holder("ann", uid=odd)), NO_TEXTS),
    "holder of a heartbeat": (lambda store, held, odd: store.heartbeat(Held(held.id, 1, Holder(odd))), NO_TEXTS),
    "kind": (lambda store, _, odd: store.claim(HOLDER, Wanted(kind=odd)), NO_TEXTS),
    "group": (lambda store, _, odd: store.claim(HOLDER, Wanted(groups=frozenset({odd}))), NO_TEXTS),
    "wanted id": (lambda store, _, odd: store.claim(HOLDER, Wanted(frozenset({odd}))), NO_TEXTS),
    "cursor": (lambda store, _, odd: store.page(cursor=odd), ("a\0b", "\ud800", 1, b"1.1", "1.-1", "9" * 30 + ".1")),
}


@pytest.mark.parametrize("what", CALLS)
def test_what_is_no_answer_to_a_question_is_refused(engine: ItemStore, what: str) -> None:
    """With a fault of usage, and never with one of the engine or of the language."""
    store = engine.open()
    store.enqueue_many([item("w-1"), item("w-2")])
    held = given(store.claim(HOLDER))
    before = [(store.show(name), store.attempts(name)) for name in ("w-1", "w-2")]
    call, odd_ones = CALLS[what]

    for odd in odd_ones:
        with pytest.raises(UsageFault):
            call(store, held, odd)
    assert [(store.show(name), store.attempts(name)) for name in ("w-1", "w-2")] == before


def test_too_much_at_once_is_refused(engine: ItemStore) -> None:
    """Items, ends, groups and ids, each with its limit said."""
    store = engine.open()
    for call in (
        lambda: store.enqueue_many([item()] * 1001),
        lambda: store.finish_many([Finish(Held("w-1", 1, HOLDER))] * 1001),
        lambda: store.claim(HOLDER, Wanted(groups=frozenset(str(number) for number in range(65)))),
        lambda: store.claim(HOLDER, Wanted(frozenset(str(number) for number in range(1001)))),
    ):
        with pytest.raises(UsageFault, match="At most"):
            call()

    assert store.entries() == []


def test_odd_ends_among_many_are_told_in_their_places(engine: ItemStore) -> None:
    """A fault of usage in one of many leaves the others alone as any other refusal does."""
    store = engine.open()
    store.enqueue(item("w-1"))
    held = given(store.claim(HOLDER))
    ends = [Finish(Held("w-1", -1, HOLDER)), Finish(held, Outcome.SUCCEEDED, "\0"), Finish(held), Finish(held)]

    assert [type(fault).__name__ for fault in store.finish_many(ends)] == ["UsageFault"] * 2 + ["NoneType"] * 2


def test_one_key_for_two_in_one_call(engine: ItemStore) -> None:
    """Within one call a key means what it means in two: the same item, or a refusal of all."""
    store = engine.open()
    assert [one.created for one in store.enqueue_many([item(key="k"), item(key="k")])] == [True, False]
    assert [one.entry.id for one in store.enqueue_many([item("w-1", key="l"), item("w-2", key="l")])] == ["w-1"] * 2
    with pytest.raises(Conflict, match="used for another item"):
        store.enqueue_many([item("w-3"), item(key="m"), item(key="m", payload="another")])

    assert len(store.entries()) == 2
