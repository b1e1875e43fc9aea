"""Keys of repositories: every form of one address is one key, and no two repositories share one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.errors import UsageFault
from kranzq.model.repository import LOCAL, local_key, repo_key, same_repository, tail_of

PARTS = st.text("abc.-_~1", min_size=1, max_size=4).filter(lambda part: part not in {".", ".."} and part != ".git")
NAMES = st.lists(PARTS, min_size=2, max_size=5).map("/".join)


@pytest.mark.parametrize(
    "text",
    [
        "https://hub.example/Owner/Repo",
        "https://hub.example/owner/repo.git",
        "https://hub.example/owner/repo.git/",
        "HTTPS://user:secret@hub.example/owner/repo",
        "https://hub.example:443/owner/repo?x=1#y",
        "HTTPS://HUB.EXAMPLE/OWNER/REPO.GIT",
        "ssh://git@hub.example:22/owner/repo.git",
        "git+ssh://git@hub.example/owner/repo",
        "git://hub.example//owner//repo",
        "git@hub.example:owner/repo.git",
        "git@hub.example:/owner/repo",
        "hub.example:owner/repo",
        "hub.example/owner/repo",
        "  hub.example/owner/repo.git\n",
    ],
)
def test_every_form_of_an_address_is_one_key(text: str) -> None:
    """Scheme, user, password, port, case and `.git` are no part of which repository it is."""
    assert repo_key(text) == "hub.example/owner/repo"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("owner/repo", "owner/repo"),
        ("Group/Sub.Group/repo", "group/sub.group/repo"),
        ("https://lab.example/a/b/c.git", "lab.example/a/b/c"),
        ("https://git.example.com/repo", "git.example.com/repo"),
        ("ssh://git@box/home/me/project/.git", "box/home/me/project"),
        ("git@git.sr.ht:~user/repo", "git.sr.ht/~user/repo"),
        ("local:/home/me/../you/x/", "local:/home/you/x"),
    ],
)
def test_a_key_has_the_host_and_the_whole_path(text: str, key: str) -> None:
    """What was typed without a host has none; nothing of the path is dropped."""
    assert repo_key(text) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "repo",
        "file:///srv/repo.git",
        "/srv/repo",
        "./a/b",
        "../a/b",
        "~/a/b",
        "C:\\a\\b",
        "C:/a/b",
        "\\\\server\\a",
        "ext::sh -c evil",
        "https://hub.example",
        "https://hub.example/",
        "HTTPS:///",
        "owner/../repo",
        "owner/.",
        "owner/.git",
        "own er/repo",
        "owner/rep\no",
        "owner/rep\0o",
        "öwner/repo",
        "a/" + "b" * 200,
        "local:relative",
        "local:/a\nb",
    ],
)
def test_what_names_no_shared_repository_is_refused(text: str) -> None:
    """A path on one disk means another repository elsewhere, and other texts mean none."""
    with pytest.raises(UsageFault):
        repo_key(text)


def test_a_text_of_many_megabytes_is_refused() -> None:
    """However long it is, nobody waits for the answer, and nobody reads it all."""
    for text in ("/" * 10_000_000, "https://" + "a/" * 5_000_000, "x@" * 5_000_000, " " * 10_000_000 + "a/b"):
        with pytest.raises(UsageFault) as refused:
            repo_key(text)
        assert len(str(refused.value)) < 1000


def test_a_refusal_shows_no_password() -> None:
    """Who mistypes an address does not find its secret in a log."""
    with pytest.raises(UsageFault) as refused:
        repo_key("HTTPS://user:secret@hub.example")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("hub.example/b/c", "hub.example/b/c", True),
        ("b/c", "hub.example/b/c", True),
        ("b/c", "gitserver/b/c", True),
        ("a/b/c", "lab.example/a/b/c", True),
        ("b.x/c", "lab.example/b.x/c", True),
        ("b/c", "lab.example/a/b/c", False),
        ("lab.example/a/b/c", "hub.example/b/c", False),
        ("hub.example/b/c", "lab.example/b/c", False),
        ("hub.example/b/c", "mirror.example/hub.example/b/c", False),
        ("b/c", "hub.example/xb/c", False),
        ("b/c", "hub.example/b/cc", False),
        ("b/c", "b/d", False),
        ("local:/b/c", "local:/b/c", True),
        ("local:/b/c", "local:/a/b/c", False),
        ("b/c", "local:/b/c", False),
        (None, "b/c", False),
        (None, None, False),
    ],
)
def test_a_name_without_a_host_means_the_same_path_on_any_host(
    one: str | None, other: str | None, *, same: bool
) -> None:
    """`owner/repo` is that repository wherever it lies, and never one of a longer path; hosts are told apart."""
    assert same_repository(one, other) is same_repository(other, one) is same


@given(NAMES, NAMES)
def test_sameness_is_symmetric_and_found_by_the_tail(one: str, other: str) -> None:
    """Order does not matter, and what a store finds by the last two parts is all there is."""
    assert same_repository(one, one)
    assert same_repository(one, other) == same_repository(other, one)
    assert not same_repository(one, other) or tail_of(one) == tail_of(other)


@given(NAMES, PARTS, PARTS)
def test_one_host_more_is_the_same_and_two_are_not(name: str, host: str, other: str) -> None:
    """Whatever the name, exactly one part in front can be its host."""
    two = "/".join(name.split("/")[:2])
    assert same_repository(two, f"{host}/{two}")
    assert not same_repository(two, f"{host}/{other}/{two}")


@given(st.text(max_size=60))
def test_any_text_is_a_key_or_is_refused(text: str) -> None:
    """No text makes another fault, and a key is its own key."""
    try:
        key = repo_key(text)
    except UsageFault:
        return
    assert repo_key(key) == key
    assert key.isprintable()


def test_local_keys_are_of_one_place() -> None:
    """The tail of a local key is the whole of it."""
    assert tail_of(local_key("/a/b/c")) == LOCAL + "/a/b/c"
    assert tail_of(None) is None
