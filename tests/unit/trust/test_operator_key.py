"""The operator's key: private, made once, refused when it is not what it must be, and followed when it changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kranzq.disk.read import RECORD_LIMIT
from kranzq.errors import Refused, UnsafePath
from kranzq.model.tokens import OPERATOR_PREFIX, is_token, new_token
from kranzq.testing.store import together
from kranzq.trust import operator_key as module
from kranzq.trust.operator_key import OperatorKey

GOOD = b"kqo_" + b"x" * 43


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A state directory that does not exist yet, nor does its parent."""
    return str(tmp_path / "home" / "kranzq")


def written(state: str, content: bytes, mode: int = 0o600) -> OperatorKey:
    """The key of a directory in which a file with that content lies."""
    held = OperatorKey(state)
    held.make()
    Path(held.path).write_bytes(content)
    os.chmod(held.path, mode)
    return held


def test_it_is_made_once_and_private(state: str) -> None:
    """In private folders, whatever the umask; it is found again, and nothing of it is in a repr."""
    before = os.umask(0o777)
    try:
        key = OperatorKey(state).make()
    finally:
        os.umask(before)

    held = OperatorKey(state)
    assert is_token(key, OPERATOR_PREFIX)
    assert held.read() == held.make() == held.current() == key
    assert os.listdir(state) == ["server.key"]
    assert (os.stat(state).st_mode & 0o777, os.stat(held.path).st_mode & 0o777) == (0o700, 0o600)
    assert key not in repr(held)


def test_those_who_make_it_at_once_get_the_same(state: str) -> None:
    """Whoever loses the race takes the winner's."""
    made = list[str]()
    together(6, lambda _: made.append(OperatorKey(state).make()))

    assert len(set(made)) == 1
    assert os.listdir(state) == ["server.key"]


def test_a_key_that_cannot_be_read_for_a_moment_opens_again(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when no more files may be open: the file is the same one as before, and is read once more."""
    held = OperatorKey(state)
    key = held.make()

    def full(*_: object, **__: object) -> None:
        raise UnsafePath(held.path, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(module, "read_own", full)
        meanwhile = held.current()

    assert (meanwhile, held.current()) == (None, key)


def test_looking_makes_nothing(state: str) -> None:
    """A key that is not there is refused with what to type, and opens nothing."""
    with pytest.raises(Refused, match="not there") as caught:
        OperatorKey(state).read()

    assert caught.value.advice == "Make it: kranzq agent key"
    assert OperatorKey(state).current() is None
    assert not os.path.exists(os.path.dirname(state))


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_one_end_of_line_is_no_part_of_it(state: str, ending: str) -> None:
    """By rule, and nothing else is taken off."""
    key = new_token(OPERATOR_PREFIX)

    assert written(state, f"{key}{ending}".encode()).read() == key


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b" ",
        b" \n\t",
        b"secret\n",
        b"kqo_\n",
        GOOD + b"\n\n",
        b" " + GOOD,
        GOOD[:-1],
        b"kqa_" + b"x" * 43,
        b"\xff" * 47,
        b"\0" * 47,
        b"x" * (RECORD_LIMIT + 1),
    ],
)
def test_b81_what_is_no_key_is_refused(state: str, content: bytes) -> None:
    """Empty, blank, cut, with something around it, an agent's, or garbage: no start, and no key that opens."""
    held = written(state, content)
    for ask in (held.read, held.make):
        with pytest.raises(Refused) as caught:
            ask()
        assert held.path in str(caught.value)
        text = content.decode("ascii", "replace").strip("\n \t\0")
        assert not text or text not in str(caught.value)

    assert held.current() is None
    assert OperatorKey(state, held.path).current() is None
    with pytest.raises(Refused):
        OperatorKey(state, held.path).make()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_what_others_may_read_or_write_is_refused(state: str, mode: int) -> None:
    """With the cure; after it the key is good again."""
    key = OperatorKey(state).make()
    held = OperatorKey(state)
    assert held.current() == key
    os.chmod(held.path, mode)
    with pytest.raises(Refused, match="chmod 600"):
        held.read()
    assert held.current() is None

    os.chmod(held.path, 0o600)
    assert held.current() == key


@pytest.mark.parametrize("what", ["link", "folder", "fifo"])
def test_what_is_no_plain_file_is_refused(state: str, what: str) -> None:
    """Nothing is followed, nothing waits, and a rotation does not replace it."""
    held = OperatorKey(state)
    held.make()
    os.rename(held.path, f"{state}/aside")
    if what == "link":
        os.symlink(f"{state}/aside", held.path)
    elif what == "folder":
        os.mkdir(held.path)
    else:
        os.mkfifo(held.path)

    for ask in (held.read, held.make, held.rotate):
        with pytest.raises(UnsafePath):
            ask()
    assert held.current() is None
    assert os.path.lexists(held.path)


def test_a_rotation_counts_at_once(state: str) -> None:
    """For whoever read the old one a moment ago; also in the place of a damaged file, and of none."""
    server, operator = OperatorKey(state), OperatorKey(state)
    first = operator.make()
    assert server.current() == first
    second = operator.rotate()
    assert server.current() == server.read() == second != first

    Path(operator.path).write_bytes(b"")
    assert server.current() is None
    third = operator.rotate()
    assert server.current() == third
    os.unlink(operator.path)
    assert server.current() is None
    assert operator.rotate() == server.current()
    assert os.stat(operator.path).st_mode & 0o777 == 0o600


def test_an_unchanged_file_is_not_read_again(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server asks with each request: one look at the file is all that may cost."""
    held = OperatorKey(state)
    key = held.make()
    assert held.current() == key
    monkeypatch.setattr(module, "read_own", None)

    assert held.current() == key


def test_another_file_is_read_and_never_made(state: str, tmp_path: Path) -> None:
    """What is named is what is meant: a slip makes no new key."""
    there, missing = tmp_path / "my.key", tmp_path / "none" / "my.key"
    key = new_token(OPERATOR_PREFIX)
    there.touch(0o600)
    there.write_text(key)

    assert OperatorKey(state, str(there)).make() == key
    for path in (missing, tmp_path / "none.key"):
        with pytest.raises(Refused, match="not there"):
            OperatorKey(state, str(path)).make()
        assert not path.exists()
    assert not os.path.exists(state)
