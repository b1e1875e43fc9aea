"""Where somebody works, and which file a path means once its links are resolved."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kranzq.dispatch.whereabouts import Located, locate, whereabouts
from kranzq.errors import UsageFault
from kranzq.model.checkout import Checkout
from kranzq.model.presence import Subject, Whereabouts, subject_of
from kranzq.wiring.checkouts import find_checkout


def here(root: Path) -> Whereabouts:
    """What presence knows of a checkout."""
    return whereabouts(Checkout(os.path.realpath(root), has_git=(root / ".git").exists()))


def clone(root: Path, url: str) -> Path:
    """A repository with an origin."""
    subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
    subprocess.run(["git", "-C", root, "remote", "add", "origin", url], check=True)
    return root


def subject(path: str, directory: Path, where: Whereabouts | None) -> Subject:
    """The subject that a path in a directory means."""
    found = locate(path, str(directory), where, lambda start: find_checkout(start, os.environ))
    return subject_of(path=found.path, here=where, clones=found.clones, leads_to=found.leads_to)


@pytest.mark.parametrize("url", ["git@Example.org:O/R.git", "HTTPS://user:secret@example.org/o/r"])
def test_the_repository_is_named_by_its_origin(tmp_path: Path, url: str) -> None:
    """All clones of one repository have one key, wherever they lie, and the branch is the one checked out."""
    root = clone(tmp_path / "r", url)

    assert here(root) == Whereabouts("example.org/o/r", str(root), "main")


def test_a_repository_without_an_address_is_one_of_its_place(tmp_path: Path) -> None:
    """No origin, a path on this disk, or a checkout without git: nobody else's work is mixed in."""
    for number, url in enumerate(("/srv/r.git", "file:///srv/r.git", "../r", "ext::sh -c evil", "odd")):
        root = clone(tmp_path / str(number), url)
        assert here(root).repo == f"local:{root}", url
    bare = tmp_path / "none"
    bare.mkdir()
    assert here(bare) == Whereabouts(f"local:{bare}", str(bare), None)


def test_a_link_and_its_target_are_one_place(tmp_path: Path) -> None:
    """Through a link to a file, to a folder, or to the checkout itself, the claim is about the same path."""
    root = clone(tmp_path / "r", "git@example.org:o/r")
    (root / "src/deep").mkdir(parents=True)
    (root / "alias").symlink_to("src")
    (root / "file").symlink_to("src/deep/x.rs")
    (tmp_path / "way").symlink_to(root)
    where = here(root)

    expected = Subject("example.org/o/r", "src/deep/x.rs")
    assert subject("alias/deep/x.rs", root, where) == expected
    assert subject("file", root, where) == expected
    assert subject("deep/../deep/x.rs", root / "src", where) == expected
    assert subject(str(tmp_path / "way/src/deep/x.rs"), root, where) == expected
    assert subject("x.rs", tmp_path / "way/alias/deep", where) == expected
    assert subject(".", root, where) == Subject("example.org/o/r", "")


def test_a_link_out_of_every_checkout_has_both_names(tmp_path: Path) -> None:
    """Whoever knows the name in the repository finds the claim, and whoever knows the target does too."""
    root = clone(tmp_path / "r", "git@example.org:o/r")
    (tmp_path / "mnt").mkdir()
    (root / "data").symlink_to(tmp_path / "mnt")

    assert subject("data/x", root, here(root)) == Subject("example.org/o/r", "data/x", str(tmp_path / "mnt/x"))
    assert subject(str(tmp_path / "mnt/x"), root, here(root)) == Subject(None, None, str(tmp_path / "mnt/x"))


def test_a_path_in_another_checkout_is_of_that_repository(tmp_path: Path) -> None:
    """Named outright, through a link, or in a checkout inside this one; what is not there yet counts as well."""
    root, other = clone(tmp_path / "r", "git@example.org:o/r"), clone(tmp_path / "x", "git@example.org:o/x")
    inner = clone(root / "vendor/lib", "git@example.org:o/lib")
    (root / "near").symlink_to(other)

    assert subject("../x/new/file", root, here(root)) == Subject("example.org/o/x", "new/file")
    assert subject("near/a", root, here(root)) == Subject("example.org/o/x", "a")
    assert subject("vendor/lib/a", root, here(root)) == Subject("example.org/o/lib", "a")
    assert subject("a", inner, None) == Subject("example.org/o/lib", "a")


def test_odd_paths_stop_nobody(tmp_path: Path) -> None:
    """A loop of links, a broken one, a pipe, and a name that is too long are places too; a NUL is refused."""
    root = clone(tmp_path / "r", "git@example.org:o/r")
    (root / "loop").symlink_to("loop")
    (root / "broken").symlink_to("nowhere")
    os.mkfifo(root / "pipe")

    for path, expected in (("loop", "loop"), ("broken", "nowhere"), ("pipe", "pipe"), ("x" * 300, "x" * 300)):
        assert subject(path, root, here(root)) == Subject("example.org/o/r", expected)
    assert subject(os.fsdecode(b"\xff"), root, here(root)).path == "\ufffd"
    with pytest.raises(UsageFault):
        subject("a\0b", root, here(root))


def test_without_a_checkout_a_path_is_absolute(tmp_path: Path) -> None:
    """Outside of all of them a place still has a name."""
    assert locate("a/../b", str(tmp_path), None, lambda start: find_checkout(start, os.environ)) == Located(
        str(tmp_path / "b")
    )
