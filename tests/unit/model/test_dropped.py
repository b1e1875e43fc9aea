"""Which files in the inbox are meant: what is on its way there, hidden or an editor's copy is left alone."""

from __future__ import annotations

import pytest

from kranzq.model.dropped import asks_admission


@pytest.mark.parametrize("name", ["m.json", "m", "new", "tmp.json", "a.b", "49130", "m.json.old"])
def test_what_is_put_there_is_meant(name: str) -> None:
    """Whatever it is called."""
    assert asks_admission(name)


@pytest.mark.parametrize(
    "end", [".tmp", ".temp", ".part", ".partial", ".new", ".swp", ".swx", ".bak", ".orig", "~", "#"]
)
def test_what_is_on_its_way_is_not(end: str) -> None:
    """In any case of the letters."""
    assert not asks_admission(f"m.json{end}")
    assert not asks_admission(f"m.json{end.upper()}")


@pytest.mark.parametrize("name", [".m.json", "#m.json#", "#m", "4913"])
def test_what_is_hidden_or_an_editors_is_not(name: str) -> None:
    """One of them tries with a number whether it may write."""
    assert not asks_admission(name)
