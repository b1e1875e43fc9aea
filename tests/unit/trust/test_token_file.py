"""Files with tokens: put in place whole, mode 600, and nothing else is overwritten."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import pytest

from kranzq.disk import atomic
from kranzq.errors import Conflict, KranzqError, NotFound, Refused, StoreUnavailable, UnsafePath
from kranzq.model.tokens import new_token
from kranzq.trust import token_file as module
from kranzq.trust.token_file import kept_in


def names(folder: Path) -> list[str]:
    """What lies there."""
    return sorted(os.listdir(folder))


def test_the_token_is_there_when_the_block_is_done(tmp_path: Path) -> None:
    """Private whatever the umask; within the block the file is as before."""
    path, first, second = tmp_path / "t", new_token(), new_token()
    before = os.umask(0)
    try:
        with kept_in(str(path), first):
            assert not path.exists()
        with kept_in(str(path), second):
            assert path.read_text() == f"{first}\n"
    finally:
        os.umask(before)

    assert path.read_text() == f"{second}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert names(tmp_path) == ["t"]


def test_a_block_that_fails_changes_nothing(tmp_path: Path) -> None:
    """The old token stays, and nothing lies beside it."""
    path, first = tmp_path / "t", new_token()
    path.write_text(f"{first}\n")
    with pytest.raises(ZeroDivisionError), kept_in(str(path), new_token()):
        raise ZeroDivisionError

    assert (path.read_text(), names(tmp_path)) == (f"{first}\n", ["t"])


@pytest.mark.parametrize("place", ["t", "t.new"])
@pytest.mark.parametrize(
    "content", ["my thesis", "kqa_short", "kqo_" + "x" * 43, "kqa_" + "x" * 43 + "\n\n", "x" * 10_000]
)
def test_what_holds_no_token_is_not_touched(tmp_path: Path, place: str, content: str) -> None:
    """A slip in the name must not cost a file; the block does not run."""
    (tmp_path / place).write_text(content)
    with pytest.raises((Conflict, UnsafePath), match=place), kept_in(str(tmp_path / "t"), new_token()):
        pytest.fail("it ran")

    assert (names(tmp_path), (tmp_path / place).read_text()) == ([place], content)


@pytest.mark.parametrize("place", ["t", "t.new"])
@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "fifo", "second name"])
def test_what_is_no_plain_file_is_refused(tmp_path: Path, place: str, kind: str) -> None:
    """No link is followed and nothing waits; what is there stays."""
    (tmp_path / "aside").write_text(f"{new_token()}\n")
    there = tmp_path / place
    if kind == "folder":
        there.mkdir()
    elif kind == "fifo":
        os.mkfifo(there)
    elif kind == "second name":
        os.link(tmp_path / "aside", there)
    else:
        there.symlink_to(tmp_path / ("aside" if kind == "link" else "nothing"))
    before = (tmp_path / "aside").read_text()
    if (place, kind) == ("t", "second name"):  # a new file takes the name, and the other name keeps the old one
        with kept_in(str(tmp_path / "t"), new_token()):
            pass
    else:
        with pytest.raises(Refused), kept_in(str(tmp_path / "t"), new_token()):
            pytest.fail("it ran")
        assert os.path.lexists(there)

    assert (tmp_path / "aside").read_text() == before
    assert not (tmp_path / "nothing").exists()


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    """It is not made: it may be a slip, or a disk that is not mounted."""
    with pytest.raises(NotFound, match="nowhere"), kept_in(str(tmp_path / "nowhere" / "t"), new_token()):
        pytest.fail("it ran")


def test_what_a_killed_one_left_is_taken_over(tmp_path: Path) -> None:
    """A token beside, or a file that it had just made, is in nobody's way."""
    for left in ("", f"{new_token()}\n"):
        (tmp_path / "t.new").write_text(left)
        token = new_token()
        with kept_in(str(tmp_path / "t"), token):
            pass
        assert (names(tmp_path), (tmp_path / "t").read_text()) == (["t"], f"{token}\n")


def test_two_do_not_write_one_file_at_once(tmp_path: Path) -> None:
    """The second one is refused before it changes anything: else the file may have one token, the store the other."""
    path, token = str(tmp_path / "t"), new_token()
    with kept_in(path, token):
        with pytest.raises(Conflict, match="at this moment"), kept_in(path, new_token()):
            pytest.fail("it ran")

    assert Path(path).read_text() == f"{token}\n"


def test_a_full_disk_is_found_out_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block does not run, the old token stays."""
    path, first = tmp_path / "t", new_token()
    path.write_text(f"{first}\n")

    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreUnavailable, match="No space left"), kept_in(str(path), new_token()):
        pytest.fail("it ran")

    assert (path.read_text(), names(tmp_path)) == (f"{first}\n", ["t"])


def test_a_token_that_counts_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When only the last rename fails it says where the token is, and how to get it into its place."""
    token = new_token()

    def denied(*_: object) -> NoReturn:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(module, "put_over", denied)
    with pytest.raises(KranzqError, match=r"The new token counts") as caught, kept_in(str(tmp_path / "t"), token):
        pass

    assert caught.value.advice == f"Put it there: mv {tmp_path}/t.new {tmp_path}/t"
    assert token not in str(caught.value)
    assert (tmp_path / "t.new").read_text() == f"{token}\n"
    monkeypatch.setattr(module, "put_over", atomic.put_over)
