"""Promises of telling changed files without git: nothing planted runs, and nothing is taken for changed that is not."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kranzq.disk import changed as module
from kranzq.disk.changed import changed
from kranzq.model.tree import Changed

pytestmark = pytest.mark.system("git")
WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false")
FILES = ("a", "b/c", "b/d", "e")


def git(where: Path, *words: str) -> None:
    """Run git."""
    subprocess.run(["git", *WHO, *words], cwd=where, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def tree(checkout: Path) -> Path:
    """A checkout with a few files and a link, all committed."""
    for name in FILES:
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text(name)
    (checkout / "link").symlink_to("nowhere")
    git(checkout, "add", ".")
    git(checkout, "commit", "-q", "-m", "files")
    return checkout


def told(root: Path) -> Changed | None:
    """What is told of a checkout."""
    return changed(str(root), f"{root}/.git")


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_changed_and_missing_files_are_named(tree: Path, version: str) -> None:
    """Another size, another time, another kind and a missing file count; what was not touched does not."""
    git(tree, "update-index", "--index-version", version)
    before = told(tree)
    (tree / "a").write_text("longer")
    (tree / "b/c").unlink()
    (tree / "link").unlink()
    (tree / "link").write_text("nowhere")
    os.utime(tree / "e", (1, 1))

    assert before == Changed(0, ())
    assert told(tree) == Changed(4, ("a", "b/c", "e", "link"))


def test_a_conflict_is_one_file(tree: Path) -> None:
    """A file in conflict has three entries in the index and is named once."""
    git(tree, "checkout", "-q", "-b", "side")
    (tree / "a").write_text("side")
    git(tree, "commit", "-qam", "side")
    git(tree, "checkout", "-q", "main")
    (tree / "a").write_text("main")
    git(tree, "commit", "-qam", "main")
    subprocess.run(["git", *WHO, "merge", "side"], cwd=tree, check=False, capture_output=True)

    assert told(tree) == Changed(1, ("a",))


def test_what_git_was_told_to_leave_alone_is_not_changed(tree: Path) -> None:
    """Assumed-unchanged and skipped files are no news."""
    git(tree, "update-index", "--assume-unchanged", "a")
    git(tree, "update-index", "--skip-worktree", "e")
    (tree / "a").write_text("longer")
    (tree / "e").unlink()

    assert told(tree) == Changed(0, ())


def test_the_names_are_bounded_and_the_count_is_whole(checkout: Path) -> None:
    """Of very many changed files the first twenty are named."""
    for at in range(300):
        (checkout / f"{at:03d}").touch()
    git(checkout, "add", ".")
    shutil.rmtree(checkout / "000", ignore_errors=True)
    for at in range(300):
        (checkout / f"{at:03d}").unlink()
    found = told(checkout)

    assert found is not None
    assert found.total == 300
    assert found.names == tuple(f"{at:03d}" for at in range(20))


def test_a_look_that_takes_too_long_says_that_it_is_not_whole(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a huge or slow tree the answer comes in time and is marked."""
    monkeypatch.setattr(module, "_LONGEST_S", -1.0)

    assert told(tree) == Changed(0, (), complete=False)


def test_a_split_index_is_marked(tree: Path) -> None:
    """Where the rest of the index lies in a second file not all is looked at, and the answer says so."""
    git(tree, "update-index", "--split-index")
    found = told(tree)

    assert found is not None
    assert not found.complete


def test_a_damaged_index_tells_nothing(tree: Path) -> None:
    """Bytes that are no index, or are cut off, are no answer."""
    data = (tree / ".git/index").read_bytes()
    for content in (b"", b"DIRC", data[:100], b"x" * 200):
        (tree / ".git/index").write_bytes(content)
        assert told(tree) is None
    (tree / ".git/index").unlink()

    assert told(tree) == Changed(0, ())


@pytest.mark.system("git", "strace")
def test_nothing_planted_runs(tree: Path, tmp_path: Path) -> None:
    """A configuration full of programs is not even read: no process is started by the look."""
    trap = tmp_path / "trap"
    trap.write_text("#!/bin/sh\ntouch sprung\n")
    trap.chmod(0o755)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process", "core.sshCommand"):
        git(tree, "config", key, str(trap))
    (tree / ".gitattributes").write_text("* filter=x\n")
    (tree / "a").write_text("other")
    program = "from kranzq.runs.tree import look_at_tree; import sys; print(look_at_tree(sys.argv[1]).sentence)"
    trace = tmp_path / "trace"
    import sys

    done = subprocess.run(
        ["strace", "-f", "-qq", "-e", "trace=execve", "-o", str(trace), sys.executable, "-c", program, str(tree)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "1 changed file: a" in done.stdout
    assert trace.read_text().count("execve(") == 1
    assert not (tree / "sprung").exists()
