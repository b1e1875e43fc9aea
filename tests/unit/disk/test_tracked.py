"""What git tracks is read from the index, in each of its forms, without running git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kranzq.disk.tracked import is_tracked, tracked_below

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


def test_a_split_index_is_read_in_both_halves(tmp_path: Path) -> None:
    """Where git keeps the index in two files, names of either are found; without the second nothing can be told."""
    repo = _repo(tmp_path / "r")
    _git(repo, "update-index", "--split-index")
    (repo / ".kranz/queue/later.json").write_text("x")
    _git(repo, "add", "-f", ".kranz/queue/later.json")

    assert is_tracked(str(repo), ".kranz/queue/a.json") is True
    assert is_tracked(str(repo), ".kranz/queue/later.json") is True
    assert is_tracked(str(repo), ".kranz/queue/other.json") is False
    for shared in (repo / ".git").glob("sharedindex.*"):
        shared.unlink()
    (repo / ".git/index").touch()
    assert is_tracked(str(repo), ".kranz/queue/other.json") is None


@pytest.mark.parametrize("nested", [".kranz", ".kranz/queue", ".kranz/missions", ".kranz/missions/m"])
def test_a_repository_inside_is_asked_as_well(tmp_path: Path, nested: str) -> None:
    """What a repository nested in the checkout's folders tracks is tracked, whatever the outer one says."""
    repo = tmp_path / "r"
    for name in (".kranz/queue/a.json", ".kranz/missions/m/plan"):
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("x")
    _git(repo, "init", "-q")
    _git(repo / nested, "init", "-q")
    _git(repo / nested, "add", "-f", ".")

    inside = [name for name in (".kranz/queue/a.json", ".kranz/missions/m") if f"{name}/".startswith(f"{nested}/")]
    assert all(is_tracked(str(repo), name) for name in inside)
    assert is_tracked(str(repo), ".kranz/queue/b.json") is False


def test_a_submodule_or_link_brings_all_that_is_in_it(tmp_path: Path) -> None:
    """When .kranz itself is one tracked thing, everything in it came along."""
    repo = tmp_path / "r"
    (repo / "elsewhere").mkdir(parents=True)
    _git(repo, "init", "-q")
    (repo / ".kranz").symlink_to("elsewhere")
    _git(repo, "add", ".kranz")

    assert is_tracked(str(repo), ".kranz/queue/a.json") is True


def test_other_letters_are_the_same_name(tmp_path: Path) -> None:
    """On some disks .Kranz is .kranz, so the case of the letters does not matter."""
    repo = _repo(tmp_path / "r")

    assert is_tracked(str(repo), ".kranz/missions/m") is True
    assert is_tracked(str(repo), ".kranz/missions/M/RUN.json") is True
    assert is_tracked(str(repo), ".kranz/missions/n") is False


def test_an_index_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    """What was added or taken out a moment ago counts at the next question."""
    repo = _repo(tmp_path / "r")
    assert is_tracked(str(repo), ".kranz/queue/a.json") is True
    _git(repo, "rm", "-q", "--cached", ".kranz/queue/a.json")

    assert is_tracked(str(repo), ".kranz/queue/a.json") is False


def test_an_unknown_form_cannot_tell(tmp_path: Path) -> None:
    """A version that is not known, or a part that must be understood and is not, is never taken for nothing."""
    repo = _repo(tmp_path / "r")
    index = repo / ".git/index"
    whole = index.read_bytes()
    index.write_bytes(whole[:-20] + b"lock" + bytes(4) + whole[-20:])
    assert is_tracked(str(repo), ".kranz/queue/none") is None
    index.write_bytes(whole[:4] + b"\0\0\0\x05" + whole[8:])

    assert is_tracked(str(repo), ".kranz/queue/none") is None
