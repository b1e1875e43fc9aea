"""Signatures: every covered field counts, nothing else does, and no byte can change its field."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kranzq.errors import Refused
from kranzq.model.entry import Entry, Own, parse, render
from kranzq.model.ids import MissionId
from kranzq.trust.key import Key
from kranzq.trust.mac import Signature, resign, sign, verify

ROOT = "/home/ada/project"
KEY = Key.of(b"k" * 32)
OTHER_KEY = Key.of(b"o" * 32)

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
missions = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True).map(MissionId)
names = st.text(st.characters(exclude_characters="\0=", exclude_categories=["Cs"]), min_size=1, max_size=6)
field_values: dict[str, st.SearchStrategy[Any]] = {
    "id": st.text("0123456789abcdef", min_size=32, max_size=32),
    "repo": texts,
    "command": st.lists(texts, max_size=4).map(tuple),
    "timeout_seconds": st.none() | st.floats(min_value=0.001, max_value=1e9),
    "env": st.dictionaries(names, texts, max_size=3),
    "cwd": texts,
    "after": st.lists(missions, max_size=3).map(tuple),
}
owns = st.builds(Own, **{name: value for name, value in field_values.items() if name != "repo"})
entries = st.builds(Entry, mission=missions, own=owns)


class Ring:
    """A keyring in memory."""

    def __init__(self, *keys: Key) -> None:
        self._keys = {key.id: key for key in keys}

    def find(self, key_id: str) -> Key | None:
        """The key with this id, or None."""
        return self._keys.get(key_id)


def own_of(entry: Entry) -> Own:
    """The fields of ours, which are there."""
    assert entry.own is not None
    return entry.own


def an_entry(**fields: Any) -> Entry:
    """An entry with the given fields of ours."""
    return Entry(MissionId("m-1"), own=Own(id="0" * 32, **fields))


@given(entries)
def test_signed_is_valid_after_a_round_trip_through_the_file(entry: Entry) -> None:
    """A signed entry verifies, also after it was written to a file and read again."""
    signed = sign(entry, ROOT, KEY)

    assert verify(signed, ROOT, Ring(KEY)) is Signature.VALID
    assert verify(parse(render(signed)), ROOT, Ring(KEY)) is Signature.VALID


@given(entries, st.data())
def test_any_change_of_a_covered_field_is_found(entry: Entry, data: st.DataObject) -> None:
    """Changing any field that decides what is executed, where or after what makes the signature wrong."""
    signed = sign(entry, ROOT, KEY)
    name = data.draw(st.sampled_from([*field_values, "mission"]))
    if name == "mission":
        changed = replace(signed, mission=data.draw(missions))
        assume(changed.mission != signed.mission)
    else:
        value = data.draw(field_values[name])
        assume(value != getattr(own_of(signed), name))
        changed = replace(signed, own=replace(own_of(signed), **{name: value}))

    assert verify(changed, ROOT, Ring(KEY)) is Signature.WRONG


@given(entries, st.integers(0, 255), st.integers(0, 10**15))
def test_priority_number_and_due_time_are_free(entry: Entry, priority: int, number: int) -> None:
    """An entry stays signed when it gets another priority, number or due time."""
    signed = sign(entry, ROOT, KEY)

    moved = replace(signed, priority=priority, number=number)
    moved = replace(moved, own=replace(own_of(moved), not_before="2030-01-01T00:00:00.000Z"))

    assert verify(moved, ROOT, Ring(KEY)) is Signature.VALID


@given(entries, entries)
def test_two_entries_share_a_signature_only_when_they_execute_the_same(one: Entry, other: Entry) -> None:
    """Different entries have different signatures, however their texts lie beside each other."""
    assume((one.mission, one.own) != (other.mission, other.own))

    assert own_of(sign(one, ROOT, KEY)).mac != own_of(sign(other, ROOT, KEY)).mac


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"command": ("ab", "c")}, {"command": ("a", "bc")}),
        ({"command": ("a",), "cwd": "b"}, {"command": ("a", "b")}),
        ({"command": ()}, {"command": ("",)}),
        ({"command": ("1", "")}, {"command": ("1",), "cwd": ""}),
        ({"env": {"A": "B", "C": "D"}}, {"env": {"A": "BCD"}}),
        ({"env": {"A": "1"}}, {"after": (MissionId("A"), MissionId("1"))}),
        ({"command": ("x", "2", "A", "1")}, {"command": ("x",), "env": {"A": "1"}}),
        ({"timeout_seconds": 1.0}, {"cwd": (1.0).hex()}),
        ({"cwd": "\ud800"}, {"cwd": "?"}),
        ({"cwd": "e\u0301"}, {"cwd": "\u00e9"}),
    ],
)
def test_no_text_can_slide_into_the_next_field(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Two ways to cut the same letters into fields never share a signature."""
    assert own_of(sign(an_entry(**one), ROOT, KEY)).mac != own_of(sign(an_entry(**other), ROOT, KEY)).mac


def test_the_order_of_the_environment_does_not_matter() -> None:
    """The same environment in another order is the same entry."""
    signed = sign(an_entry(env={"A": "1", "B": "2"}), ROOT, KEY)

    turned = replace(signed, own=replace(own_of(signed), env={"B": "2", "A": "1"}))

    assert verify(turned, ROOT, Ring(KEY)) is Signature.VALID


def test_whole_seconds_survive_the_file() -> None:
    """A timeout given as a whole number is the same after the file was read, which gives a fraction."""
    signed = sign(an_entry(timeout_seconds=90), ROOT, KEY)

    assert verify(parse(render(signed)), ROOT, Ring(KEY)) is Signature.VALID


def test_moved_is_told_apart_from_wrong() -> None:
    """An entry of a copied checkout is moved; one whose path was then rewritten by hand is wrong."""
    signed = sign(an_entry(), ROOT, KEY)
    rewritten = replace(signed, own=replace(own_of(signed), repo="/elsewhere"))

    assert verify(signed, "/elsewhere", Ring(KEY)) is Signature.MOVED
    assert verify(rewritten, "/elsewhere", Ring(KEY)) is Signature.WRONG


def test_another_users_key_is_unknown() -> None:
    """A signature with a key that is not here is neither valid nor wrong."""
    assert verify(sign(an_entry(), ROOT, OTHER_KEY), ROOT, Ring(KEY)) is Signature.UNKNOWN_KEY


def test_a_known_key_named_over_a_foreign_signature_is_wrong() -> None:
    """Naming our key does not make another's signature ours."""
    signed = sign(an_entry(), ROOT, OTHER_KEY)

    assert verify(replace(signed, own=replace(own_of(signed), key=KEY.id)), ROOT, Ring(KEY)) is Signature.WRONG


@pytest.mark.parametrize("key_id", ["", "../../etc/passwd", "0" * 15, "A" * 16, "0" * 16 + "\n"])
def test_a_key_id_of_another_form_is_wrong(key_id: str) -> None:
    """What cannot be a key id is never looked for."""
    signed = sign(an_entry(), ROOT, KEY)

    assert verify(replace(signed, own=replace(own_of(signed), key=key_id)), ROOT, Ring(KEY)) is Signature.WRONG


@pytest.mark.parametrize("mac", ["x", "é", "\ud800", "0" * 64, "0" * 100_000])
def test_a_signature_of_any_text_is_only_wrong(mac: str) -> None:
    """No text in the place of a signature makes verifying fail otherwise."""
    signed = sign(an_entry(), ROOT, KEY)

    assert verify(replace(signed, own=replace(own_of(signed), mac=mac)), ROOT, Ring(KEY)) is Signature.WRONG


def test_no_fields_of_ours_or_no_signature_is_unsigned() -> None:
    """An entry of kranz, and one whose signature was taken away, are unsigned."""
    signed = sign(an_entry(command=("make",)), ROOT, KEY)

    assert verify(Entry(MissionId("m-1")), ROOT, Ring(KEY)) is Signature.UNSIGNED
    assert verify(replace(signed, own=replace(own_of(signed), mac="")), ROOT, Ring(KEY)) is Signature.UNSIGNED


def test_signing_anew_is_for_moved_entries_only() -> None:
    """A moved entry gets a valid signature for its new place; anything else is refused by name."""
    moved = sign(an_entry(command=("make",)), "/old", OTHER_KEY)
    ring = Ring(KEY, OTHER_KEY)

    again = resign(moved, ROOT, KEY, ring)

    assert verify(again, ROOT, ring) is Signature.VALID
    assert own_of(again).key == KEY.id
    for bad in (again, an_entry(), replace(moved, mission=MissionId("m-2"))):
        with pytest.raises(Refused, match="is not signed anew"):
            resign(bad, ROOT, KEY, ring)
