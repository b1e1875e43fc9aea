"""Names: built and parsed without loss, in numeric order whatever their width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.backends.file.layout import (
    FEW,
    EntryName,
    ItemName,
    all_regular,
    claim_name,
    entry_name,
    is_candidate,
    item_name,
    order_keys,
    parse_claim_name,
    parse_entry_name,
    parse_item_name,
    parse_waiting_name,
    waiting_name,
)
from kranzq.model.entry import MAX_NUMBER
from kranzq.model.ids import MissionId

missions = st.from_regex(r"[a-z][a-z0-9\-]{0,20}", fullmatch=True).map(MissionId)
priorities = st.integers(0, 255)
numbers = st.integers(0, MAX_NUMBER)


def parsed(text: str) -> EntryName:
    """The parts of a name that must be an entry's."""
    name = parse_entry_name(text)
    assert name is not None
    return name


def test_a_name_is_the_one_that_kranz_computes() -> None:
    """Three digits, twenty digits, the id: kranz claims a file only under exactly this name."""
    assert entry_name(2, 7, MissionId("m-1a2b3c")).text == "002-00000000000000000007-m-1a2b3c.json"


@given(priorities, numbers, missions, st.integers(1, 4_194_304), st.none() | st.integers(0, 10**14))
def test_names_come_back_as_they_were_built(
    priority: int, number: int, mission: MissionId, pid: int, due: int | None
) -> None:
    """Entry, claim and waiting names tell exactly what was put into them."""
    entry = entry_name(priority, number, mission)
    claim = claim_name(entry, pid, "0123456789abcdef")
    waiting = waiting_name(entry, due)

    assert parse_entry_name(entry.text) == entry
    assert parse_claim_name(claim.text) == claim
    assert parse_waiting_name(waiting.text) == waiting
    assert (is_candidate(entry.text), is_candidate(claim.text)) == (True, False)


@given(st.lists(st.tuples(priorities, numbers, st.integers(0, 3), st.integers(0, 3)), max_size=12))
def test_b45_names_sort_as_their_numbers_do(parts: list[tuple[int, int, int, int]]) -> None:
    """With any number of leading zeros the order is by priority, then by number, never by text."""
    names = [parsed(f"{'0' * left}{p}-{'0' * right}{n}-m.json") for p, n, left, right in parts]

    assert [(name.priority, name.number) for name in sorted(names)] == sorted((p, n) for p, n, _, _ in parts)


def test_b45_old_widths_keep_their_numeric_place() -> None:
    """Ten comes after nine, and a number that outgrew its padding after those that did not."""
    texts = [
        "2-10-m.json",
        "002-9-m.json",
        "10-0-m.json",
        "002-10000000000-m.json",
        "2-9999999999-m.json",
        "0-99-m.json",
    ]

    assert [name.text for name in sorted(map(parsed, texts))] == [
        "0-99-m.json",
        "002-9-m.json",
        "2-10-m.json",
        "2-9999999999-m.json",
        "002-10000000000-m.json",
        "10-0-m.json",
    ]


MANY = {name: name for name in (f"002-{number:020d}-m.json" for number in range(900, 900 + FEW + 1))}
"""So many that they are searched for at once."""


@pytest.mark.parametrize(
    "text",
    [
        "x.json", "-1-0-m.json", "+2-0-m.json", "2-+1-m.json", "2--1-m.json", "256-0-m.json", "2147483648-0-m.json",
        f"2-{MAX_NUMBER + 1}-m.json", f"2-{'9' * 21}-m.json", "2-0-.json", "2-0-../m.json", "2-0-m", "2-0-m.JSON",
        "2-0-m.json ",
        "\u0662-0-m.json", " 2-0-m.json", "2-0-m.json\n", "2.0-0-m.json", "2-0-a.claimed.b.json", "2-0-m.json.json",
    ],
)  # fmt: skip
def test_b45_a_name_that_cannot_sort_right_is_no_entry(text: str) -> None:
    """Signs, other digits, numbers out of range and ids that are none make no entry."""
    assert parse_entry_name(text) is None


@pytest.mark.parametrize(
    "tail",
    ["", "x", "0", "-1", "host7-4711", "4711.", "4711.xyz", "4711.0123456789ABCDEF", "4711.0123456789abcde",
     "4711.0123456789abcdef.1", "\u0664711", "12345678901", "4711 ", "4711.0123456789abcdef\n"],
)  # fmt: skip
def test_text_that_only_looks_like_a_claim_is_none(tail: str) -> None:
    """A foreign mark is never taken for a pid, so nobody is probed or signalled and nothing is put back for it."""
    assert parse_claim_name(f"002-00000000000000000000-m.json.claimed.{tail}") is None


@pytest.mark.parametrize("suffix", ["", ".0123456789abcdef"])
def test_claims_of_every_generation_are_read(suffix: str) -> None:
    """A bare pid and one with sixteen hex digits are claims."""
    name = parse_claim_name(f"002-00000000000000000003-m.json.claimed.4711{suffix}")

    assert name is not None
    assert (name.pid, name.suffix, name.entry.text) == (4711, suffix[1:] or None, "002-00000000000000000003-m.json")


@pytest.mark.parametrize(
    "text", ["x.2-0-m.json", ".2-0-m.json", "-1.2-0-m.json", "1e3.2-0-m.json", "7.m.json", "7.2-0-m"]
)
def test_what_is_no_waiting_name_is_none(text: str) -> None:
    """A due time is digits, or the word *after*."""
    assert parse_waiting_name(text) is None


ITEM = ".item.c15e480f.4711.0123456789abcdef"


def test_the_name_of_a_claim_on_an_item_comes_back() -> None:
    """It begins with a dot, so that kranz leaves it alone; its mission is made of the item's id."""
    expected = ItemName(MissionId("item-c15e480f"), 4711, "0123456789abcdef", ITEM)

    assert item_name(MissionId("item-c15e480f"), 4711, "0123456789abcdef") == expected
    assert parse_item_name(ITEM) == expected
    assert parse_item_name(ITEM.replace("4711", "1")) is not None


@pytest.mark.parametrize(
    "text",
    [
        ITEM.replace("4711", "0"),
        ITEM.replace("c15e480f", "a..b"),
        ITEM.replace("4711", "x"),
        ITEM[:-1],
        ITEM[1:],
        f"x{ITEM}",
        "002-00000000000000000007-m.json",
    ],
)
def test_what_is_no_claim_on_an_item_is_none(text: str) -> None:
    """It is never probed."""
    assert parse_item_name(text) is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("002-00000000000000000007-m.json", "002-00000000000000000007-m.json"),
        ("255-00001000000000000000-m.json", "255-00001000000000000000-m.json"),
        ("2-7-m.json", "002-00000000000000000007-m.json"),
        ("0002-7-M_1.json", "002-00000000000000000007-M_1.json"),
        ("256-00000000000000000007-m.json", None),
        ("002-00001000000000000001-m.json", None),
        ("002-10000000000000000001-m.json", None),
        ("002-00000000000000000007-.json", None),
        ("002-00000000000000000007-a..b.json", None),
        ("002-00000000000000000007-m.lock.json", None),
        ("m.json", None),
    ],
)
def test_a_name_sorts_by_its_numbers(text: str, key: str | None) -> None:
    """Whatever their width; what is no entry's name has no place in the order."""
    assert order_keys([text]) == {text: key}
    assert order_keys([text, *MANY]) == {text: key} | MANY


@given(
    st.lists(
        st.from_regex(
            r"[0-9]{1,4}-0{0,17}[0-9]{1,4}-[a-z0-9._\-]{0,6}(|\.json)(|\.claimed\.[0-9]{1,3})(|\n|\.json)",
            fullmatch=True,
        ),
        unique=True,
    )
)
def test_many_names_have_the_keys_that_each_of_them_has_alone(names: list[str]) -> None:
    """One search for all finds what parsing each finds, whatever lies beside it."""
    alone = {
        name: None if (parsed := parse_entry_name(name)) is None else entry_name(*_parts(parsed)).text
        for name in names
        if is_candidate(name)
    }

    assert order_keys(names) == alone
    assert order_keys([*names, *MANY]) == alone | MANY


def _parts(name: EntryName) -> tuple[int, int, MissionId]:
    return name.priority, name.number, name.mission


def test_a_hidden_name_asks_for_nothing() -> None:
    """It is being written, or a lock."""
    assert is_candidate("m.json")
    assert not is_candidate(".m.json")
    assert not is_candidate("m.json.tmp")


@given(
    st.lists(
        st.from_regex(r"(00[0-9]|25[5-6])-0000[01]0{0,2}[0-9]{15}-[a-zA-Z0-9._\-]{1,7}\.json", fullmatch=True),
        unique=True,
    )
)
def test_names_are_all_regular_only_if_each_of_them_is(names: list[str]) -> None:
    """What is looked through at once is what parsing would find; where one may be none, nothing is claimed."""
    found = all_regular([*names, *MANY])

    if found is not None:
        assert found == [*names, *MANY]
        assert all(parse_entry_name(name) is not None for name in names)


@pytest.mark.parametrize("odd", ["a.b", "1.2.3", "m.jsonx"])
def test_an_id_with_a_dot_is_regular(odd: str) -> None:
    """It is one of many like the others."""
    name = f"002-00000000000000000007-{odd}.json"

    assert all_regular([name, *MANY]) == [name, *MANY]


@pytest.mark.parametrize(
    "odd", ["a..b", "a.claimed.b", "a.CLAIMED", "a.json", "a.json.why", "a.LOCK", "a.tmp", ".a", "é"]
)
def test_a_name_that_is_none_is_found_among_many(odd: str) -> None:
    """Others than it keep their place."""
    name = f"002-00000000000000000007-{odd}.json"

    assert all_regular([name, *MANY]) is None
    assert order_keys([name, *MANY]) == {name: None} | MANY
