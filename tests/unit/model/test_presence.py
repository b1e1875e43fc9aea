"""What claims are about: how it is named, cut and compared."""

from __future__ import annotations

import posixpath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.errors import UsageFault
from kranzq.model.claim import Holder
from kranzq.model.presence import (
    MOST_NOTE,
    MOST_PATH,
    NewPresence,
    Subject,
    Whereabouts,
    holder_key,
    lies_inside,
    lifetime_ms,
    one_line,
    subject_of,
)

REPO, OTHER = "hub.example/o/r", "lab.example/a/o/r"
HERE = Whereabouts(REPO, "/home/me/r", "main")
INNER = Whereabouts(OTHER, "/home/me/r/vendor/lib")
ELSEWHERE = Whereabouts("local:/srv/x", "/srv/x")
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "..", ".", ""]), max_size=6).map("/".join)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src", Subject(REPO, "src")),
        ("./src/", Subject(REPO, "src")),
        ("src//main.rs", Subject(REPO, "src/main.rs")),
        ("src\\main.rs", Subject(REPO, "src/main.rs")),
        ("\\src", Subject(REPO, "src")),
        ("crates/../srv", Subject(REPO, "srv")),
        ("a/./b/../../c", Subject(REPO, "c")),
        (".", Subject(REPO, "")),
        ("a/..", Subject(REPO, "")),
        ("/home/me/r", Subject(REPO, "")),
        ("/home/me/r/src", Subject(REPO, "src")),
        ("/home/me/./r/x/../src/", Subject(REPO, "src")),
        ("/home/me/rr/src", Subject(None, None, "/home/me/rr/src")),
        ("/home/me/r/vendor/lib/x", Subject(OTHER, "x")),
        ("/srv/x/y", Subject("local:/srv/x", "y")),
        ("../../../srv/x/y", Subject("local:/srv/x", "y")),
        ("../other/x", Subject(None, None, "/home/me/other/x")),
        ("/etc/../..", Subject(None, None, "/")),
        ("C:\\work\\..\\x", Subject(None, None, "C:/x")),
        (" a\tb\x00c ", Subject(REPO, "a b c")),
    ],
)
def test_a_path_is_one_place_however_it_is_written(path: str, expected: Subject) -> None:
    """`.`, `..`, slashes and absolute paths are resolved by the text; the innermost clone counts."""
    assert subject_of(path=path, here=HERE, clones=(INNER, ELSEWHERE)) == expected


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"repo": "o/r"}, Subject(REPO, "")),
        ({"repo": "me/other"}, Subject("me/other", "")),
        ({"branch": "Main"}, Subject(None, None, None, "Main")),
        ({"topic": " log \n in "}, Subject(None, None, None, None, "log in")),
        ({"branch": "b", "repo": "o/r"}, Subject(REPO, None, None, "b")),
        ({"path": "a", "branch": "b", "topic": "t"}, Subject(REPO, "a", None, "b", "t")),
        ({"path": "a", "repo": "me/other"}, Subject("me/other", "a")),
        ({"path": "/srv/x/y", "repo": "me/other"}, Subject("me/other", None, "/srv/x/y")),
        ({"path": "data", "leads_to": "/mnt/data"}, Subject(REPO, "data", "/mnt/data")),
        ({"path": " ", "branch": "", "topic": "t"}, Subject(None, None, None, None, "t")),
    ],
)
def test_a_subject_is_what_was_named_and_no_more(named: dict[str, Any], expected: Subject) -> None:
    """Only a path takes over the repository in which one works; a repository alone means the whole of it."""
    assert subject_of(here=HERE, clones=(ELSEWHERE,), **named) == expected


@pytest.mark.parametrize(
    ("named", "here"),
    [
        ({}, HERE),
        ({"path": " ", "topic": "\n"}, HERE),
        ({"path": "a"}, None),
        ({"path": "../x", "repo": "me/other"}, HERE),
        ({"path": "a/../../x", "repo": "me/other"}, None),
        ({"repo": "/srv/x", "path": "a"}, HERE),
    ],
)
def test_what_cannot_be_meant_is_refused(named: dict[str, Any], here: Whereabouts | None) -> None:
    """Nothing, a relative path without a repository, and one that leads out of it name nothing."""
    with pytest.raises(UsageFault):
        subject_of(here=here, **named)


@given(PATHS)
def test_paths_are_resolved_as_the_system_would(path: str) -> None:
    """Without links, the text means the same file before and after."""
    found = subject_of(path=f"/home/me/r/{path}", here=HERE)
    there = f"{HERE.root}/{found.path}" if found.path is not None else found.absolute_path
    assert posixpath.normpath(there or "") == posixpath.normpath(f"/home/me/r/{path}")


@pytest.mark.parametrize(
    ("path", "folder", "inside"),
    [
        ("a/b", "a/b", True),
        ("a/b/c", "a/b", True),
        ("a/bc", "a/b", False),
        ("a", "a/b", False),
        ("x", "", True),
        ("", "", True),
        ("", "a", False),
        ("a/b", "a/b/", True),
        ("/x", "/", True),
        ("A/b", "a", False),
    ],
)
def test_inside_is_by_component(path: str, folder: str, *, inside: bool) -> None:
    """`a/bc` does not lie in `a/b`."""
    assert lies_inside(path, folder) is inside


@given(PATHS, st.text("abc", min_size=1, max_size=3))
def test_a_longer_name_is_never_inside(path: str, more: str) -> None:
    """What only begins alike is another file."""
    folder = "x/" + "/".join(part for part in path.split("/") if part not in {"", ".", ".."}) if path else "x"
    folder = folder.rstrip("/")
    assert lies_inside(f"{folder}/{more}", folder)
    assert not lies_inside(folder + more, folder)


@pytest.mark.parametrize(
    ("text", "flat"),
    [
        ("a\r\nb\tc", "a b c"),
        ("  a  \x00\x1b  b ", "a b"),
        ("a\u2028b\u0085c", "a b c"),
        ("a\u202eb\u200bc", "a b c"),
        ("a\U000e0041b", "a b"),
        ("a\ud800b", "a\ufffdb"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 199 + "…"),
        (" " * 5000 + "y", "y"),
        ("", ""),
    ],
)
def test_a_text_is_one_line(text: str, flat: str) -> None:
    """Nothing in it drives a terminal, hides, or makes a second line."""
    assert one_line(text, MOST_NOTE) == flat


@given(st.text(max_size=300), st.integers(2, 40))
def test_one_line_stays_as_it_is(text: str, most: int) -> None:
    """Cut once is cut for ever, within the size, and printable."""
    flat = one_line(text, most)
    assert one_line(flat, most) == flat
    assert len(flat) <= most
    assert "\n" not in flat


@given(st.text(max_size=4), st.text(max_size=4), st.sampled_from([None, "", "a", "A"]))
def test_a_subjects_key_tells_what_is_the_same(one: str, other: str, third: str | None) -> None:
    """Keys are equal exactly when the subjects are the same."""
    first, second = Subject(one, third, None, other, one), Subject(one, third, None, other, other)
    assert (first.key == second.key) == first.same_as(second)
    assert first.same_as(Subject(one, third, None, other, one.swapcase() if one.isascii() else one))


def test_absent_is_not_empty() -> None:
    """The whole of a repository is another subject than its branch."""
    assert not Subject(REPO, "").same_as(Subject(REPO))
    assert Subject(REPO).same_as(Subject(REPO))


def test_lifetimes_are_whole_minutes() -> None:
    """What is no whole number is refused, not guessed."""
    assert lifetime_ms(None) == 120 * 60_000
    for odd in (True, 7.5, "7", float("nan")):
        with pytest.raises(UsageFault):
            lifetime_ms(odd)  # type: ignore[arg-type]  # what a program may send


def test_holders_are_told_apart_by_uid_then_by_name() -> None:
    """A uid that looks like a name's key is no name."""
    assert holder_key(Holder("Ann")) == holder_key(Holder("aNN"))
    assert holder_key(Holder("Ann", uid="u")) == holder_key(Holder("bob", uid="u"))
    assert holder_key(Holder("ann")) != holder_key(Holder("x", uid="n:ann"))
    assert holder_key(Holder("É")) != holder_key(Holder("é"))


def test_a_claim_is_cut_when_it_is_made() -> None:
    """Whoever builds a subject by hand cannot store more than others get to see."""
    new = NewPresence(Holder("ann"), Subject("r" * 9999, "p" * 9999, "", " b ", "\n"), "n" * 9999)
    about = new.subject
    assert (len(about.repo or ""), len(about.path or ""), len(new.note)) == (4200, MOST_PATH, MOST_NOTE)
    assert (about.absolute_path, about.branch, about.topic) == (None, "b", None)
