"""Server-sent events out of bytes, however they are cut, and never without a bound."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.client.event_lines import MOST_EVENT, MOST_ID, MOST_LINE, Frame, Lines, TooLong

TOLD = (
    b"\xef\xbb\xbfretry: 1000\n\nid: a-0\nevent: snapshot\ndata: {}\n\n"
    b": alive\r\n\r\nid:a-1\revent:item\rdata: one\rdata:  two\r\runknown: x\ndata\n\nevent: lost\n\nid: a-2\ndata: cut"
)
FRAMES = [Frame("snapshot", "a-0", "{}"), Frame("item", "a-1", "one\n two"), Frame("message", "a-1", "")]


@given(st.lists(st.integers(0, len(TOLD)), max_size=12))
def test_events_are_the_same_wherever_bytes_are_cut(cuts: list[int]) -> None:
    """Each end of a line, several lines of data, comments; what has no end is none."""
    places = [0, *sorted(cuts), len(TOLD)]
    lines, found = Lines(), list[Frame]()
    for begin, end in itertools.pairwise(places):
        found += lines.feed(TOLD[begin:end])
    assert found == FRAMES
    assert lines.retry_ms == 1000


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ("id: x\0y", ""),
        ("id: ä", ""),
        ("id:", ""),
        ("id: " + "x" * (MOST_ID + 1), ""),
        ("id: b-7", "b-7"),
        ("idea: b-7", "before"),
        ("", "before"),
    ],
)
def test_an_id_that_cannot_be_sent_back_is_none(field: str, kept: str) -> None:
    """A reader must never go on from a place that the server cannot know."""
    sent = f"{field}\ndata: x\n\n" if field else "data: x\n\n"
    assert Lines("before").feed(sent.encode()) == [Frame("message", kept, "x")]


def fed(parts: list[bytes]) -> None:
    """All of them, one after the other."""
    lines = Lines()
    for part in parts:
        lines.feed(part)


def test_nothing_grows_without_a_bound() -> None:
    """A line that never ends, one that ends too late, and an event of too many lines."""
    with pytest.raises(TooLong, match="a line"):
        fed([b"x" * 1000] * (MOST_LINE // 1000 + 1))
    with pytest.raises(TooLong, match="a line"):
        fed([b"data: " + b"x" * MOST_LINE + b"\n\n"])
    with pytest.raises(TooLong, match="an event"):
        fed([b"data: " + b"x" * 10_000 + b"\n"] * (MOST_EVENT // 10_000 + 1))


@pytest.mark.parametrize(("said", "heard"), [("5", 5), ("-1", None), ("1s", None), ("", None), ("9" * 30, 999_999_999)])
def test_only_a_number_is_a_time_to_wait(said: str, heard: int | None) -> None:
    """Anything else is as if nothing had been said."""
    lines = Lines()
    lines.feed(f"retry: {said}\n\n".encode())
    assert lines.retry_ms == heard
