"""Where a repository was cloned from: as git itself would say, and without running it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kranzq.disk.gitdir import git_folder
from kranzq.disk.remote import origin

URL = "https://example.org/o/r.git"


def found(root: Path) -> str | None:
    """The origin of a checkout."""
    folder = git_folder(str(root))
    assert folder is not None
    return origin(folder)


def asked(root: Path) -> str | None:
    """What git says itself."""
    words = ["git", "config", "--file", str(root / ".git/config"), "--get-all", "remote.origin.url"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.split("\n")[0] or None


@pytest.mark.parametrize(
    "config",
    [
        f'[remote "origin"]\n\turl = {URL}\n',
        f'[remote "origin"] url={URL}',
        f'[REMOTE "origin"]\r\n\tURL = {URL}\r\n',
        f"[remote.origin]\nurl = {URL}\n",
        f'[remote "origin"]\n\turl = "{URL}" ; a comment\n',
        f'[remote "origin"] # a comment\n\turl = {URL} # another\n',
        f'[remote "upstream"]\n\turl = no\n[remote "origin"]\n\tfetch = x\n\turl = {URL}\n\turl = second\n',
        '[remote "origin"]\n\turl = https://example.org/\\\no/r\n',
        '[remote "origin"]\n\turl = "a#b;c"\n',
        '[remote "ori\\gin"]\n\turl = escaped\n',
        '[remote "Origin"]\n\turl = another\n',
        '[remote "origin"]\n\tpushurl = no\n[core]\n\turl = no\n',
        '[remote "origin"]\n\turl =\n',
        '# [remote "origin"]\n; url = no\n[core]\n\tbare = false\n',
        "",
    ],
)
def test_the_origin_is_what_git_says(checkout: Path, config: str) -> None:
    """Sections, quotes, comments and joined lines are read as git reads them."""
    (checkout / ".git/config").write_bytes(config.encode())

    assert found(checkout) == asked(checkout)


def test_a_linked_worktree_has_the_origin_of_its_repository(checkout: Path, tmp_path: Path) -> None:
    """All working trees of a repository are one repository."""
    (checkout / ".git/config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {URL}\n')
    subprocess.run(["git", "-C", checkout, "worktree", "add", "-q", tmp_path / "linked"], check=True)

    assert found(tmp_path / "linked") == URL


def test_what_cannot_be_read_has_no_origin(checkout: Path) -> None:
    """A missing, huge or odd file stops nobody, and a pipe hangs nobody."""
    config = checkout / ".git/config"
    for odd in (b"\xff\xfe[[[\0", b'[remote "origin', b'[remote "origin"]\nurl = ' + b"x" * 2_000_000):
        config.write_bytes(odd)
        assert found(checkout) is None
    config.unlink()
    assert found(checkout) is None
    os.mkfifo(config)
    assert found(checkout) is None
