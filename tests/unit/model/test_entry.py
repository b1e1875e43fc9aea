"""Entries as JSON: kranz's bytes both ways, strangers' keys kept, and nothing believed that cannot be kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.errors import BadEntry
from kranzq.model.entry import Entry, Own, parse, render
from kranzq.model.ids import MissionId
from tests.factories import kranz_entry

ID = "0123456789abcdef" * 2
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
variables = st.text(st.characters(exclude_characters="\0=", exclude_categories=["Cs"]), min_size=1, max_size=6)
missions = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True).map(MissionId)
strange: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).map(lambda text: f"x{text}"),
    st.none() | st.integers(-(2**53), 2**53) | st.lists(texts, max_size=2),
    max_size=2,
)
owns = st.builds(
    Own,
    id=st.text("0123456789abcdef", min_size=32, max_size=32),
    repo=texts,
    command=st.lists(texts, max_size=3).map(tuple),
    mac=texts,
    key=texts,
    not_before=st.none() | st.just("2026-12-01T10:00:00.000Z"),
    after=st.lists(missions, max_size=2).map(tuple),
    again=st.booleans(),
    timeout_seconds=st.none() | st.floats(min_value=0.001, max_value=1e9),
    retries=st.integers(0, 1000),
    env=st.dictionaries(variables, texts, max_size=2),
    cwd=texts,
    enqueued_at=texts,
    enqueued_by=texts,
    extra=strange,
)
entries = st.builds(
    Entry,
    mission=missions,
    priority=st.integers(0, 255),
    number=st.integers(0, 2**64 - 1),
    ticket=st.none() | texts,
    own=st.none() | owns,
    extra=strange,
)


@given(entries)
def test_an_entry_comes_back_as_it_was_written(entry: Entry) -> None:
    """Every field, and every key of strangers, survives writing and reading."""
    assert parse(render(entry)) == entry


@pytest.mark.parametrize("ticket", [None, "fix-login"])
def test_an_entry_without_our_fields_has_the_bytes_of_kranz(ticket: str | None) -> None:
    """Key order, layout and the missing last line end are kranz's, so the two cannot be told apart."""
    assert render(Entry(MissionId("m-1a2b3c"), 2, 7, ticket)) == kranz_entry("m-1a2b3c", 2, 7, ticket)


@given(entries)
def test_kranz_reads_what_we_write(entry: Entry) -> None:
    """The four keys that kranz needs stand first, in its order and types; ours lie under one key that it ignores."""
    value = json.loads(render(entry))
    keys = list(value)

    assert keys[: 4 if entry.ticket is not None else 3] == [
        key for key in ("missionId", "ticketSlug", "priority", "seq") if key != "ticketSlug" or entry.ticket is not None
    ]
    assert (value["missionId"], value["priority"], value["seq"]) == (str(entry.mission), entry.priority, entry.number)
    assert isinstance(value.get("ticketSlug", ""), str)


@pytest.mark.parametrize(
    "data",
    [
        b'{"missionId":"m-1","priority":2,"seq":0}',
        b'{"seq": 0, "priority": 2, "missionId": "m-1", "ticketSlug": null}\n\n',
        b'\t{\r\n"missionId":"m-1"}',
    ],
)
def test_any_layout_is_read(data: bytes) -> None:
    """Compact, with line ends, in another order, with a null ticket, without priority and number: it is an entry."""
    assert parse(data) == Entry(MissionId("m-1"))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"1", b"null", b"\0" * 64, b"\xff\xfe", b"\xef\xbb\xbf{}", b"[" * 3_000_000, b"{}",
        b'{"missionId":"m-1","missionId":"m-2"}', b'{"missionId":"../x"}', b'{"missionId":7}',
        b'{"missionId":"m-1","x":NaN}',
        b'{"missionId":"m-1","priority":-1}', b'{"missionId":"m-1","priority":256}',
        b'{"missionId":"m-1","priority":"2"}',
        b'{"missionId":"m-1","priority":true}', b'{"missionId":"m-1","priority":2.0}', b'{"missionId":"m-1","seq":-1}',
        b'{"missionId":"m-1","seq":18446744073709551616}', b'{"missionId":"m-1","ticketSlug":7}',
        b'{"missionId":"m-1","x":"\\ud800"}', b'{"missionId":"m-1"} x',
    ],
    ids=lambda data: repr(data[:40]),
)  # fmt: skip
def test_b42_what_is_no_entry_is_refused_with_a_reason(data: bytes) -> None:
    """Malformed, empty, deeply nested or undecodable content, or a value out of range, is refused in one sentence."""
    with pytest.raises(BadEntry) as refused:
        parse(data)

    assert refused.value.why
    assert "\n" not in refused.value.why


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "x"), ("id", ID.upper()), ("id", None), ("command", "true"), ("command", [1]), ("command", ["a\0b"]),
        ("notBefore", "tomorrow"), ("notBefore", "2026-12-01T10:00:00"), ("after", ["../x"]), ("again", 1),
        ("timeoutSeconds", 0), ("timeoutSeconds", -1), ("timeoutSeconds", "5"), ("timeoutSeconds", 1e300),
        ("retries", -1), ("env", {"A=B": "c"}), ("env", {"": "c"}), ("env", {"A": 1}), ("env", {"A": "\0"}),
        ("cwd", "\0"),
    ],
)  # fmt: skip
def test_a_field_of_ours_with_a_wrong_value_spoils_the_entry(key: str, value: object) -> None:
    """Half of what was approved is never run: a field that is not what it must be makes the file no entry."""
    own: dict[str, object] = {"id": ID}
    with pytest.raises(BadEntry):
        parse(json.dumps({"missionId": "m-1", "kranzq": own | {key: value}}).encode())


def test_truncated_content_is_known_as_partial() -> None:
    """A file that may still be written is told from one that is wrong."""
    for data, partial in ((b'{"missionId": "m', True), (b"", True), (b"[]", False), (b'{"missionId": "../x"}', False)):
        with pytest.raises(BadEntry) as refused:
            parse(data)

        assert refused.value.partial is partial, data
