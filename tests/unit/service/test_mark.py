"""Whose text is it: a file tells by itself whether somebody has edited it."""

from __future__ import annotations

from kranzq.service.mark import marked, whose


def test_a_file_of_ours_is_known_and_any_edit_is_seen() -> None:
    """Wherever it is changed, also when a line is added or its mark removed."""
    text = marked("[Unit]\n", "[Service]\n").encode()

    assert whose(text) == "ours"
    for edited in (text + b"# mine\n", text.replace(b"Unit", b"Init"), b"\n" + text, text.replace(b"[Service]\n", b"")):
        assert whose(edited) == "edited"
    assert whose(b"[Unit]\n[Service]\n") == "foreign"
    assert whose(b"") == "foreign"


def test_a_mark_may_stand_in_a_comment_of_any_kind() -> None:
    """What stands before and behind it on its line belongs to the mark."""
    assert whose(marked("<a>\n", "</a>\n", before="<!-- ", after=" -->").encode()) == "ours"
