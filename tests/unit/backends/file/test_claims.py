"""Claims: one rename takes an entry, one ends it, and whoever lost sees nothing of it change."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from pathlib import Path

import pytest

from kranzq.backend import Candidate
from kranzq.backends.file import fates
from kranzq.backends.file.backend import FileQueue
from kranzq.disk import renameat2
from kranzq.liveness import kranz_token, suffix_k4
from kranzq.model.claim import Claimed
from kranzq.model.entry import parse
from kranzq.model.outcome import Fate, Park, Retire, Return, Rotate, Wait
from kranzq.model.state import State
from tests.factories import enqueue, kranz_entry, kranz_name, names

SUFFIX = "0123456789abcdef"
DUE = 4_000_000_000_000


@pytest.fixture
def candidate(queue: FileQueue) -> Candidate:
    """The entry m-1, read."""
    enqueue(queue, "m-1")
    found = queue.front()
    assert found is not None
    return found


@pytest.fixture
def claimed(queue: FileQueue, candidate: Candidate) -> Claimed:
    """The claim on it."""
    found = queue.claim(candidate, os.getpid(), SUFFIX)
    assert found is not None
    return found


def carry_out(queue: FileQueue, claimed: Claimed, fate: Fate) -> Fate:
    """Do it, under the lock."""
    with queue.change():
        return queue.carry_out(claimed.place, fate)


def test_a_claim_has_the_name_and_the_bytes_that_kranz_knows(
    queue: FileQueue, folder: Path, candidate: Candidate
) -> None:
    """The entry's name, the pid, 16 hex digits of SHA-256 over the process's token; the content is untouched."""
    content = (folder / candidate.place.name).read_bytes()
    token = kranz_token(os.getpid())
    assert token is not None
    claimed = queue.claim(candidate, os.getpid(), suffix_k4(token))

    assert claimed is not None
    digest = hashlib.sha256(token.encode()).hexdigest()[:16]
    assert claimed.place.name == f"{kranz_name('m-1')}.claimed.{os.getpid()}.{digest}"
    assert (folder / claimed.place.name).read_bytes() == content
    assert queue.claims() == [claimed]


def test_a_claims_age_is_its_own(queue: FileQueue, folder: Path, candidate: Candidate) -> None:
    """An entry that waited for hours is touched when it is claimed: the hour of the backstop begins then."""
    old = time.time() - 7200
    os.utime(folder / candidate.place.name, (old, old))
    claimed = queue.claim(candidate, os.getpid(), SUFFIX)

    assert claimed is not None
    assert time.time() - claimed.modified_at < 60


def test_an_entry_is_claimed_once(queue: FileQueue, candidate: Candidate) -> None:
    """The second one who wants the same file gets nothing, and the first one's claim stays."""
    first = queue.claim(candidate, os.getpid(), SUFFIX)

    assert queue.claim(candidate, 1, SUFFIX) is None
    assert queue.claims() == [first]


def test_a_file_that_is_not_the_one_that_was_read_is_put_back(
    queue: FileQueue, folder: Path, candidate: Candidate
) -> None:
    """If another file came under the name after it was read, it is not run unread: it stays an entry."""
    other = folder / ".new"
    other.write_bytes(kranz_entry("m-1") + b"\n")
    other.rename(folder / candidate.place.name)

    assert queue.claim(candidate, os.getpid(), SUFFIX) is None
    assert names(folder.parents[1]) == [candidate.place.name]


def test_b41_a_claim_whose_rename_reported_failure_is_held(
    queue: FileQueue, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a doubtful rename the names are looked at: a claim that happened is a claim."""

    def rename(from_fd: int, name: str, to_fd: int, new_name: str, _: int) -> None:
        os.rename(name, new_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(renameat2, "rename2", rename)
    claimed = queue.claim(candidate, os.getpid(), SUFFIX)

    assert claimed is not None
    monkeypatch.undo()
    assert queue.claims() == [claimed]


@pytest.mark.parametrize("flags", [True, False], ids=["flags", "no-flags"])
@pytest.mark.parametrize(
    ("fate", "place"),
    [
        (Retire(), None),
        (Return(), kranz_name("m-1")),
        (Wait(DUE), f"waiting/{DUE}.{kranz_name('m-1')}"),
        (Rotate(DUE, 7), f"waiting/{DUE}.{kranz_name('m-1', 2, 7)}"),
        (Park("why"), f"parked/{kranz_name('m-1')}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_fate_leads_to_one_place(
    queue: FileQueue, folder: Path, claimed: Claimed, monkeypatch: pytest.MonkeyPatch, fate: Fate, place: str | None,
    *, flags: bool,
) -> None:  # fmt: skip
    """Retire, return, wait, rotate and park: afterwards the entry is in exactly that place and in no other."""
    if not flags:

        def refuse(*_: object) -> None:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

        monkeypatch.setattr(renameat2, "rename2", refuse)

    assert carry_out(queue, claimed, fate) == fate
    found = [str(path.relative_to(folder)) for path in folder.rglob("*m-1*") if not path.name.endswith(".why.json")]
    assert found == ([place] if place is not None else [])
    if place is not None:
        assert parse((folder / place).read_bytes()).number == (7 if isinstance(fate, Rotate) else 0)


@pytest.mark.parametrize("fate", [Retire(), Return(), Wait(DUE), Rotate(DUE, 7), Park("why")])
def test_a_claim_that_is_gone_has_no_fate(queue: FileQueue, folder: Path, claimed: Claimed, fate: Fate) -> None:
    """Nothing is made anew of what another has moved, and whoever tries is told."""
    (folder / claimed.place.name).unlink()
    with pytest.raises(FileNotFoundError):
        carry_out(queue, claimed, fate)

    assert [path.name for path in folder.rglob("*m-1*")] == []


@pytest.mark.parametrize("fate", [Return(), Wait(DUE), Rotate(DUE, 7)])
def test_a_taken_place_is_never_replaced(queue: FileQueue, folder: Path, claimed: Claimed, fate: Fate) -> None:
    """If the name to go to is taken, the file there stays and ours is parked with the reason; none is lost."""
    name = kranz_name("m-1", 2, 7 if isinstance(fate, Rotate) else 0)
    there = folder / name if isinstance(fate, Return) else folder / f"waiting/{DUE}.{name}"
    there.parent.mkdir(exist_ok=True)
    there.write_bytes(b"a newer one")
    done = carry_out(queue, claimed, fate)

    assert isinstance(done, Park)
    assert there.read_bytes() == b"a newer one"
    parked = next(place for place in queue.places() if place.state is State.PARKED)
    assert "taken" in queue.why_parked(parked)


def test_a_claim_that_cannot_be_read_is_parked_instead_of_rotated(
    queue: FileQueue, folder: Path, claimed: Claimed
) -> None:
    """What can no longer be numbered anew waits for a person, with its bytes."""
    (folder / claimed.place.name).write_bytes(b"{")

    assert isinstance(carry_out(queue, claimed, Rotate(DUE, 7)), Park)
    assert (folder / "parked" / kranz_name("m-1")).read_bytes() == b"{"


def test_rotating_is_harmless_to_repeat(queue: FileQueue, folder: Path, claimed: Claimed) -> None:
    """A crash between new content and new name leaves one file, and the next one carries the same fate out."""
    with queue.change():
        fates.rename_with_new_number(queue.folders, claimed.place, 7)
    assert names(folder.parents[1]) == [claimed.place.name]

    assert carry_out(queue, claimed, Rotate(DUE, 7)) == Rotate(DUE, 7)
    assert names(folder.parents[1], "waiting") == [f"{DUE}.{kranz_name('m-1', 2, 7)}"]


def test_foreign_marks_are_named_and_never_taken_for_claims(queue: FileQueue, folder: Path, claimed: Claimed) -> None:
    """A foreign tool's mark, and a name made to look like a claim, are no claims; they are shown for a person."""
    strange = [f"{kranz_name('m-2')}.claimed.host7-4711", "x.claimed.1"]
    for name in strange:
        (folder / name).write_bytes(b"x")

    assert queue.claims() == [claimed]
    assert queue.strange_claims() == sorted(strange)


def test_still_there_asks_for_the_same_file(queue: FileQueue, folder: Path, claimed: Claimed) -> None:
    """A claim that was put back and taken anew by a copy is not the same claim."""
    assert queue.still_there(claimed)
    (folder / claimed.place.name).rename(folder / "kept")
    assert not queue.still_there(claimed)
    (folder / claimed.place.name).write_bytes(b"x")

    assert not queue.still_there(claimed)
