"""Reading what others may have put there: nothing blocks, nothing is followed, nothing is too large."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest

from kranzq.disk.birth import born_ns_of
from kranzq.disk.read import Unreadable, open_folder, read_regular


def test_a_regular_file_is_read_with_its_own_stat(tmp_path: Path) -> None:
    """Content and stat belong to the same file; one that is not there is None."""
    (tmp_path / "a").write_bytes(b"content")
    found = read_regular(str(tmp_path / "a"))

    assert found is not None
    assert (found.data, found.stat.st_ino) == (b"content", (tmp_path / "a").stat().st_ino)
    assert read_regular(str(tmp_path / "b")) is None
    assert read_regular(str(tmp_path / "a/b")) is None


def test_b42_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    """A link, a FIFO without a writer, a directory, a socket and a device are refused; none of them blocks."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "good").write_bytes(b"x")
    (tmp_path / "link2").symlink_to(tmp_path / "good")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dir").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for name in ("link", "link2", "fifo", "dir", "socket", "/dev/zero"):
            with pytest.raises(Unreadable):
                read_regular(str(tmp_path / name))


def test_b42_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    """A sparse file of four gigabytes costs neither time nor memory."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(4 * 1024**3)
    with pytest.raises(Unreadable, match="4294967296"):
        read_regular(str(tmp_path / "huge"))


def test_a_file_that_grows_while_it_is_read_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for what is read, not only for what stat said before."""
    (tmp_path / "a").write_bytes(b"x" * 10)
    monkeypatch.setattr(os, "read", lambda _, count: b"y" * count)
    with pytest.raises(Unreadable, match="more than"):
        read_regular(str(tmp_path / "a"), limit=100)


@pytest.mark.parametrize("call", ["open", "read"])
def test_b41_a_stale_handle_reads_as_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A file that another machine has just removed is not there, whichever call tells."""
    (tmp_path / "a").write_bytes(b"x")

    def stale(*_: object, **__: object) -> int:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, call, stale)

    assert read_regular(str(tmp_path / "a")) is None


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal of the system is a sentence, not an empty file."""

    def denied(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", denied)
    with pytest.raises(Unreadable, match="Permission denied") as refused:
        read_regular(str(tmp_path / "a"))

    assert refused.value.denied


def test_a_folder_behind_a_link_is_not_opened(tmp_path: Path) -> None:
    """A directory is reached through its own name only."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    os.close(open_folder(str(tmp_path / "real")))
    with pytest.raises(NotADirectoryError):
        open_folder(str(tmp_path / "link"))


def test_a_file_keeps_its_birth_through_renames(tmp_path: Path) -> None:
    """Inode and birth together name one file: a rename keeps both, a new file of the same name has another birth."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        (tmp_path / "a").write_bytes(b"x")
        born = born_ns_of("a", fd)
        (tmp_path / "a").rename(tmp_path / "b")

        assert born_ns_of("b", fd) == born
        assert born_ns_of("a", fd) is None
    finally:
        os.close(fd)
