"""What git tracks is read from the index, in each of its forms, without running git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kranzq.disk.tracked import tracked_below

pytestmark = pytest.mark.system("git")
_NAMES = (".kranz/queue/a.json", ".kranz/queue/ab.json", ".Kranz/missions/m/run.json", "a", "src/" + "x" * 300, "ü/b")
_WANTED = [".Kranz/missions/m/run.json", ".kranz/queue/a.json", ".kranz/queue/ab.json"]


def _git(where: Path, *args: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *args], cwd=where, check=True, capture_output=True
    )


def _repo(where: Path, *init: str) -> Path:
    where.mkdir()
    _git(where, "init", "-q", *init)
    for name in _NAMES:
        (where / name[:200]).parent.mkdir(parents=True, exist_ok=True)
        (where / name[:200]).write_text("x")
    _git(where, "add", "-f", ".")
    return where


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_each_form_of_the_index_is_read(tmp_path: Path, version: str) -> None:
    """Tracked names below .kranz are found in indexes of version 2, 3 and 4, in any case of the letters."""
    repo = _repo(tmp_path / "r")
    if version == "3":
        (repo / "later").write_text("x")
        _git(repo, "add", "--intent-to-add", "later")
    _git(repo, "update-index", "--index-version", version)

    assert tracked_below(str(repo), ".kranz/") == _WANTED


def test_longer_object_names_are_read(tmp_path: Path) -> None:
    """A repository whose objects have SHA-256 names is read as well."""
    assert tracked_below(str(_repo(tmp_path / "r", "--object-format=sha256")), ".kranz/") == _WANTED


def test_a_linked_worktree_has_its_own_index(tmp_path: Path) -> None:
    """In a linked worktree, where .git is a file, its own index is read."""
    repo = _repo(tmp_path / "r")
    _git(repo, "commit", "-qm", "x")
    _git(repo, "worktree", "add", "-q", str(tmp_path / "w"))

    assert tracked_below(str(tmp_path / "w"), ".kranz/") == _WANTED


def test_nothing_is_tracked_without_an_index(tmp_path: Path) -> None:
    """Without git or without an index nothing is tracked; a damaged index cannot tell."""
    (tmp_path / "r").mkdir()
    _git(tmp_path / "r", "init", "-q")

    assert tracked_below(str(tmp_path), ".kranz/") == []
    assert tracked_below(str(tmp_path / "r"), ".kranz/") == []
    (tmp_path / "r/.git/index").write_bytes(b"DIRC\0\0\0\2\0\0\0\7nonsense")
    assert tracked_below(str(tmp_path / "r"), ".kranz/") is None
