"""Bad files beside the queue: each is looked into once, set aside once, and never by mistake."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kranzq.backend import Examined
from kranzq.backends.file import aside, bad_files, entries
from kranzq.backends.file.backend import FileQueue
from kranzq.events import Event, Quarantined, Warned, subscribe
from kranzq.model.outcome import Park
from tests.factories import enqueue, kranz_entry, kranz_name, make_queue, names


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fresh, and a folder's time is believed at once."""
    monkeypatch.setattr(entries, "FRESH_S", 0.0)
    monkeypatch.setattr(bad_files, "_SETTLED_S", -1.0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files whose content is read."""
    seen: list[str] = []
    real = entries.read_entry

    def read(fd: int, name: str, mission: object) -> object:
        seen.append(name)
        return real(fd, name, mission)  # type: ignore[arg-type]

    monkeypatch.setattr(bad_files, "read_entry", read)
    return seen


def test_what_was_examined_is_not_read_again(queue: FileQueue, folder: Path, reads: list[str]) -> None:
    """A thousand entries that wait cost a turn no read; a new file, and a replaced one, are looked into."""
    (folder / "waiting").mkdir()
    for number in range(3):
        name = f"4000000000000.{kranz_name(f'm-{number}', 2, number)}"
        (folder / "waiting" / name).write_bytes(kranz_entry(f"m-{number}", 2, number))
    examined = Examined()
    queue.tidy_up(examined)
    assert len(reads) == 3
    queue.tidy_up(examined)
    assert len(reads) == 3

    (folder / "waiting" / f"after.{kranz_name('m-9', 2, 9)}").write_bytes(kranz_entry("m-9", 2, 9))
    queue.tidy_up(examined)
    assert reads[3:] == [f"after.{kranz_name('m-9', 2, 9)}"]
    replaced = folder / "waiting" / f"4000000000000.{kranz_name('m-1', 2, 1)}"
    (folder / "new").write_text("torn")
    os.rename(folder / "new", replaced)
    queue.tidy_up(examined)

    assert not replaced.exists()
    assert names(folder.parents[1], "quarantine") == [kranz_name("m-1", 2, 1), f"{kranz_name('m-1', 2, 1)}.why.json"]


def test_a_folder_that_changes_right_now_is_looked_at_once_more(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time moves in ticks, so what came within the same one must not be missed."""
    monkeypatch.setattr(bad_files, "_SETTLED_S", 3600.0)
    (folder / "waiting").mkdir()
    examined = Examined()
    queue.tidy_up(examined)
    seen = (folder / "waiting").stat()
    (folder / "waiting/x.json").write_text("{}")
    os.utime(folder / "waiting", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    queue.tidy_up(examined)

    assert names(folder.parents[1], "waiting") == []


def test_what_cannot_be_moved_is_said_once_and_stops_nothing(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's directory, which only he may move, stays; the file behind it goes."""
    (folder / "waiting").mkdir()
    for name in ("a.json", "b.json"):
        (folder / "waiting" / name).write_text("{}")
    real = aside.quarantine

    def refuse(folders: object, name: str, *args: object, **kwargs: object) -> None:
        if name == "a.json":
            raise PermissionError(13, "Permission denied")
        real(folders, name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(aside, "quarantine", refuse)
    heard: list[Event] = []
    forget = subscribe(heard.append)
    examined = Examined()
    for _ in range(3):
        queue.tidy_up(examined)
    forget()

    assert names(folder.parents[1], "waiting") == ["a.json"]
    assert [type(event) for event in heard] == [Warned, Quarantined]


def test_a_reason_with_its_entry_is_no_bad_file(queue: FileQueue, folder: Path) -> None:
    """Whatever its mission is called; only a reason without an entry is one."""
    for mission in ("m-1", "m.why"):
        enqueue(queue, mission)
    with queue.change():
        for place in queue.places():
            queue.carry_out(place, Park("a reason"))
    queue.tidy_up(Examined())

    assert len(names(folder.parents[1], "parked")) == 4
    assert queue.bad() == []
    assert not queue.has_bad_names()
    (folder / "parked" / kranz_name("m-1", 2, 0)).unlink()
    assert queue.has_bad_names()
    queue.tidy_up(Examined())
    assert [why for _, why in queue.quarantined()] == [
        "it is the reason of an entry that is not there (it lay in parked/)"
    ]


def test_a_parked_file_keeps_the_reason_for_which_it_was_parked(queue: FileQueue, folder: Path) -> None:
    """Nothing that somebody wrote for a person is lost on the way to the quarantine."""
    enqueue(queue, "m-1")
    with queue.change():
        queue.carry_out(queue.places()[0], Park("look at the tree first"))
    (folder / "parked" / kranz_name("m-1")).write_text("torn")
    queue.tidy_up(Examined())

    ((name, why),) = queue.quarantined()
    assert name == kranz_name("m-1")
    assert "it was parked: look at the tree first" in why
    assert names(folder.parents[1], "parked") == []


@pytest.mark.parametrize("where", ["", "waiting", "parked", "inbox"])
def test_no_name_hides_in_the_quarantine(queue: FileQueue, folder: Path, where: str) -> None:
    """A bad file that is called like a reason is shown like any other."""
    (folder / where).mkdir(exist_ok=True)
    (folder / where / "x.why.json").write_text("torn")
    os.utime(folder / where / "x.why.json", (1, 1))
    list(queue.in_order())
    queue.admit_dropped(lambda _: pytest.fail("it has no mission"))
    queue.tidy_up(Examined())

    ((name, _),) = queue.quarantined()
    assert name.endswith("x.why")


def test_a_queue_without_the_folders_is_tidy(tmp_path: Path) -> None:
    """Nothing is made by a look."""
    with make_queue(tmp_path) as queue:
        queue.tidy_up(Examined())

        assert not queue.has_bad_names()
        assert names(tmp_path) == []
