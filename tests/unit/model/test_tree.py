"""Promises about the noted state of a working tree: it survives its record, stays small, and reads as a sentence."""

from __future__ import annotations

import json

import pytest

from kranzq.model.tree import Changed, Tree

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "tree",
    [
        Tree(),
        Tree("main", COMMIT, Changed(0, ())),
        Tree(None, COMMIT, Changed(2, ("a", "b/\udcff")), "/somewhere/index.lock"),
        Tree("main", None, Changed(1, ("a",), complete=False)),
    ],
)
def test_a_state_comes_back_from_its_record(tree: Tree) -> None:
    """What was written is read, whatever bytes a name has."""
    assert Tree.from_json(json.loads(json.dumps(tree.to_json()))) == tree


@pytest.mark.parametrize("value", [None, 1, [], "x"])
def test_what_is_no_record_is_none(value: object) -> None:
    """A stranger's value makes no state."""
    assert Tree.from_json(value) is None


def test_a_strangers_record_is_cut_to_size() -> None:
    """Nothing of a planted record is shown at length, and what has another type is left out."""
    names = ["x" * 10_000, 3, *map(str, range(1000))]
    planted = {"branch": "b" * 10_000, "commit": 7, "changed": {"count": 9, "names": names}, "lock": None}
    found = Tree.from_json(planted)

    assert found is not None
    assert len(found.branch or "") == 300
    assert found.commit is None
    assert found.changed is not None
    assert len(found.changed.names) <= 20
    assert max(map(len, found.changed.names)) == 300


@pytest.mark.parametrize(
    ("tree", "sentence"),
    [
        (Tree("main", COMMIT, Changed(0, ())), "on branch main at 0123456789ab, no tracked file has changed"),
        (Tree(None, COMMIT, Changed(1, ("a",))), "on no branch at 0123456789ab, 1 changed file: a"),
        (Tree("main", None, None), "on branch main, which files have changed cannot be told"),
        (Tree("m", None, Changed(3, ("a",), complete=False)), "on branch m, at least 3 changed files: a, …"),
        (Tree("m", None, Changed(0, (), complete=False)), "on branch m, changed files were not all looked for"),
    ],
)
def test_it_reads_as_half_a_sentence(tree: Tree, sentence: str) -> None:
    """A person learns branch, commit and files at one glance."""
    assert tree.sentence == sentence
