"""Items of the work queue as values: their states, whom they are for, and their form as JSON and as lines."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kranzq.model import work_json
from kranzq.model.claim import Holder
from kranzq.model.work import (
    Attempt,
    ItemClaim,
    ItemState,
    NewItem,
    Page,
    Recovered,
    Stats,
    Target,
    WorkItem,
    check_moment,
    check_number,
    check_text,
    folded,
    lease_ms,
    same_holder,
    span_ms,
)
from kranzq.model.work_lines import due_ms, new_item, parse_lines

ITEM = WorkItem(
    id="i-1",
    seq=7,
    title="a title",
    payload="a payload",
    kind="k",
    target=Target("Ann", "u-1", ""),
    priority=5,
    state=ItemState.CLAIMED,
    claimed_by="bob",
    claimed_by_uid="u-2",
    claim_expires=40,
    attempts=2,
    declined=1,
    max_attempts=3,
    created_by="carl",
    created_by_uid="u-3",
    created_at=10,
    updated_at=20,
    not_before=30,
    result="r",
)


def test_which_states_are_final_and_which_may_be_claimed() -> None:
    """A lapsed one may be claimed by another; what has ended stays so."""
    assert [one for one in ItemState if one.is_terminal] == [ItemState.DONE, ItemState.FAILED, ItemState.CANCELLED]
    assert [one for one in ItemState if one.may_be_claimed] == [ItemState.OPEN, ItemState.LAPSED]


@pytest.mark.parametrize(
    ("target", "key"),
    [
        (Target(), "*"),
        (Target(group="Repo:O/R"), "g:repo:o/r"),
        (Target(agent="Ann"), "n:ann"),
        (Target("Ann", "U-1"), "u:U-1"),
    ],
)
def test_a_target_is_one_text(target: Target, key: str) -> None:
    """A uid goes before a name and keeps its case; names and groups do not."""
    assert target.key == key


@pytest.mark.parametrize(
    ("name", "expected"), [("AZaz[@`{", "azaz[@`{"), ("ÄÖ İ", "ÄÖ İ"), ("Two Words", "two words"), ("", "")]
)
def test_only_ascii_letters_lose_their_case(name: str, expected: str) -> None:
    """What a database does in its own way must not matter."""
    assert folded(name) == expected


def test_who_is_the_same_holder() -> None:
    """By uid when both have one, else by name."""
    assert same_holder("Ann", "1", "bob", "1")
    assert not same_holder("ann", "1", "ann", "2")
    assert same_holder("Ann", "", "ann", "2")
    assert same_holder("Ann", "1", "ann", "")
    assert not same_holder("ann", "", "bob", "")


@pytest.mark.parametrize(
    ("wanted", "given"),
    [(None, 120_000), (0, 120_000), (-1, 120_000), (1, 1), (86_400_000, 86_400_000), (86_400_001, 86_400_000)],
)
def test_how_long_a_lease_is(wanted: int | None, given: int) -> None:
    """Two minutes where nothing is said, a day at most."""
    assert lease_ms(wanted) == given


def test_limits_are_taken_to_the_last() -> None:
    """What is just long or large enough is accepted."""
    check_text("t", "é" * 5, 10)
    check_number("n", 1, 1, 2)
    check_number("n", 2, 1, 2)
    check_moment("m", 0)
    check_moment("m", 100_000_000_000)
    assert span_ms("s", 1.5, 0, 1.5) == 1500
    assert span_ms("s", 0, 0, 1) == 0
    made = NewItem("x" * 1024, "x" * 2**20, priority=2**31 - 1, max_attempts=1_000_000, id="i" * 200)
    assert replace(made, priority=-(2**31) + 1, max_attempts=1).created_by == ""


def test_what_sweeps_did_adds_up() -> None:
    """And nothing is nothing."""
    total = Recovered(("a",), (), 1) + Recovered(("b",), ("c",), 2)

    assert total == Recovered(("a", "b"), ("c",), 3)
    assert [bool(one) for one in (Recovered(), Recovered(("a",)), Recovered((), ("a",)), Recovered(opened=1))] == [
        False,
        True,
        True,
        True,
    ]


def test_an_item_as_json_has_these_keys_in_this_order() -> None:
    """Clients of the original paths read them."""
    assert json.dumps(work_json.item_json(ITEM)) == (
        '{"id": "i-1", "title": "a title", "payload": "a payload", "kind": "k", "target_agent": "Ann", '
        '"target_group": "", "priority": 5, "state": "claimed", "claimed_by": "bob", "target_agent_uid": "u-1", '
        '"claimed_by_uid": "u-2", "claim_expires": 40, "attempts": 2, "max_attempts": 3, "created_by": "carl", '
        '"created_by_uid": "u-3", "created_at": 10, "updated_at": 20, "not_before": 30, "result": "r", '
        '"declined": 1, "seq": 7}'
    )


def test_a_change_is_told_without_what_may_be_large() -> None:
    """Payload and result may have a megabyte each."""
    whole = work_json.item_json(ITEM)

    assert work_json.told_json(ITEM) == {key: whole[key] for key in whole if key not in {"payload", "result"}}


def test_what_is_told_of_items_as_json() -> None:
    """Claims, history, pages, sweeps and counts."""
    whole = work_json.item_json(ITEM)

    assert work_json.claim_json(ItemClaim("i-1", 2, Holder("bob"), ITEM)) == {"attempt": 2, "item": whole}
    assert work_json.attempt_json(Attempt(2, "bob", "u-2", 5, None, None, "w")) == {
        "attempt": 2,
        "holder": "bob",
        "holder_uid": "u-2",
        "claimed_at": 5,
        "ended_at": None,
        "ended": None,
        "why": "w",
    }
    assert work_json.page_json(Page((ITEM,), "1.2")) == {"items": [whole], "cursor": "1.2"}
    assert work_json.recovered_json(Recovered(("a",), ("b",), 3)) == {"lapsed": ["a"], "failed": ["b"], "opened": 3}
    assert work_json.stats_json(Stats({"open": 1}, 2, 3, None, 4, 5)) == {
        "states": {"open": 1},
        "unseen": 2,
        "overdue": 3,
        "oldest_open": None,
        "size": 4,
        "log_size": 5,
    }


def test_a_line_may_say_everything() -> None:
    """Each key goes to its field; who hands them over is the creator."""
    line = {
        "title": "t",
        "payload": "p",
        "kind": "k",
        "target_agent": "a",
        "target_agent_uid": "u",
        "priority": 4,
        "max_attempts": 9,
        "not_before": 1_800_000_000_000,
        "id": "i",
        "key": "y",
    }
    (made,) = parse_lines(json.dumps(line).encode() + b"\n\n", 0.0, "me", "my-uid")

    assert made == NewItem("t", "p", "k", Target("a", "u", ""), 4, 9, 1_800_000_000_000, "me", "my-uid", "i", "y")


def test_a_line_may_say_little() -> None:
    """Title and payload; a group instead of an agent; blank lines are passed over, each other one is an item."""
    data = b'{"title": "t", "payload": "p"}\n \n{"title": "u", "payload": "p", "target_group": "g"}'
    first, second = parse_lines(data, 0.0, "me", "")

    assert first == NewItem("t", "p", created_by="me")
    assert second.target == Target(group="g")


def test_a_due_time_is_a_moment() -> None:
    """Milliseconds as they are, a text by the clock of whoever asks, and none at all."""
    assert due_ms(None, 5.0) is None
    assert due_ms(1_800_000_000_000, 5.0) == 1_800_000_000_000
    assert due_ms("+1m", 5.0) == 65_000
    assert new_item({"title": "t", "payload": "p", "not_before": "+2h"}, 1_700_000_000.0, "", "").not_before == (
        1_700_007_200_000
    )
