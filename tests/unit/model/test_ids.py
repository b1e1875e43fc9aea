"""Mission ids: whatever passes is safe in a path and cannot be taken for any other name in the queue."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.backends.file.layout import (
    claim_name,
    entry_name,
    is_candidate,
    parse_claim_name,
    parse_entry_name,
    parse_waiting_name,
    waiting_name,
)
from kranzq.errors import BadMissionId
from kranzq.model.ids import MAX_LENGTH, MissionId

BAD = [
    "", " ", ".", "..", "../../x", "/abs", "a/b", "a\\b", "-rf", "_x", ".hidden", "a..b", "m 1", "m-1 ", "\n", "m\n",
    "m-1\n", "m\0", "a.claimed.1", "a.CLAIMED.1.0123456789abcdef", "x.json", "x.JSON", "x.tmp", "x.json.why",
    "events.jsonl.lock", "x.Lock", "a:b", "%2e%2e%2f", "ä", "m\u200b1", "\u0661", "m" * (MAX_LENGTH + 1), "con/",
    "~", "$HOME", "a*",
]  # fmt: skip
GOOD = [
    "m-1",
    "a",
    "0",
    "M.1_x-y",
    "con",
    "m" * MAX_LENGTH,
    "claimed",
    "a.claim",
    "json",
    "a.json.b",
    "a.why",
    "tmp",
    "m.lockx",
]


def is_id(text: str) -> bool:
    """Whether a text passes."""
    try:
        MissionId(text)
    except BadMissionId:
        return False
    return True


@pytest.mark.parametrize("text", BAD)
def test_b49_an_id_that_is_no_plain_name_is_refused(text: str) -> None:
    """What could leave the directory, hide, be an option, or imitate a claim or a temporary file is no id."""
    with pytest.raises(BadMissionId) as refused:
        MissionId(text)

    assert refused.value.advice


@pytest.mark.parametrize("text", GOOD)
def test_b49_a_plain_name_passes_unchanged(text: str) -> None:
    """Every other text of letters, digits, dots, dashes and underscores is an id and stays as it is."""
    assert str(MissionId(text)) == text


@given(st.text(max_size=140))
def test_whatever_passes_is_one_harmless_path_component(text: str) -> None:
    """No text that passes can leave its directory, hide, or be an option or a temporary name."""
    if is_id(text):
        assert not {"/", "\\", "\0", "\n", ":", " "} & set(text)
        assert text[0].isalnum()
        assert ".." not in text
        assert text.isascii()
        assert not text.lower().endswith((".tmp", ".json", ".lock"))


@given(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,40}", fullmatch=True).filter(is_id),
    st.integers(0, 255),
    st.integers(0, 10**15),
    st.integers(1, 4_194_304),
)
def test_no_id_imitates_another_kind_of_name(text: str, priority: int, number: int, pid: int) -> None:
    """Whatever the id, an entry's name is only an entry, a claim's only a claim, a waiting name only that."""
    entry = entry_name(priority, number, MissionId(text))
    claim = claim_name(entry, pid, "0123456789abcdef")
    waiting = waiting_name(entry, 1_800_000_000_000)

    assert parse_entry_name(entry.text) == entry
    assert parse_claim_name(entry.text) is None
    assert parse_waiting_name(entry.text) is None
    assert parse_claim_name(claim.text) == claim
    assert parse_entry_name(claim.text) is None
    assert not is_candidate(claim.text)
    assert parse_waiting_name(waiting.text) == waiting
    assert parse_entry_name(waiting.text) is None
