"""Moves that are whole or did not happen, also where the file system lies about them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.disk import atomic, renameat2
from kranzq.errors import Refused, StoreUnavailable


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    """A descriptor of an empty directory, which is `tmp_path`."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def fails_with(code: int) -> Callable[..., None]:
    """A system call that always fails."""

    def call(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return call


@pytest.fixture
def no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that knows neither no-replace nor exchange."""
    monkeypatch.setattr(renameat2, "rename2", fails_with(errno.EINVAL))


def test_a_published_file_is_complete_private_and_alone(folder: int, tmp_path: Path) -> None:
    """What becomes visible is whole, readable by its owner only whatever the umask, and leaves nothing beside it."""
    before = os.umask(0)
    try:
        atomic.publish(folder, "a", b"content")
    finally:
        os.umask(before)

    assert (tmp_path / "a").read_bytes() == b"content"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT, errno.EEXIST, errno.EPERM, errno.ESTALE])
def test_b41_a_link_that_reports_failure_but_happened_is_done(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """What was published is there once, and nothing says that it is not."""
    link = os.link

    def happens_and_fails(*args: Any, **kwargs: Any) -> None:
        link(*args, **kwargs)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", happens_and_fails)
    atomic.publish(folder, "a", b"content")

    assert (tmp_path / "a").read_bytes() == b"content"
    assert os.listdir(tmp_path) == ["a"]


def test_a_new_file_whose_hidden_name_stays_is_published(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there; the second name is swept like that of a writer who was killed."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fails_with(errno.EIO))
        atomic.publish(folder, "a", b"content")

    assert (tmp_path / "a").read_bytes() == b"content"
    assert sorted(name.endswith(".tmp") for name in os.listdir(tmp_path)) == [False, True]


@pytest.mark.parametrize("code", [None, errno.EPERM, errno.ENOTSUP])
def test_b41_publishing_never_replaces(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int | None
) -> None:
    """A name that is taken stays as it is, with or without the system's help, and no temporary file is left."""
    if code is not None:
        monkeypatch.setattr(os, "link", fails_with(code))
    (tmp_path / "a").write_bytes(b"first")
    with pytest.raises(FileExistsError):
        atomic.publish(folder, "a", b"second")

    assert (tmp_path / "a").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP, errno.EACCES, errno.EMLINK, errno.EXDEV, errno.ENOSPC])
def test_b41_where_links_alone_are_refused_a_new_file_is_renamed(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """No links, a rule of the system's against them, or no room for one more name: a rename needs none of it."""
    monkeypatch.setattr(os, "link", fails_with(code))
    atomic.publish(folder, "a", b"content")

    assert (tmp_path / "a").read_bytes() == b"content"
    assert os.listdir(tmp_path) == ["a"]


def test_a_file_whose_directory_cannot_be_synced_is_withdrawn(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not reported as done must not appear later: a failed sync takes the file back."""
    real = os.fsync

    def sync(fd: int) -> None:
        if fd == folder:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(fd)

    monkeypatch.setattr(os, "fsync", sync)
    with pytest.raises(OSError, match="Input/output"):
        atomic.publish(folder, "a", b"content")

    assert os.listdir(tmp_path) == []


def test_b36_a_write_that_fails_leaves_nothing(folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk no half file and no temporary one remains, and what was there is untouched."""
    (tmp_path / "a").write_bytes(b"first")
    monkeypatch.setattr(os, "write", fails_with(errno.ENOSPC))
    for act in (
        lambda: atomic.publish(folder, "b", b"x"),
        lambda: atomic.replace(folder, "a", b"x", sync=True),
        lambda: atomic.exchange_content(folder, "a", b"x"),
    ):
        with pytest.raises(OSError, match="No space"):
            act()

    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"first"


@pytest.mark.usefixtures("no_flags")
def test_b41_a_move_without_no_replace_links_and_unlinks(folder: int, tmp_path: Path) -> None:
    """Where the flag is refused the file moves all the same, and a taken name is refused all the same."""
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "c").write_bytes(b"c")
    atomic.move(folder, "a", folder, "b")
    with pytest.raises(FileExistsError):
        atomic.move(folder, "b", folder, "c")
    with pytest.raises(FileNotFoundError):
        atomic.move(folder, "a", folder, "d")

    assert sorted(os.listdir(tmp_path)) == ["b", "c"]
    assert (tmp_path / "b").read_bytes() == b"a"
    assert (tmp_path / "b").stat().st_nlink == 1


@pytest.mark.usefixtures("no_flags")
def test_b41_a_directory_moves_without_no_replace(folder: int, tmp_path: Path) -> None:
    """A directory has no second name; it moves all the same, and replaces nothing."""
    (tmp_path / "x.json").mkdir()
    (tmp_path / "y.json").mkdir()
    atomic.move(folder, "x.json", folder, "z")
    with pytest.raises(FileExistsError):
        atomic.move(folder, "y.json", folder, "z")

    assert sorted(os.listdir(tmp_path)) == ["y.json", "z"]


@pytest.mark.usefixtures("no_flags")
def test_b41_a_file_that_another_took_between_link_and_unlink_is_theirs(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the flag there is an instant with two names: who loses the first name there withdraws the second."""
    (tmp_path / "a").write_bytes(b"a")
    real = os.link

    def link(name: str, new_name: str, **_: object) -> None:
        real(name, new_name, src_dir_fd=folder, dst_dir_fd=folder)
        os.rename("a", "theirs", src_dir_fd=folder, dst_dir_fd=folder)

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(FileNotFoundError):
        atomic.move(folder, "a", folder, "ours")

    assert os.listdir(tmp_path) == ["theirs"]


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOENT, errno.EEXIST, errno.ESTALE])
@pytest.mark.parametrize("knows", [True, False])
def test_b41_a_rename_that_reports_failure_but_happened_is_done(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, *, knows: bool
) -> None:
    """After a doubtful rename the names tell what happened, whether or not the caller knew the inode."""
    (tmp_path / "a").write_bytes(b"a")
    inode = (tmp_path / "a").stat().st_ino

    def rename(from_fd: int, name: str, to_fd: int, new_name: str, _: int) -> None:
        os.rename(name, new_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(renameat2, "rename2", rename)
    atomic.move(folder, "a", folder, "b", inode=inode if knows else None)

    assert os.listdir(tmp_path) == ["b"]


def test_b41_a_stale_handle_is_a_file_that_is_gone(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a network file system calls stale is not there: a move says so, a removal has nothing to do.

    Unless it is there all the same: nobody may be told that it went.
    """
    (tmp_path / "a").write_bytes(b"a")
    monkeypatch.setattr(renameat2, "rename2", fails_with(errno.ESTALE))
    monkeypatch.setattr(os, "unlink", fails_with(errno.ESTALE))
    with pytest.raises(FileNotFoundError):
        atomic.move(folder, "a", folder, "b")

    assert atomic.remove(folder, "b") is False
    with pytest.raises(OSError, match="Stale"):
        atomic.remove(folder, "a")


@pytest.mark.parametrize("flags", [True, False])
def test_exchanged_content_never_makes_a_name_anew(
    folder: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, flags: bool
) -> None:
    """New content goes under a name only while the name is there; an entry that was moved away is not doubled."""
    if not flags:
        monkeypatch.setattr(renameat2, "rename2", fails_with(errno.EINVAL))
    (tmp_path / "a").write_bytes(b"old")
    atomic.exchange_content(folder, "a", b"new")
    with pytest.raises(FileNotFoundError):
        atomic.exchange_content(folder, "b", b"new")

    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("name", ["a" * 255, "\N{SNOWMAN}" * 85, os.fsdecode(b"\xff" * 255)])
def test_every_name_has_a_temporary_one(folder: int, tmp_path: Path, name: str) -> None:
    """The longest name there can be, of whatever bytes, can be written: its temporary name fits as well."""
    atomic.replace(folder, name, b"x", sync=False)

    assert (tmp_path / name).read_bytes() == b"x"
    assert atomic.temporary_name(name).startswith(".")
    assert atomic.temporary_name(name) != atomic.temporary_name(name)


def test_a_refused_write_says_whether_room_or_right_is_missing() -> None:
    """A full or broken disk is a store that is not available, a missing right is a refusal."""
    for code in (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT):
        assert isinstance(atomic.store_fault("/p", OSError(code, os.strerror(code))), StoreUnavailable)
    for code in (errno.EACCES, errno.EPERM):
        assert isinstance(atomic.store_fault("/p", OSError(code, os.strerror(code))), Refused)


def test_a_made_folder_has_its_mode_whatever_the_umask(folder: int, tmp_path: Path) -> None:
    """A folder is made once, with exactly the mode that was asked for."""
    before = os.umask(0o077)
    try:
        assert atomic.make_folder("d", dir_fd=folder)
        assert not atomic.make_folder("d", dir_fd=folder, mode=0o700)
    finally:
        os.umask(before)

    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
@pytest.mark.parametrize("verb", ["replace", "put_over", "remove"])
def test_a_call_that_fails_and_yet_happens_did_happen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, number: int
) -> None:
    """Network file systems ask twice, and tell of the second time: nobody may be told that nothing was changed."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    name = "unlink" if verb == "remove" else "rename"
    call = getattr(os, name)

    def happens_and_fails(*args: object, **kwargs: object) -> None:
        call(*args, **kwargs)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, name, happens_and_fails)
    if verb == "replace":
        atomic.replace(fd, "old", b"new", sync=True)
    elif verb == "put_over":
        atomic.put_over(fd, "new", "old")
    else:
        assert atomic.remove(fd, "old") or number == errno.ESTALE  # what is stale was gone before
    os.close(fd)

    assert verb == "remove" or (tmp_path / "old").read_text() == "new"
    assert verb != "remove" or not (tmp_path / "old").exists()


@pytest.mark.parametrize("verb", ["replace", "put_over", "remove"])
def test_a_call_that_fails_and_does_not_happen_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """And it leaves nothing of its own."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")
    unlink = os.unlink
    acts: dict[str, Callable[[], object]] = {
        "replace": lambda: atomic.replace(fd, "old", b"x", sync=True),
        "put_over": lambda: atomic.put_over(fd, "new", "old"),
        "remove": lambda: atomic.remove(fd, "old"),
    }

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", fails)
        patched.setattr(os, "unlink", fails if verb == "remove" else unlink)
        with pytest.raises(OSError, match="Input/output"):
            acts[verb]()
    os.close(fd)

    assert sorted(os.listdir(tmp_path)) == ["new", "old"]
    assert (tmp_path / "old").read_text() == "old"
