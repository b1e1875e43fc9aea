"""Numbers: only growing, whatever happened to the hint."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.backends.file import change, enqueueing
from kranzq.backends.file.backend import FileQueue
from kranzq.backends.file.folders import Folders
from kranzq.errors import StoreUnavailable
from kranzq.model.entry import MAX_NUMBER
from tests.factories import enqueue, kranz_name, make_entry, names


def next_number(queue: FileQueue, floor: int | None = None) -> int:
    """The number that would be given out now, which is so given out."""
    with queue.change(), queue.take_number(floor) as number:
        return number


def test_the_first_number_is_zero_and_the_hint_is_kranzs(queue: FileQueue, folder: Path) -> None:
    """A fresh queue begins with 0, and the hint is the last number in decimal without a line end, as kranz reads it."""
    assert enqueue(queue, "m-1") == kranz_name("m-1", 2, 0)
    assert (folder / ".seq").read_bytes() == b"0"
    assert enqueue(queue, "m-2") == kranz_name("m-2", 2, 1)
    assert (folder / ".seq").read_bytes() == b"1"


def test_a_number_is_larger_than_every_name(queue: FileQueue, folder: Path) -> None:
    """Without the hint, claims, waiting and parked entries, admissions and the mission's own records still count."""
    for number, place in enumerate(
        [
            kranz_name("m-a", 2, 3),
            kranz_name("m-b", 2, 4) + ".claimed.4711",
            "waiting/1800000000000." + kranz_name("m-c", 2, 5),
            "waiting/after." + kranz_name("m-d", 2, 6),
            "parked/" + kranz_name("m-e", 2, 7),
            ".admitting.8",
        ],
        start=4,
    ):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / place).write_bytes(b"{}")
        (folder / ".seq").unlink(missing_ok=True)

        assert next_number(queue) == number

    (folder / ".seq").unlink()
    assert next_number(queue, floor=20) == 21


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"-1", b"1.5", b"\0" * 20, b"1" * 30, str(MAX_NUMBER + 1).encode(), b"18446744073709551615", b"7 8"],
)
def test_b38_a_damaged_hint_is_set_aside_and_the_names_tell(queue: FileQueue, folder: Path, content: bytes) -> None:
    """A hint that is none, or beyond all reason, stops nobody: it is quarantined with its bytes and a reason."""
    (folder / kranz_name("m-a", 2, 41)).write_bytes(b"{}")
    (folder / ".seq").write_bytes(content)

    assert next_number(queue) == 42
    assert (folder / ".seq").read_bytes() == b"42"
    assert (folder / "quarantine/seq").read_bytes() == content
    ((name, why),) = queue.quarantined()
    assert name == "seq"
    assert "it is no number" in why
    assert "the next one comes from the names" in why


def test_each_damaged_hint_is_kept(queue: FileQueue, folder: Path) -> None:
    """A second one does not take the place of the first."""
    for content in (b"first", b"second"):
        (folder / ".seq").write_bytes(content)
        next_number(queue)

    assert {name: (folder / "quarantine" / name).read_bytes() for name, _ in queue.quarantined()} == {
        "seq": b"first",
        "seq.2": b"second",
    }


def test_b38_a_hint_that_is_no_file_stops_nobody(queue: FileQueue, folder: Path) -> None:
    """A directory or a link in the hint's place is set aside, too."""
    (folder / ".seq").mkdir()
    assert next_number(queue) == 0
    (folder / ".seq").unlink()
    (folder / ".seq").symlink_to("/etc/hostname")

    assert next_number(queue) == 0
    assert not (folder / ".seq").is_symlink()


def test_for_want_of_descriptors_a_good_hint_is_not_set_aside(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it cannot be opened now tells nothing of it."""
    (folder / ".seq").write_bytes(b"7")
    real = os.open

    def lacking(path: str, *args: int, **rest: int) -> int:
        if path == ".seq":
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE), path)
        return real(path, *args, **rest)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", lacking)
        with pytest.raises(StoreUnavailable, match="Too many open files"):
            next_number(queue)

    assert next_number(queue) == 8
    assert queue.quarantined() == []


@pytest.mark.parametrize("content", [b"7", b"7\n", b"  7 \n", b"007"])
def test_a_hint_with_white_space_is_read(queue: FileQueue, folder: Path, content: bytes) -> None:
    """The hint is read as kranz reads it."""
    (folder / ".seq").write_bytes(content)

    assert next_number(queue) == 8


def test_numbers_end_with_a_refusal(queue: FileQueue, folder: Path) -> None:
    """When the numbers are used up nothing is queued out of order, and somebody is told."""
    (folder / ".seq").write_text(str(MAX_NUMBER))
    with pytest.raises(StoreUnavailable, match="have reached") as refused:
        queue.enqueue(make_entry(), lambda _: None)
    assert refused.value.advice.endswith(f"remove {folder}/.seq")

    assert names(folder.parents[1]) == []


@pytest.mark.parametrize("hint", ["", "5", "139"])
def test_of_many_names_the_largest_counts_too(queue: FileQueue, folder: Path, hint: str) -> None:
    """So many that none is parsed, and wherever the largest is: the hint may be gone, or older than the names."""
    for number in range(100, 140):
        (folder / kranz_name(f"m-{number}", number % 3, number)).write_bytes(b"{}")
    places = ["", kranz_name("m-b", 2, 200) + ".claimed.4711", ".admitting.300"]
    places += ["waiting/1800000000000." + kranz_name("m-c", 2, 400), "waiting/after." + kranz_name("m-d", 2, 500)]
    places += ["parked/" + kranz_name("m-e", 2, 600), "2-700-m-f.json"]
    for place, largest in zip(places, [139, 200, 300, 400, 500, 600, 700], strict=True):
        (folder / place).parent.mkdir(exist_ok=True)
        if place:
            (folder / place).write_bytes(b"{}")
        (folder / ".seq").unlink(missing_ok=True)
        if hint:
            (folder / ".seq").write_text(hint)

        assert next_number(queue) == largest + 1


@pytest.mark.parametrize("hint", [True, False])
def test_a_number_given_out_since_the_names_were_read_is_not_given_out_again(
    queue: FileQueue, folder: Path, monkeypatch: pytest.MonkeyPatch, *, hint: bool
) -> None:
    """Its hint tells of what kranz enqueued just before the lock was ours; without one the names are read again."""
    enqueue(queue, "m-1")
    locked = change.number_lock

    @contextlib.contextmanager
    def late(folders: Folders) -> Iterator[None]:
        (folder / ".seq").write_bytes(b"7") if hint else (folder / ".seq").unlink()
        (folder / kranz_name("m-kranz", 2, 7)).write_bytes(b"{}")
        with locked(folders):
            yield

    monkeypatch.setattr(enqueueing, "number_lock", late)

    assert enqueue(queue, "m-2") == kranz_name("m-2", 2, 8)
