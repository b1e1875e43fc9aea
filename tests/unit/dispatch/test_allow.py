"""Signing a moved checkout's entries anew: only the user's own, each where it lies, nothing else touched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.dispatch.allow import Trust
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Place
from kranzq.model.entry import Entry, Own, parse, render
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Park, Wait
from kranzq.model.state import State
from kranzq.trust.approval import Approvals
from kranzq.trust.key import Keyring
from kranzq.trust.mac import Signature, sign, verify


@pytest.fixture
def trust(tmp_path: Path) -> Iterator[Trust]:
    """The trust of one user in a checkout."""
    root = tmp_path / "r"
    root.mkdir()
    state = str(tmp_path / "state")
    with FileQueue.make(Checkout(str(root), has_git=False)) as queue:
        yield Trust(str(root), queue, Keyring(state), Approvals(state))


def _queue(trust: Trust) -> FileQueue:
    assert isinstance(trust.queue, FileQueue)
    return trust.queue


def _add(trust: Trust, mission: str, signed_for: str | None, keys: Keyring | None = None) -> Place:
    entry = Entry(MissionId(mission), own=Own(id=os.urandom(16).hex(), command=("true",)))
    if signed_for is not None:
        entry = sign(entry, signed_for, (keys or trust.keys).current())
    _queue(trust).enqueue(entry, lambda _: None)
    return _queue(trust).places(MissionId(mission))[0]


def _signatures(trust: Trust) -> dict[str, Signature]:
    entries = [_queue(trust).read(place) for place in _queue(trust).places()]
    return {entry.mission: verify(entry, trust.root, trust.keys) for entry in entries if entry is not None}


def test_only_the_users_own_moved_entries_are_signed(trust: Trust, tmp_path: Path) -> None:
    """Entries of others, unsigned ones and changed ones stay as they are."""
    _add(trust, "moved", "/old")
    _add(trust, "here", trust.root)
    _add(trust, "unsigned", None)
    _add(trust, "theirs", "/old", Keyring(str(tmp_path / "other")))
    place = _add(trust, "changed", "/old")
    entry = _queue(trust).read(place)
    assert entry is not None
    assert entry.own is not None
    with _queue(trust).change():
        _queue(trust).replace_content(place, render(replace(entry, own=replace(entry.own, command=("rm", "-rf", "/")))))

    assert [(one.mission, one.why) for one in trust.sign_moved()] == [("moved", "was signed for /old")]
    assert _signatures(trust) == {
        "moved": Signature.VALID,
        "here": Signature.VALID,
        "unsigned": Signature.UNSIGNED,
        "theirs": Signature.UNKNOWN_KEY,
        "changed": Signature.WRONG,
    }


def test_entries_are_signed_where_they_lie(trust: Trust) -> None:
    """Waiting and parked entries keep their places, names and ids; a claim is left to its holder."""
    for mission, fate in (("waits", Wait(2**42)), ("parked", Park("by hand"))):
        place = _add(trust, mission, "/old")
        with _queue(trust).change():
            _queue(trust).carry_out(place, fate)
    _add(trust, "claimed", "/old")
    candidate = next(iter(_queue(trust).in_order()))
    assert _queue(trust).claim(candidate, os.getpid(), "0" * 16) is not None
    before = {place.name: _queue(trust).read(place) for place in _queue(trust).places()}
    signed = trust.sign_moved()
    after = {place.name: _queue(trust).read(place) for place in _queue(trust).places()}

    assert {(one.mission, one.state) for one in signed} == {("waits", State.WAITING), ("parked", State.PARKED)}
    assert before.keys() == after.keys()
    assert [one.id for one in before.values() if one] == [one.id for one in after.values() if one]
    assert _signatures(trust)["claimed"] is Signature.MOVED


def test_signing_survives_a_power_cut(trust: Trust, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new content's name is on the disk too, before it is reported as signed."""
    _add(trust, "moved", "/old")
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    trust.sign_moved()

    assert synced[-1] == _queue(trust).fd


def test_signing_leaves_no_second_file(trust: Trust) -> None:
    """Each entry is replaced in place: nothing temporary stays, and strangers' keys in it are kept."""
    place = _add(trust, "moved", "/old")
    entry = _queue(trust).read(place)
    assert entry is not None
    with _queue(trust).change():
        _queue(trust).replace_content(place, render(replace(entry, extra={"note": "kept"})))
    trust.sign_moved()

    queue = Path(trust.root, ".kranz/queue")
    assert parse((queue / place.name).read_bytes()).extra["note"] == "kept"
    assert [path for path in queue.iterdir() if path.name.endswith(".tmp")] == []
    assert trust.waiting() == []
