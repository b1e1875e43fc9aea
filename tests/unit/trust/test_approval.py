"""Approvals: nothing is allowed until a sound record of this user about this very path says so."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kranzq.errors import Refused, StoreUnavailable
from kranzq.trust import approval as module
from kranzq.trust.approval import Approvals

ROOT = "/home/ada/pro\udcffject"


class Noon:
    """A clock that stands."""

    def now(self) -> float:
        """A wall time."""
        return 1_800_000_000.0

    def monotonic(self) -> float:
        """The same."""
        return 0.0


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A state directory that does not exist yet."""
    return str(tmp_path / "kranzq")


def record_of(state: str) -> Path:
    """The only record there is."""
    (path,) = Path(state, "trust").iterdir()
    return path


def test_allow_and_withdraw(state: str) -> None:
    """Unsigned missions are allowed for one path from the word on until it is withdrawn."""
    approvals = Approvals(state, Noon())
    assert not approvals.unsigned(ROOT)
    assert not os.path.exists(state)

    approvals.allow_unsigned(ROOT)

    assert Approvals(state).unsigned(ROOT)
    assert not Approvals(state).unsigned("/home/ada/other")
    written = json.loads(record_of(state).read_text(encoding="utf-8"))
    assert written == {"root": ROOT, "unsigned": True, "unsignedAt": "2027-01-15T08:00:00.000Z"}
    assert approvals.withdraw_unsigned(ROOT)
    assert not approvals.unsigned(ROOT)
    assert not approvals.withdraw_unsigned(ROOT)


def test_strangers_keys_are_kept(state: str) -> None:
    """What another version recorded about the same checkout stays in the record."""
    Approvals(state).allow_unsigned(ROOT)
    path = record_of(state)
    path.write_text(json.dumps({"root": ROOT, "settings": "abc"}), encoding="utf-8")

    Approvals(state).allow_unsigned(ROOT)

    assert json.loads(path.read_text(encoding="utf-8"))["settings"] == "abc"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b'{"unsigned": true}',
        b'{"root": "/home/ada/other", "unsigned": true}',
        b'{"root": "/home/ada/pro\\udcffject", "unsigned": "yes"}',
        b'{"root": "/home/ada/pro\\udcffject", "unsigned": 1}',
        b" " * 9000,
    ],
)
def test_a_record_that_does_not_say_so_exactly_counts_for_nothing(state: str, content: bytes) -> None:
    """A broken record, one about another path, or one with another value allows nothing."""
    Approvals(state).allow_unsigned(ROOT)
    record_of(state).write_bytes(content)

    assert not Approvals(state).unsigned(ROOT)


def test_a_link_counts_for_nothing_and_is_replaced(state: str, tmp_path: Path) -> None:
    """A linked record allows nothing; allowing anew puts a record of ours in its place and leaves its target alone."""
    Approvals(state).allow_unsigned(ROOT)
    path = record_of(state)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()

    assert not Approvals(state).unsigned(ROOT)
    Approvals(state).allow_unsigned(ROOT)

    assert Approvals(state).unsigned(ROOT)
    assert not path.is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_a_record_that_others_may_write_counts_for_nothing(state: str) -> None:
    """A record that its group may write allows nothing."""
    Approvals(state).allow_unsigned(ROOT)
    record_of(state).chmod(0o660)

    assert not Approvals(state).unsigned(ROOT)


def test_another_users_record_counts_for_nothing(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that belongs to another user allows nothing, and cannot be changed by us."""
    Approvals(state).allow_unsigned(ROOT)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    assert not Approvals(state).unsigned(ROOT)
    with pytest.raises(Refused, match="belongs to user"):
        Approvals(state).allow_unsigned(ROOT)


def test_an_approval_that_cannot_be_kept_is_not_given(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that does not take the record is told, and nothing is allowed."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "replace", full)

    with pytest.raises(StoreUnavailable):
        Approvals(state).allow_unsigned(ROOT)
    assert not Approvals(state).unsigned(ROOT)
