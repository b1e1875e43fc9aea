"""Looking and enqueueing: names are the truth, a bad file holds up nobody, and what is reported is on disk."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kranzq.backends.file import entries
from kranzq.backends.file.backend import FileQueue
from kranzq.disk import atomic
from kranzq.disk.read import ENTRY_LIMIT, Content, Unreadable, read_regular
from kranzq.errors import Conflict, QueueLocked, StoreUnavailable
from kranzq.model.entry import Entry, parse, render
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Park, Wait
from kranzq.model.state import State
from tests.factories import enqueue, kranz_entry, kranz_name, make_entry, names, remove

NAME = "000-00000000000000000000-m-bad.json"


def sparse(path: Path) -> None:
    """A file of four gigabytes that takes no room."""
    with path.open("wb") as file:
        file.truncate(4 * 1024**3)


BAD: dict[str, Callable[[Path], object]] = {
    "brace": lambda path: path.write_bytes(b"{"),
    "empty": lambda path: path.write_bytes(b""),
    "NULs": lambda path: path.write_bytes(b"\0" * 120),
    "brackets": lambda path: path.write_bytes(b"[" * 3 * 1024**2),
    "bytes": lambda path: path.write_bytes(b"\xff\xfe"),
    "other mission": lambda path: path.write_bytes(kranz_entry("m-other")),
    "escape": lambda path: path.write_bytes(b'{"missionId": "../../x"}'),
    "directory": lambda path: path.mkdir(),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "link to secret": lambda path: path.symlink_to("/etc/passwd"),
    "FIFO": os.mkfifo,
    "sparse": sparse,
    "a byte too long": lambda path: path.write_bytes(kranz_entry("m-bad") + b" " * ENTRY_LIMIT),
}


@pytest.mark.parametrize("name", [NAME, "x.json", "\N{SNOWMAN}" * 80 + ".json", "a" * 250 + ".json"])
@pytest.mark.parametrize("kind", BAD)
def test_b42_a_bad_file_at_the_head_holds_up_nobody(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    """Whatever lies at the head, under whatever name: the good entry behind it is next, the bad one is kept whole."""
    monkeypatch.setattr(entries, "FRESH_S", -1)
    enqueue(queue, "m-good")
    BAD[kind](folder / name)
    before = os.lstat(folder / name)
    found = queue.front()

    assert found is not None
    assert found.entry.mission == "m-good"
    (aside, why), *more = queue.quarantined()
    after = os.lstat(folder / "quarantine" / aside)
    assert not more
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)
    assert len(why) > 5
    assert names(folder.parents[1]) == [kranz_name("m-good"), "quarantine"]


def test_b40_an_entry_that_we_may_not_read_is_not_set_aside(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's private entry in a shared queue is passed over and stays that user's."""
    first, second = enqueue(queue, "m-1"), enqueue(queue, "m-2")
    real = read_regular

    def read(name: str, **rest: int) -> Content | None:
        if name == first:
            raise Unreadable("it cannot be opened: Permission denied", denied=True)
        return real(name, **rest)

    monkeypatch.setattr(entries, "read_regular", read)
    found = queue.front()

    assert found is not None
    assert found.entry.mission == "m-2"
    assert names(folder.parents[1]) == [first, second]


def test_for_want_of_descriptors_no_entry_is_set_aside(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That nothing can be opened now tells nothing of the entry: the next look reads it."""
    name = enqueue(queue, "m-1")
    real = os.open

    def lacking(path: str, *args: int, **rest: int) -> int:
        if path == name:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return real(path, *args, **rest)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", lacking)
        assert queue.front() is None
    found = queue.front()

    assert found is not None
    assert names(folder.parents[1]) == [name]


def test_b42_two_bad_files_of_one_name_are_both_kept(queue: FileQueue, folder: Path) -> None:
    """A second bad file of the same name does not replace the first in the quarantine."""
    for content in (b"[1]", b"[2]"):
        (folder / NAME).write_bytes(content)
        assert queue.front() is None

    kept = {(folder / "quarantine" / name).read_bytes() for name, _ in queue.quarantined()}
    assert kept == {b"[1]", b"[2]"}


@pytest.mark.parametrize("content", [b"", b'{"missionId": "m-ba'])
def test_b38_a_fresh_half_file_is_left_to_its_writer(
    queue: FileQueue, folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty or truncated file younger than two seconds is still being written: it stays and holds up nobody."""
    monkeypatch.setattr(entries, "FRESH_S", 3600.0)
    enqueue(queue, "m-good")
    (folder / NAME).write_bytes(content)
    found = queue.front()

    assert found is not None
    assert found.entry.mission == "m-good"
    assert (folder / NAME).exists()
    (folder / NAME).write_bytes(kranz_entry("m-bad", 0))
    found = queue.front()
    assert found is not None
    assert found.entry.mission == "m-bad"


@pytest.mark.parametrize(
    "name",
    [".hidden.json", "m-1.json.tmp", "m-1.json~", "4913", ".m-1.json.swp", ".002-0-m.json.4711.0.tmp", "notes.txt",
     "002-00000000000000000000-m.json.claimed.host7-4711", "m-1.JSON"],
)  # fmt: skip
def test_b29_what_is_no_candidate_is_left_alone(queue: FileQueue, folder: Path, name: str) -> None:
    """Hidden, temporary, backup and foreign files are neither run nor set aside."""
    (folder / name).write_bytes(b"x")

    assert queue.front() is None
    assert (folder / name).read_bytes() == b"x"
    assert queue.quarantined() == []


def test_a_misnamed_entry_is_claimed_under_its_own_name(queue: FileQueue, folder: Path) -> None:
    """A producer's unpadded name blocks nobody: the entry has its numeric place and is claimed like any other."""
    (folder / "2-7-m-1.json").write_bytes(kranz_entry("m-1", 2, 7))
    enqueue(queue, "m-2", 3)
    found = queue.front()

    assert found is not None
    claimed = queue.claim(found, os.getpid(), "0" * 16)
    assert claimed is not None
    assert claimed.entry_name == "2-7-m-1.json"


def test_name_and_content_need_to_agree_on_the_mission_only(queue: FileQueue, folder: Path) -> None:
    """For priority and number the name wins, wherever the entry is read."""
    (folder / kranz_name("m-1", 5, 9)).write_bytes(kranz_entry("m-1", 0, 1))
    found = queue.front()
    assert found is not None

    assert (found.entry.priority, found.entry.number) == (5, 9)
    read = queue.read(found.place)
    assert read is not None
    assert (read.priority, read.number) == (5, 9)


def test_an_enqueued_entry_is_what_kranz_lists(queue: FileQueue, folder: Path) -> None:
    """The file has the name that kranz computes from its content, private and complete, with nothing left beside it."""
    name = enqueue(queue, "m-1", 4, "true")
    entry = parse((folder / name).read_bytes())

    assert kranz_name(entry.mission, entry.priority, entry.number) == name
    assert (folder / name).read_bytes() == render(entry)
    assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert not [left for left in os.listdir(folder) if left.endswith((".tmp", ".lock"))]


@pytest.mark.parametrize("state", [State.QUEUED, State.WAITING, State.CLAIMED])
def test_b48_a_mission_that_is_there_is_not_queued_again(queue: FileQueue, state: State) -> None:
    """Queued, waiting or claimed: the same approval makes nothing and says where the mission is."""
    enqueue(queue, "m-1")
    found = queue.front()
    assert found is not None
    if state is State.WAITING:
        with queue.change():
            queue.carry_out(found.place, Wait(int(time.time() * 1000) + 3_600_000))
    elif state is State.CLAIMED:
        assert queue.claim(found, os.getpid(), "0" * 16) is not None
    accepted = queue.enqueue(make_entry("m-1", 0), lambda _: None)

    assert (accepted.created, accepted.state, accepted.entry.id) == (False, state, found.entry.id)
    assert len(queue.places(MissionId("m-1"))) == 1
    with pytest.raises(Conflict, match="another command"):
        queue.enqueue(make_entry("m-1", 2, "other"), lambda _: None)


def test_b48_a_parked_mission_is_a_conflict_with_its_reason(queue: FileQueue) -> None:
    """What a person must look at is not queued beside itself, and the refusal says why it is parked."""
    enqueue(queue, "m-1")
    found = queue.front()
    assert found is not None
    with queue.change():
        queue.carry_out(found.place, Park("its command is missing"))
    with pytest.raises(Conflict, match="its command is missing"):
        queue.enqueue(make_entry("m-1"), lambda _: None)


def test_b48_a_look_alike_is_refused_wherever_it_is(queue: FileQueue, folder: Path) -> None:
    """An id that differs in case from an entry or from a mission's folder is refused; other letters are other ids."""
    enqueue(queue, "m-1")
    (folder.parent / "missions/m-KK").mkdir(parents=True)
    (folder.parent / "missions/m-\N{KELVIN SIGN}9").mkdir()
    for text in ("M-1", "m-kk"):
        with pytest.raises(Conflict, match="case"):
            queue.enqueue(make_entry(text), lambda _: None)

    assert queue.enqueue(make_entry("m-k9"), lambda _: None).created


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("call", ["write", "fsync"])
def test_b36_an_enqueue_that_the_disk_refuses_is_loud_and_leaves_no_entry(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    """The caller gets an error, no entry and no half of one is there, and afterwards all goes on."""
    enqueue(queue, "m-0")

    def fails(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        with pytest.raises(StoreUnavailable):
            queue.enqueue(make_entry("m-1"), lambda _: None)

    assert names(folder.parents[1]) == [kranz_name("m-0")]
    assert not [left for left in os.listdir(folder) if left.endswith((".tmp", ".lock"))]
    assert queue.enqueue(make_entry("m-1"), lambda _: None).created


def test_b38_a_power_cut_between_number_and_entry_skips_a_number(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number is written before the entry: a crash in between leaves a gap, never a twin."""

    def dies(*_: object, **__: object) -> os.stat_result:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(atomic, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            queue.enqueue(make_entry("m-1"), lambda _: None)

    assert (folder / ".seq").read_bytes() == b"0"
    assert enqueue(queue, "m-2") == kranz_name("m-2", 2, 1)


def test_what_is_reported_is_synced_before_and_after_it_is_visible(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content is on disk before the entry has its name, and the name before the caller is told."""
    seen: list[tuple[str, bool]] = []
    real = os.fsync

    def sync(fd: int) -> None:
        real(fd)
        seen.append((os.readlink(f"/proc/self/fd/{fd}"), (folder / kranz_name("m-1")).exists()))

    monkeypatch.setattr(os, "fsync", sync)
    enqueue(queue, "m-1")
    (written, early), (synced, late) = seen

    assert written.endswith(".tmp")
    assert (early, synced, late) == (False, str(folder), True)


def test_temporary_files_of_killed_writers_go_after_an_hour(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a killed writer left, ours or kranz's, is swept by a later enqueue; nothing that may be in use is."""
    swept = [".002-0-m.json.4711.0.tmp", f".x.{os.getpid()}.0abcdef01.tmp"]
    kept = [".busy.flock", "notes.tmp", ".directory.tmp"]
    for name in [*swept, *kept[:2]]:
        (folder / name).touch()
    (folder / kept[2]).mkdir()
    enqueue(queue, "m-1")
    assert set(swept) < set(os.listdir(folder))

    now = time.time() + 3601
    monkeypatch.setattr("kranzq.backends.file.folders.time.time", lambda: now)
    enqueue(queue, "m-2")
    assert not set(swept) & set(os.listdir(folder))
    assert set(kept) < set(os.listdir(folder))


@pytest.mark.parametrize("beside", ["x", "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}", "\udcff"])
def test_the_places_of_a_mission_are_found_among_all_names(queue: FileQueue, folder: Path, beside: str) -> None:
    """Whatever lies beside them, in any case of the letters, and not those of an id that ends alike."""
    mine = [
        kranz_name("m-1", 2, 3),
        "1-4-M-1.json",
        kranz_name("m-1", 2, 5) + ".claimed.4711",
        "waiting/1800000000000." + kranz_name("m-1", 2, 6),
        "waiting/after." + kranz_name("m-1", 2, 7),
        "parked/" + kranz_name("m-1", 2, 8),
    ]
    for name in [
        *mine,
        kranz_name("x-m-1", 2, 9),
        kranz_name("m-1.b", 2, 10),
        kranz_name("m-11", 2, 11),
        f"{beside}-m-1.json",
    ]:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"{}")

    found = queue.places(MissionId("m-1"))

    assert sorted(place.number for place in found) == [3, 4, 5, 6, 7, 8]
    assert [place.number for place in queue.places(MissionId("m-11"))] == [11]
    assert queue.places(MissionId("m")) == []


def test_a_busy_queue_refuses_within_its_patience(queue: FileQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enqueue waits a bounded time for the queue, and then says who has it."""
    monkeypatch.setattr("kranzq.backends.file.backend.PATIENCE_S", 0.05)
    with queue.change(), pytest.raises(QueueLocked):
        queue.enqueue(make_entry("m-1"), lambda _: None)


def test_removing_spares_the_claim_and_is_durable(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files of a mission that wait or are parked go, duplicates too; a claim stays; the directory is synced."""
    enqueue(queue, "m-1")
    found = queue.front()
    assert found is not None
    claimed = queue.claim(found, os.getpid(), "0" * 16)
    assert claimed is not None
    for number in (5, 6):
        (folder / kranz_name("m-1", 2, number)).write_bytes(kranz_entry("m-1", 2, number))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)

    assert remove(queue, "m-1") == 2
    assert queue.fd in synced
    assert names(folder.parents[1]) == [claimed.place.name]
    assert remove(queue, "m-1") == 0


def test_unknown_keys_of_strangers_survive_a_rewrite(queue: FileQueue, folder: Path) -> None:
    """An entry that is numbered anew keeps every key that somebody else put into it."""
    name = kranz_name("m-1")
    (folder / name).write_bytes(b'{"missionId": "m-1", "priority": 2, "seq": 0, "theirs": {"a": [1]}, "x": null}')
    found = queue.front()
    assert found is not None
    assert isinstance(found.entry, Entry)
    with queue.change():
        entry = entries.read(queue.folders, next(iter(entries.names(queue.folders)[0])))
        assert not isinstance(entry, entries.Bad)
        assert entry is not None
        queue.replace_content(entry.place, render(entry.entry))

    assert parse((folder / name).read_bytes()).extra == {"theirs": {"a": [1]}, "x": None}
