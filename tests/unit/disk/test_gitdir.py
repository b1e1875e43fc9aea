"""Promises of reading git's folder without git: every kind of checkout, and nothing that is planted leads anywhere."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kranzq.disk.gitdir import GitFolder, Head, git_folder, head, is_bare, is_own

pytestmark = pytest.mark.system("git")
WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false")


def git(where: Path, *words: str) -> str:
    """What git says."""
    done = subprocess.run(["git", *WHO, *words], cwd=where, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def told(root: Path) -> Head:
    """What is read of a checkout's HEAD."""
    folder = git_folder(str(root))
    assert folder is not None
    return head(folder)


def asked(root: Path) -> Head:
    """What git says of it."""
    branch = git(root, "rev-parse", "--abbrev-ref", "HEAD")
    return Head(None if branch == "HEAD" else branch, git(root, "rev-parse", "HEAD"))


@pytest.mark.parametrize("how", ["loose", "packed", "detached", "nested name"])
def test_branch_and_commit_are_those_that_git_tells(checkout: Path, how: str) -> None:
    """Loose and packed refs, a detached HEAD and a branch with slashes are read as git reads them."""
    if how == "packed":
        git(checkout, "pack-refs", "--all")
    elif how == "detached":
        git(checkout, "checkout", "-q", "--detach")
    elif how == "nested name":
        git(checkout, "checkout", "-q", "-b", "a/b/c")

    assert told(checkout) == asked(checkout)
    assert asked(checkout).commit is not None


def test_a_linked_worktree_has_its_own_head_and_the_refs_of_the_repository(checkout: Path, tmp_path: Path) -> None:
    """The file `.git` of a worktree is followed to its folder, and the folder to what is shared."""
    git(checkout, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git(checkout, "pack-refs", "--all")

    folder = git_folder(str(tmp_path / "side"))
    assert folder == GitFolder(f"{checkout}/.git/worktrees/side", f"{checkout}/.git")
    assert told(tmp_path / "side") == asked(tmp_path / "side")
    assert is_own(folder, str(tmp_path / "side"))
    assert not is_bare(str(tmp_path / "side"))


def test_a_submodule_is_a_checkout_of_its_own(checkout: Path, tmp_path: Path) -> None:
    """Its git folder lies in the outer repository, and is found by asking git too."""
    outer = tmp_path / "outer"
    git(tmp_path, "init", "-q", str(outer))
    git(outer, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(checkout), "inner")

    folder = git_folder(str(outer / "inner"))
    assert folder is not None
    assert folder.own == folder.common == git(outer / "inner", "rev-parse", "--absolute-git-dir")
    assert os.path.basename(folder.index_lock) == "index.lock"
    assert told(outer / "inner") == asked(outer / "inner")
    assert is_own(folder, str(outer / "inner"))
    assert not is_bare(str(outer / "inner"))


@pytest.mark.parametrize("how", ["file", "link"])
def test_a_git_folder_that_belongs_to_another_checkout_is_not_its_own(checkout: Path, tmp_path: Path, how: str) -> None:
    """A planted `.git` may point to anybody's repository; that one does not point back."""
    planted = tmp_path / "planted"
    planted.mkdir()
    if how == "file":
        (planted / ".git").write_text(f"gitdir: {checkout}/.git\n")
    else:
        (planted / ".git").symlink_to(checkout / ".git")
    folder, plain = git_folder(str(planted)), git_folder(str(checkout))
    assert folder is not None
    assert plain is not None

    assert not is_own(folder, str(planted))
    assert is_own(plain, str(checkout))


def test_before_the_first_commit_there_is_a_branch_only(tmp_path: Path) -> None:
    """A new repository tells its branch and no commit."""
    git(tmp_path, "init", "-q", "--initial-branch=new", "here")

    assert told(tmp_path / "here") == Head("new", None)


@pytest.mark.parametrize(
    "text",
    [
        "ref: ../../../outside",
        "ref: refs/heads/../../../outside",
        "ref: refs/heads/a\0b",
        "",
        "\xff" * 100,
        "ref: /etc/x",
    ],
)
def test_a_planted_head_leads_nowhere(checkout: Path, tmp_path: Path, text: str) -> None:
    """What is no ref below `refs/` is not read, wherever it points to."""
    (tmp_path / "outside").write_text("0" * 40)
    (checkout / ".git/HEAD").write_text(text)

    assert told(checkout) == Head(None, None)


def test_refs_that_lead_in_a_circle_end(checkout: Path) -> None:
    """A ref that names itself has no commit."""
    (checkout / ".git/refs/heads/main").write_text("ref: refs/heads/main\n")

    assert told(checkout) == Head("main", None)


def test_what_is_no_pointer_is_no_git_folder(tmp_path: Path) -> None:
    """A file of another form, a pointer to nothing, a FIFO: none of them hangs or raises."""
    for content in (b"", b"gitdir:", b"gitdir: nowhere\n", b"\0" * 9000, b"gitdir: a\0b"):
        (tmp_path / ".git").write_bytes(content)
        assert git_folder(str(tmp_path)) is None
    (tmp_path / ".git").unlink()
    os.mkfifo(tmp_path / ".git")

    assert git_folder(str(tmp_path)) is None
    assert not is_bare(str(tmp_path))


@pytest.mark.parametrize("line", ["bare = true", "bare", "BARE=yes ; no tree", '\tbare = "on"'])
def test_a_git_folder_that_says_so_is_bare(checkout: Path, line: str) -> None:
    """Each way of writing it in the configuration counts, in its own section only."""
    config = checkout / ".git/config"
    config.write_text(f"[user]\n{line}\n")
    elsewhere = is_bare(str(checkout))
    config.write_text(f"[Core] # of git\n\tfilemode = true\n{line}\n[user]\n")

    assert not elsewhere
    assert is_bare(str(checkout))
