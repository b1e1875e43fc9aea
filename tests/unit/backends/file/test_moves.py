"""Moves of entries that nobody has claimed: one place at every instant, nothing replaced, one event each."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.backends.file import rewriting
from kranzq.backends.file.backend import FileQueue
from kranzq.disk import atomic
from kranzq.errors import UnsafePath
from kranzq.events import Due, Event, Parked, subscribe
from kranzq.model.claim import Place
from kranzq.model.entry import Own
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from tests.factories import enqueue, make_entry, make_queue, names

M1 = MissionId("m-1")
LATE_MS = 4_000_000_000_000


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[FileQueue]:
    """An open queue in which m-1 is queued, with the lock around a change of names held."""
    with make_queue(tmp_path) as one:
        enqueue(one)
        with one.change():
            yield one


@pytest.fixture
def heard() -> Iterator[list[Event]]:
    """The events of the test."""
    events: list[Event] = []
    forget = subscribe(events.append)
    yield events
    forget()


def place(queue: FileQueue) -> Place:
    """Where m-1 is; it is in one place only."""
    (found,) = queue.places(M1)
    return found


def test_what_turned_into_something_else_is_not_rewritten(queue: FileQueue, tmp_path: Path) -> None:
    """A link in the place of an entry that was read a moment ago is named, and left as it is."""
    here = place(queue)
    path = tmp_path / ".kranz/queue" / here.name
    path.unlink()
    path.symlink_to("/etc/hostname")

    with pytest.raises(UnsafePath, match=r"002-.*m-1\.json is refused: "):
        queue.rewrite(here, make_entry(), State.QUEUED, None)
    assert path.is_symlink()


def test_what_is_held_back_waits_and_is_let_go(queue: FileQueue, heard: list[Event], tmp_path: Path) -> None:
    """From queued to waiting for others, then for a time, then queued again under the same name."""
    name = place(queue).name
    queue.hold_back(place(queue), None)
    assert [one.name for one in queue.waiting_for_others()] == [f"after.{name}"]
    assert queue.admit(place(queue), LATE_MS) is State.WAITING
    assert names(tmp_path, "waiting") == [f"{LATE_MS}.{name}"]
    assert queue.waiting_for_others() == []
    assert queue.admit(place(queue), None) is State.QUEUED

    assert place(queue).name == name
    assert heard == [Due("m-1")]


def test_a_taken_place_parks_what_was_let_go(queue: FileQueue, heard: list[Event], tmp_path: Path) -> None:
    """What lies under its name stays; the one that comes is set aside with that reason."""
    name = place(queue).name
    queue.hold_back(place(queue), None)
    waiting = place(queue)
    Path(tmp_path, ".kranz/queue", name).write_bytes(b"another")

    assert queue.admit(waiting, None) is State.PARKED
    assert heard == [Parked("m-1", "its place in the queue was taken")]
    assert Path(tmp_path, ".kranz/queue", name).read_bytes() == b"another"


def test_what_is_due_meets_a_taken_place_with_an_event(heard: list[Event], tmp_path: Path) -> None:
    """A due time that comes is announced, and so is a mission that is parked instead."""
    with make_queue(tmp_path) as queue:
        name = enqueue(queue)
        for content in (None, b"another"):
            with queue.change():
                queue.hold_back(place(queue), 1)
            if content is not None:
                Path(tmp_path, ".kranz/queue", name).write_bytes(content)
            queue.admit_due()

    assert heard[1:] == [Due("m-1"), Parked("m-1", "its place in the queue was taken")]


def test_what_is_gone_is_not_made_anew(queue: FileQueue, tmp_path: Path) -> None:
    """An entry that somebody else took in this moment is neither doubled nor brought back by any move."""
    gone = place(queue)
    Path(tmp_path, ".kranz/queue", gone.name).rename(tmp_path / "elsewhere")
    for act in (
        lambda: queue.hold_back(gone, None),
        lambda: queue.set_aside(gone, "why"),
        lambda: queue.rewrite(gone, make_entry(), State.QUEUED, None),
        lambda: queue.rewrite(replace(gone, state=State.WAITING), make_entry(), State.QUEUED, None),
    ):
        with pytest.raises(FileNotFoundError):
            act()

    assert queue.places(M1) == []
    assert names(tmp_path, "parked") == []


def test_rewriting_keeps_what_a_name_of_another_width_says(queue: FileQueue, tmp_path: Path) -> None:
    """A name that another program wrote stays as it is while priority and number do."""
    entry = queue.read(place(queue))
    assert entry is not None
    Path(tmp_path, ".kranz/queue", place(queue).name).rename(tmp_path / ".kranz/queue/2-7-m-1.json")
    same = queue.rewrite(place(queue), replace(entry, number=7), State.WAITING, LATE_MS)
    other = queue.rewrite(same, replace(entry, number=8), State.QUEUED, None)

    assert same.name == f"{LATE_MS}.2-7-m-1.json"
    assert other == place(queue)
    assert other.name == "002-00000000000000000008-m-1.json"


@pytest.mark.parametrize("refused", ["exchange_content", "move"])
def test_a_refused_rewrite_leaves_no_reason_without_its_entry(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    """A turn would quarantine it, and somebody would look for an entry that never was."""
    queue.set_aside(place(queue), "why")
    entry = queue.read(parked := place(queue))
    assert entry is not None

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic, refused, full)
    with pytest.raises(OSError, match="No space"):
        queue.rewrite(parked, replace(entry, number=8), State.PARKED, None)

    assert names(tmp_path, "parked") == [parked.name, f"{parked.name}.why.json"]


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_what_could_not_be_moved_has_its_old_content(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The content is exchanged before the name, and whoever is refused the name is told that nothing was changed."""
    entry = queue.read(queued := place(queue))
    assert entry is not None
    path = tmp_path / ".kranz/queue" / queued.name
    before = path.read_bytes()

    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(atomic, "move", refused)
    with pytest.raises(OSError, match=os.strerror(number)):
        queue.rewrite(queued, replace(entry, own=Own(id="1" * 32, timeout_seconds=7.0)), State.WAITING, LATE_MS)

    assert path.read_bytes() == before


def test_what_is_unparked_is_so_though_its_reason_cannot_be_removed(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The move has happened; the reason that is left is a bad file, and the next turn's."""
    queue.set_aside(place(queue), "why")
    entry = queue.read(parked := place(queue))
    assert entry is not None

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(atomic, "remove", refused)

    assert queue.rewrite(parked, entry, State.QUEUED, None).state is State.QUEUED
    assert names(tmp_path, "parked") == [f"{parked.name}.why.json"]


def test_a_change_that_could_not_be_synced_is_told_as_one(queue: FileQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made, and nobody may be told that nothing was changed."""
    queue.set_aside(place(queue), "makes the folder")
    queue.rewrite(place(queue), queue.read(place(queue)) or make_entry(), State.QUEUED, None)

    def broken(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr("kranzq.disk.atomic.replace", lambda *_, **__: None)
        patched.setattr(os, "fsync", broken)
        with pytest.raises(atomic.NotSynced) as caught:
            queue.set_aside(place(queue), "why")

    assert place(queue).state is State.PARKED
    assert "It was done, but may not last." in atomic.store_fault("x", caught.value).sentence


def test_what_cannot_be_set_aside_leaves_no_reason(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is where it was, and nothing says that it is parked."""

    def broken(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(atomic, "move", broken)
    with pytest.raises(OSError, match="error"):
        queue.set_aside(place(queue), "why")

    assert names(tmp_path, "parked") == []


class Killed(BaseException):
    """What a kill is to the calls behind it: nothing is done any more."""


def die(*_: object, **__: object) -> None:
    """Instead of a call that a kill came before."""
    raise Killed


@pytest.mark.parametrize("step", ["exchange_content", "move"])
@pytest.mark.parametrize("to", [State.PARKED, State.QUEUED, State.WAITING])
def test_b41_a_rewrite_that_was_killed_is_whole_or_was_not(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, to: State
) -> None:
    """Before its content changed nothing is done; from then on both content and name are, once somebody looks."""
    queue.set_aside(place(queue), "for later")
    old = place(queue)
    entry = replace(make_entry(priority=0, number=9), own=Own(id="1" * 32, timeout_seconds=7.0))
    with monkeypatch.context() as patch:
        patch.setattr(atomic, step, die)
        with pytest.raises(Killed):
            queue.rewrite(old, entry, to, LATE_MS if to is State.WAITING else None)
    monkeypatch.setattr("kranzq.backends.file.moves.change", lambda _: contextlib.nullcontext())  # the fixture holds it
    queue.finish_moves()
    found = place(queue)
    read = queue.read(found)

    assert read is not None
    assert read.own is not None
    if step == "move":
        assert (found.state, found.number, read.own.timeout_seconds) == (to, 9, 7.0)
    else:
        assert (found, read.own.timeout_seconds) == (old, None)
    left = [name for name in os.listdir(tmp_path / ".kranz/queue") if name.startswith(".moving.")]
    reasons = [name for name in names(tmp_path, "parked") if name.endswith(".why.json")]
    assert left == []
    assert reasons == ([f"{found.name}.why.json"] if found.state is State.PARKED else [])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 5000,
        b'{"state": "claimed", "name": "002-00000000000000000000-m-1.json", "to": "queued", "newName": "x"}',
        b'{"state": "parked", "name": "../../x.json", "to": "queued", "newName": "002-1-m.json", "digest": ""}',
    ],
)
def test_a_note_that_is_none_moves_nothing(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    """It is removed, whoever wrote it."""
    (tmp_path / ".kranz/queue/.moving.0").write_bytes(data)
    here = place(queue)
    monkeypatch.setattr("kranzq.backends.file.moves.change", lambda _: contextlib.nullcontext())
    queue.finish_moves()

    assert place(queue) == here
    assert not (tmp_path / ".kranz/queue/.moving.0").exists()


def test_a_folder_in_the_place_of_a_note_stops_nobody(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does one in the place of a reason: what was begun beside them is ended, and neither is removed."""
    folder = tmp_path / ".kranz/queue"
    queue.set_aside(place(queue), "for later")
    old = place(queue)
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "move", die)
        with pytest.raises(Killed):
            queue.rewrite(old, replace(make_entry(number=9), own=Own(id="1" * 32)), State.QUEUED, None)
    reason = folder / "parked" / f"{old.name}.why.json"
    reason.unlink()
    (reason / "x").mkdir(parents=True)
    (folder / ".moving.").mkdir()
    (folder / ".moving.zz").mkdir()
    monkeypatch.setattr("kranzq.backends.file.moves.change", lambda _: contextlib.nullcontext())
    queue.finish_moves()

    assert place(queue).state is State.QUEUED
    assert sorted(name for name in os.listdir(folder) if name.startswith(".moving.")) == [".moving.", ".moving.zz"]


@pytest.mark.parametrize("known", [True, None])
def test_a_note_that_git_tracks_is_nobodys(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool | None
) -> None:
    """A clone could bring one along that lets parked work run; where nobody can tell nothing is moved either."""
    queue.set_aside(place(queue), "for later")
    old = place(queue)
    data = (tmp_path / ".kranz/queue/parked" / old.name).read_bytes()
    note = rewriting.Note(State.PARKED, old.name, State.QUEUED, old.name, rewriting.digest_of(data))
    (tmp_path / ".kranz/queue/.moving.0").write_bytes(note.render())
    monkeypatch.setattr("kranzq.backends.file.moves.change", lambda _: contextlib.nullcontext())
    with monkeypatch.context() as patch:
        patch.setattr("kranzq.disk.tracked.is_tracked", lambda *_: known)
        queue.finish_moves()

    assert place(queue) == old
    queue.finish_moves()
    assert place(queue).state is State.QUEUED


def test_a_note_of_content_that_changed_since_moves_nothing(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody has edited the entry after the kill: what it says counts, and where it lies."""
    old = place(queue)
    entry = replace(make_entry(number=9), own=Own(id="1" * 32, timeout_seconds=7.0))
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "move", die)
        with pytest.raises(Killed):
            queue.rewrite(old, entry, State.QUEUED, None)
    queue.rewrite(old, replace(make_entry(number=old.number), own=Own(id="2" * 32)), State.QUEUED, None)
    monkeypatch.setattr("kranzq.backends.file.moves.change", lambda _: contextlib.nullcontext())
    queue.finish_moves()

    assert place(queue) == old
    assert [name for name in os.listdir(tmp_path / ".kranz/queue") if name.startswith(".moving.")] == []
