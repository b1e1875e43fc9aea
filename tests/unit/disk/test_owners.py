"""Whose a directory is and who may write there decides whether anything in it may run."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from kranzq.backends.file.folders import Folders
from kranzq.disk.modes import mode_in, open_lock_file
from kranzq.disk.owners import declared_group, unsafe_folder, why_unsafe
from kranzq.dispatch.begin import begin
from kranzq.errors import UnsafePath
from kranzq.model.checkout import Checkout
from kranzq.wiring.queues import make_queue

OTHER = 64300


def checkout(root: Path) -> Checkout:
    """The checkout, with git where there is some."""
    return Checkout(str(root), has_git=(root / ".git").exists())


def needs_root() -> None:
    """Only root can give files away."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


def why(path: Path) -> str:
    """Why a directory is refused, empty when it is not."""
    fd = os.open(path, os.O_RDONLY)
    try:
        found = why_unsafe(fd, str(path))
    finally:
        os.close(fd)
    return found.why if found is not None else ""


def test_a_private_group_may_write(tmp_path: Path) -> None:
    """With a umask of 002 a user's own group may write everywhere; that is nobody else."""
    tmp_path.chmod(0o775)

    assert why(tmp_path) == ""


def test_another_group_may_not_write_unless_it_is_declared(tmp_path: Path) -> None:
    """A group that is not the owner's own is refused, and declared by the setgid bit."""
    needs_root()
    os.chown(tmp_path, -1, OTHER)
    tmp_path.chmod(0o775)
    assert "its members could plant missions" in why(tmp_path)
    tmp_path.chmod(0o2775)

    assert why(tmp_path) == ""


def test_everybody_may_never_write(tmp_path: Path) -> None:
    """Not even where a group is declared."""
    tmp_path.chmod(0o2777)

    assert "everybody may write" in why(tmp_path)


def test_another_users_directory_is_refused(tmp_path: Path) -> None:
    """What lies in a directory of another user may be his."""
    needs_root()
    os.chown(tmp_path, OTHER, OTHER)

    assert "belongs to user 64300" in why(tmp_path)


@pytest.mark.parametrize("part", ["", "queue", "missions", "queue/waiting", "queue/parked"])
def test_each_directory_that_decides_is_looked_at(tmp_path: Path, part: str) -> None:
    """One open directory anywhere on the way is enough to plant something."""
    with Folders.make(checkout(tmp_path)) as folders:
        folders.made("waiting")
        folders.made("parked")
    (tmp_path / ".kranz/missions").mkdir()
    assert unsafe_folder(checkout(tmp_path)) is None
    (tmp_path / ".kranz" / part).chmod(0o757)

    with pytest.raises(UnsafePath, match="everybody may write"):
        Folders.make(checkout(tmp_path))
    with pytest.raises(UnsafePath, match="everybody may write"):
        Folders.open_to_change(checkout(tmp_path))
    Folders.open(checkout(tmp_path)).close()


@pytest.mark.parametrize(
    ("text", "shared"),
    [
        ("[core]\n\tsharedRepository = group\n", True),
        ("[core] sharedrepository = 1\n", True),
        ("[CORE]\nSHAREDREPOSITORY\n", True),
        ("[core]\nsharedRepository = 0660\n", True),
        ("[core]\nsharedRepository = 0640\n", False),
        ("[core]\nsharedRepository = umask\n", False),
        ("[core]\nsharedRepository = group\nsharedRepository = false\n", False),
        ('[core "x"]\nsharedRepository = group\n', False),
        ("[other]\nsharedRepository = group\n", False),
        ("\x00\xff not a file of settings [", False),
    ],
)
def test_git_says_whether_it_is_shared(tmp_path: Path, text: str, shared: bool) -> None:  # noqa: FBT001
    """Git's file is read as git reads it, as far as this one setting goes."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text(text)

    assert (declared_group(checkout(tmp_path)) is not None) is shared


def test_a_linked_worktree_asks_the_main_one(tmp_path: Path) -> None:
    """The settings of a worktree lie in the repository that it belongs to."""
    own = tmp_path / "main/.git/worktrees/w"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    (tmp_path / "main/.git/config").write_text("[core]\nsharedRepository = group\n")
    (tmp_path / "w").mkdir()
    (tmp_path / "w/.git").write_text(f"gitdir: {own}\n")

    assert declared_group(checkout(tmp_path / "w")) is not None


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_what_is_made_in_a_shared_directory_is_the_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool
) -> None:
    """Files and folders get the group's rights whatever the umask, and never everybody's."""

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    if not links:
        monkeypatch.setattr(os, "link", refused)
    tmp_path.chmod(0o2775)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert (mode_in(fd, 0o600), mode_in(fd, 0o644)) == (0o660, 0o664)
        assert (mode_in(fd, 0o755, folder=True), mode_in(fd, 0o700, folder=True)) == (0o2775, 0o2770)
        for _ in range(2):
            os.close(open_lock_file(".lock", fd))
    finally:
        os.close(fd)

    assert stat.S_IMODE((tmp_path / ".lock").stat().st_mode) == 0o660
    assert os.listdir(tmp_path) == [".lock"]


def test_init_mends_what_is_open_to_others_when_told_so(tmp_path: Path) -> None:
    """A directory of ours that others may write is closed after a yes, and refused after a no."""
    needs_root()
    make_queue(checkout(tmp_path)).close()
    queue = tmp_path / ".kranz/queue"
    os.chown(queue, -1, OTHER)
    queue.chmod(0o775)
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(UnsafePath, match="its members could plant"):
        begin(checkout(tmp_path), make_queue, no)
    begin(checkout(tmp_path), make_queue, lambda _: True)

    assert len(asked) == 1
    assert stat.S_IMODE(queue.stat().st_mode) == 0o755


def test_init_opens_a_queue_to_the_group_that_was_declared_later(tmp_path: Path) -> None:
    """When the repository says afterwards that it is shared, its owner gives the queue to the group."""
    make_queue(checkout(tmp_path)).close()
    tmp_path.chmod(0o2775)
    begin(checkout(tmp_path), make_queue, lambda _: True)

    assert stat.S_IMODE((tmp_path / ".kranz/queue").stat().st_mode) == 0o2775
