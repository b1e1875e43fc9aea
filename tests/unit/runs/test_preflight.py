"""Promises of the checks before a start: the checkout is there, the same, and has room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kranzq.model.checkout import Checkout
from kranzq.runs.preflight import why_not_here, why_not_the_same


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with `.git` and `.kranz`."""
    root = tmp_path / "root"
    (root / ".git").mkdir(parents=True)
    (root / ".kranz").mkdir()
    return root


@contextmanager
def begun(root: Path) -> Iterator[tuple[int, tuple[int, int]]]:
    """What a turn has in hand: `.kranz` open, and the key of the lock."""
    fd = os.open(root / ".kranz", os.O_RDONLY)
    seen = (root / ".git").stat()
    try:
        yield fd, (seen.st_dev, seen.st_ino)
    finally:
        os.close(fd)


def test_a_sound_checkout_passes(tree: Path) -> None:
    """Nothing is in the way."""
    checkout = Checkout(str(tree), has_git=True)
    with begun(tree) as (kranz, lock):
        assert why_not_here(checkout, 0) is None
        assert why_not_the_same(checkout, kranz, lock) is None


@pytest.mark.parametrize("what", ["root", "git", "disk"])
def test_what_is_missing_is_named(tree: Path, what: str) -> None:
    """No checkout, no git folder, no room: each has its sentence."""
    checkout = Checkout(str(tree), has_git=True)
    if what == "root":
        tree.rename(tree.with_name("elsewhere"))
    elif what == "git":
        (tree / ".git").rmdir()

    why = why_not_here(checkout, 2**60 if what == "disk" else 0)
    assert why is not None
    assert {"root": f"the checkout {tree} is gone", "git": f"{tree}/.git is gone", "disk": "MiB are free"}[what] in why


@pytest.mark.parametrize("what", ["moved", "another directory", "another git"])
def test_another_checkout_under_the_same_path_is_noticed(tree: Path, what: str) -> None:
    """What was locked and opened is compared with what the path leads to now."""
    checkout = Checkout(str(tree), has_git=True)
    with begun(tree) as (kranz, lock):
        if what == "another git":
            (tree / ".git").rename(tree / "old")
            (tree / ".git").mkdir()
        else:
            tree.rename(tree.with_name("elsewhere"))
        if what == "another directory":
            (tree / ".git").mkdir(parents=True)
        why = why_not_the_same(checkout, kranz, lock)

    assert why is not None
    assert {"moved": "is gone", "another directory": "is another directory", "another git": "is another one"}[
        what
    ] in why
