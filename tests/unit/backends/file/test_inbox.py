"""What any program drops into the inbox becomes an entry once, is left for later, or is set aside with its reason."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backend import Past
from kranzq.backends.file import entries
from kranzq.backends.file.backend import FileQueue
from kranzq.events import Event, Repeated, subscribe
from kranzq.model.claim import Place
from kranzq.model.dropped import asks_admission
from kranzq.model.entry import parse
from kranzq.model.state import State
from tests.factories import enqueue, kranz_entry, kranz_name, make_queue, names, remove

IGNORED = (".x", "x.tmp", "x.TMP", "x~", ".x.swp", "#x#", "x.part", "4913", "x.bak")


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[FileQueue]:
    """An open queue of its own."""
    with make_queue(tmp_path) as one:
        yield one


def drop(root: Path, name: str, content: bytes | str, *, age: float = 0.0) -> Path:
    """Rename a file into the inbox as a careful program does; `age` is how long ago it was written."""
    inbox = root / ".kranz/queue/inbox"
    made = inbox / f".{name}.made"
    made.write_bytes(content.encode() if isinstance(content, str) else content)
    if age:
        os.utime(made, (time.time() - age, time.time() - age))
    made.rename(inbox / name)
    return inbox / name


def admit(queue: FileQueue, past: Past | None = None) -> list[tuple[str, str]]:
    """Look once, as a dispatcher does."""
    return queue.admit_dropped(lambda _: past or Past())


def reasons(queue: FileQueue) -> dict[str, str]:
    """What is parked or quarantined, by mission or name, with the reason."""
    parked = {str(one.mission): queue.why_parked(one) for one in queue.places() if one.state is State.PARKED}
    return parked | dict(queue.quarantined())


def test_a_dropped_file_becomes_an_entry(queue: FileQueue, tmp_path: Path) -> None:
    """It has a number, a name and a content as any entry has; what it says of its number does not count."""
    enqueue(queue, "first")
    drop(tmp_path, "one", '{"missionId": "m1", "priority": 7, "ticketSlug": "t", "seq": 99, "note": 1}')

    assert queue.has_dropped()
    assert admit(queue) == []
    name = kranz_name("m1", 7, 1)
    assert names(tmp_path) == [kranz_name("first", 2, 0), name]
    entry = parse((tmp_path / ".kranz/queue" / name).read_bytes())
    assert (entry.mission, entry.priority, entry.number, entry.ticket) == ("m1", 7, 1, "t")
    assert entry.extra == {"note": 1}
    assert not queue.has_dropped()


@pytest.mark.parametrize("again", [False, True], ids=["an entry", "one that waits already"])
def test_what_was_admitted_lasts(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, again: bool
) -> None:
    """The names in the queue are synced after the last of them has changed."""
    if again:
        drop(tmp_path, "before", '{"missionId": "m1"}')
        admit(queue)
    drop(tmp_path, "one", '{"missionId": "m1"}')
    synced: list[list[str]] = []
    fsync = os.fsync

    def noted(fd: int) -> None:
        fsync(fd)
        if os.readlink(f"/proc/self/fd/{fd}") == str(tmp_path / ".kranz/queue"):
            synced.append(sorted(os.listdir(fd)))

    monkeypatch.setattr(os, "fsync", noted)
    admit(queue)

    assert synced[-1] == sorted(os.listdir(tmp_path / ".kranz/queue"))
    assert any(name.endswith("-m1.json") for name in synced[-1])
    assert not any(name.startswith(".admitting.") for name in synced[-1])


def test_files_are_admitted_in_the_order_in_which_they_came(queue: FileQueue, tmp_path: Path) -> None:
    """Names say nothing."""
    for name, mission in (("z", "m1"), ("a", "m2"), ("k", "m3")):
        drop(tmp_path, name, kranz_entry(mission))
    admit(queue)

    assert [place.mission for place in queue.queued()] == ["m1", "m2", "m3"]


@pytest.mark.parametrize("name", IGNORED)
def test_b29_names_on_their_way_are_ignored(queue: FileQueue, tmp_path: Path, name: str) -> None:
    """What is hidden, in the making or an editor's copy stays where it is."""
    (tmp_path / ".kranz/queue/inbox" / name).write_bytes(kranz_entry("m1"))
    admit(queue)

    assert not asks_admission(name)
    assert names(tmp_path, "inbox") == ([name] if name[0] != "." else [])
    assert list(queue.places()) == []


def test_b29_a_plain_write_is_admitted_when_it_is_complete(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a file is left for the next look."""
    monkeypatch.setattr(entries, "FRESH_S", 3600.0)
    path = tmp_path / ".kranz/queue/inbox/x"
    path.write_bytes(b'{"missionId"')
    admit(queue)
    assert names(tmp_path, "inbox") == ["x"]

    path.write_bytes(b'{"missionId": "m1"}')
    admit(queue)
    assert names(tmp_path) == [kranz_name("m1", 2, 0)]


@pytest.mark.parametrize("content", [b"", b"{", b'{"missionId": "m1"', bytes(40)])
def test_b38_fresh_ones_are_left_and_old_ones_set_aside(
    queue: FileQueue, tmp_path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty or truncated file has two seconds; then its bytes lie in the quarantine with the reason."""
    drop(tmp_path, "x", content)
    with monkeypatch.context() as patched:
        patched.setattr(entries, "FRESH_S", 3600.0)  # it is young at this look, however late that comes
        admit(queue)
    assert names(tmp_path, "inbox") == ["x"]

    os.utime(tmp_path / ".kranz/queue/inbox/x", (time.time() - 5, time.time() - 5))
    admit(queue)
    assert names(tmp_path, "inbox") == []
    assert list(reasons(queue)) == ["inbox.x"]
    assert (tmp_path / ".kranz/queue/quarantine/inbox.x").read_bytes() == content


def test_b42_bad_files_hold_up_nobody(queue: FileQueue, tmp_path: Path) -> None:
    """Links, pipes, huge and senseless files are quarantined, directories left; the good one behind is admitted."""
    inbox = tmp_path / ".kranz/queue/inbox"
    (inbox / "a-folder").mkdir()
    (inbox / "b-link").symlink_to("/nowhere")
    os.mkfifo(inbox / "c-pipe")
    for name, content in {"d": b"[" * 3_000_000, "e": b"\xff\xfe", "f": b"[]", "g": b"null"}.items():
        drop(tmp_path, name, content, age=5)
    with (inbox / "h").open("wb") as sparse:
        sparse.truncate(4 * 1024**3)
    drop(tmp_path, "good", kranz_entry("m1"))

    assert admit(queue) == []
    assert [place.mission for place in queue.queued()] == ["m1"]
    assert sorted(reasons(queue)) == [f"inbox.{name}" for name in ("b-link", "c-pipe", "d", "e", "f", "g", "h")]
    assert names(tmp_path, "inbox") == ["a-folder"]


@pytest.mark.parametrize("mission", ["../../x", "/abs", "a/b", ".", "", " ", "-rf", "a.claimed.1", "x.json", "a\nb"])
def test_b49_ids_that_are_no_ids_are_refused(queue: FileQueue, tmp_path: Path, mission: str) -> None:
    """An innocent name with a wicked content goes to the quarantine, and nothing is written elsewhere."""
    before = sorted(tmp_path.rglob("*"))
    drop(tmp_path, "innocent", json.dumps({"missionId": mission}), age=5)
    admit(queue)

    assert list(reasons(queue)) == ["inbox.innocent"]
    assert {path for path in tmp_path.rglob("*") if ".kranz" not in path.parts} <= set(before)


def test_an_id_that_differs_only_in_case_is_refused(queue: FileQueue, tmp_path: Path) -> None:
    """It would be the same mission on some disks."""
    enqueue(queue, "m-1")
    drop(tmp_path, "x", kranz_entry("M-1"))
    admit(queue)

    assert "differs only in the case" in reasons(queue)["inbox.x"]


def test_b48_a_repeat_of_what_waits_changes_nothing(queue: FileQueue, tmp_path: Path) -> None:
    """One run will do what both ask for; the second file is removed, and that is said."""
    heard: list[Event] = []
    drop(tmp_path, "x", kranz_entry("m1"))
    admit(queue)
    drop(tmp_path, "y", kranz_entry("m1", 9))
    end = subscribe(heard.append)
    admit(queue)
    end()

    assert names(tmp_path) == [kranz_name("m1", 2, 0)]
    assert heard == [Repeated("m1", "inbox.y", "queued")]


def claim_front(queue: FileQueue) -> Place:
    """Take the front entry for a pid that means nothing."""
    candidate = queue.front()
    assert candidate is not None
    claimed = queue.claim(candidate, os.getpid(), "0" * 16)
    assert claimed is not None
    return claimed.place


def test_b48_a_repeat_of_what_runs_is_parked(queue: FileQueue, tmp_path: Path) -> None:
    """Nobody can be asked whether one more run is meant, so a person decides."""
    enqueue(queue, "m1")
    claim_front(queue)
    drop(tmp_path, "x", kranz_entry("m1"))
    admit(queue)

    assert "was running" in reasons(queue)["m1"]
    assert names(tmp_path, "parked") == [kranz_name("m1", 2, 1), f"{kranz_name('m1', 2, 1)}.why.json"]


def test_b48_a_repeat_that_came_during_the_last_run_is_parked(queue: FileQueue, tmp_path: Path) -> None:
    """It does not matter whether somebody looked while the mission ran; what came after the end runs."""
    now = time.time()
    drop(tmp_path, "x", kranz_entry("m1"))
    admit(queue, Past(4, 2, now - 60, now + 60))
    drop(tmp_path, "y", kranz_entry("m2"))
    admit(queue, Past(4, 2, now - 60, now - 30))

    assert "run 2" in reasons(queue)["m1"]
    assert [place.mission for place in queue.queued()] == ["m2"]


@pytest.mark.parametrize("there", ["another command", "parked"])
def test_b48_what_would_be_a_conflict_is_parked(queue: FileQueue, tmp_path: Path, there: str) -> None:
    """Where `enqueue` would refuse, nothing is lost either."""
    enqueue(queue, "m1", 2, *(["make"] if there == "another command" else []))
    if there == "parked":
        with queue.change():
            queue.set_aside(next(iter(queue.places())), "a test")
    drop(tmp_path, "x", kranz_entry("m1"))
    admit(queue)

    assert there in queue.why_parked(max(queue.places(), key=lambda place: place.number))


def test_what_says_when_waits(queue: FileQueue, tmp_path: Path) -> None:
    """A time that has not come, or another mission, is honoured from the beginning."""
    own = {"id": "0" * 32, "notBefore": "2999-01-01T00:00:00Z"}
    drop(tmp_path, "x", json.dumps({"missionId": "m1", "kranzq": own}))
    drop(tmp_path, "y", json.dumps({"missionId": "m2", "kranzq": {"id": "1" * 32, "after": ["m1"]}}))
    admit(queue)

    assert sorted((place.mission, place.state) for place in queue.places()) == [
        ("m1", State.WAITING),
        ("m2", State.WAITING),
    ]


@pytest.mark.parametrize("half", ["raw", "numbered", "two names"])
def test_what_was_left_half_way_is_finished_once(queue: FileQueue, tmp_path: Path, half: str) -> None:
    """Whoever looks next carries a killed admission on from wherever it stopped."""
    folder = tmp_path / ".kranz/queue"
    (folder / ".admitting.5").write_bytes(kranz_entry("m1", 2, 0 if half == "raw" else 5))
    if half == "two names":
        os.link(folder / ".admitting.5", folder / kranz_name("m1", 2, 5))
    enqueue(queue, "m2")

    assert queue.has_dropped()
    admit(queue)
    admit(queue)
    assert names(tmp_path) == [kranz_name("m1", 2, 5), kranz_name("m2", 2, 6)]
    assert parse((folder / kranz_name("m1", 2, 5)).read_bytes()).number == 5
    assert not queue.has_dropped()


@pytest.mark.parametrize("number", [str(10**15 + 1), "99999999999999999999", "007", "8.bak", "x", "", "\u0663"])
def test_b49_a_file_on_its_way_under_no_number_holds_up_nobody(queue: FileQueue, tmp_path: Path, number: str) -> None:
    """It gives out no number, so the next one is as it was; it is set aside with its bytes and the reason."""
    (tmp_path / f".kranz/queue/.admitting.{number}").write_bytes(kranz_entry("m1"))

    assert enqueue(queue, "m2") == kranz_name("m2", 2, 0)
    assert queue.has_dropped()
    assert admit(queue) == []
    assert not queue.has_dropped()
    assert set(names(tmp_path)) == {kranz_name("m2", 2, 0), "quarantine"}
    ((name, why),) = queue.quarantined()
    assert (tmp_path / ".kranz/queue/quarantine" / name).read_bytes() == kranz_entry("m1")
    assert "its name is not .admitting.NUMBER" in why


def test_one_that_cannot_be_moved_is_reported_and_stays(
    queue: FileQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused rename admits nothing, and the others are admitted all the same."""
    from kranzq.disk import atomic

    move = atomic.move

    def refuse(from_fd: int, name: str, to_fd: int, new: str, *, inode: int | None = None) -> None:
        if name == "stuck":
            raise PermissionError(1, "Operation not permitted")
        move(from_fd, name, to_fd, new, inode=inode)

    monkeypatch.setattr(atomic, "move", refuse)
    drop(tmp_path, "stuck", kranz_entry("m1"))
    drop(tmp_path, "other", kranz_entry("m2"))

    assert [name for name, _ in admit(queue)] == ["inbox/stuck"]
    assert names(tmp_path, "inbox") == ["stuck"]
    assert [place.mission for place in queue.queued()] == ["m2"]


def test_what_lies_in_the_inbox_can_be_cancelled(queue: FileQueue, tmp_path: Path) -> None:
    """Only the files of that mission go, also one that was left half-way."""
    for name, mission in (("x", "m1"), ("y", "m2"), ("z", "m1")):
        drop(tmp_path, name, kranz_entry(mission))
    (tmp_path / ".kranz/queue/.admitting.3").write_bytes(kranz_entry("m1"))

    assert queue.dropped_missions() == {"m1", "m2"}
    assert remove(queue, "m1") == 3
    assert queue.dropped_missions() == {"m2"}


@pytest.mark.system("git")
@pytest.mark.parametrize("name", ["inbox/x", ".admitting.3"])
def test_what_git_tracks_is_never_admitted(checkout: Path, name: str) -> None:
    """A clone brings a file along in the inbox, or half-way out of it: it is set aside, and never becomes an entry."""
    with make_queue(checkout) as queue:
        (checkout / ".kranz/queue" / name).write_bytes(kranz_entry("m1"))
        subprocess.run(["git", "add", "-f", f".kranz/queue/{name}"], cwd=checkout, check=True)
        admit(queue)

        assert [why for _, why in queue.quarantined()] == ["tracked by git: a clone would bring it along"]
        assert list(queue.places()) == []


def test_a_link_in_place_of_the_inbox_admits_nothing(tmp_path: Path) -> None:
    """It is not followed, and everything else works."""
    with make_queue(tmp_path):
        (tmp_path / ".kranz/queue/inbox").rmdir()
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "elsewhere/x").write_bytes(kranz_entry("m1"))
        (tmp_path / ".kranz/queue/inbox").symlink_to(tmp_path / "elsewhere")
    with make_queue(tmp_path) as queue:
        enqueue(queue, "m2")

        assert not queue.has_dropped()
        assert admit(queue) == []
        assert os.listdir(tmp_path / "elsewhere") == ["x"]
