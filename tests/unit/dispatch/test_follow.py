"""Promises of waiting and following: the true end, every byte, bounded work, and an end when the keeper dies."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.dispatch.follow import Followed, MissionEnd, follow_run, wait_for_end
from kranzq.dispatch.output import Output
from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome, Park, Retire
from kranzq.runs.folder import OUTPUT, RunFolder
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.wiring import queues
from tests.factories import enqueue, gone_pid, make_queue, remove

MISSION = MissionId("m-1")
HOLE = 1 << 20


class Kept:
    """A sink that keeps what came."""

    def __init__(self) -> None:
        self.parts: list[bytes | int] = []
        self.largest = 0

    def data(self, piece: bytes) -> None:
        """Keep bytes; neighbours are joined."""
        self.largest = max(self.largest, len(piece))
        if self.parts and isinstance(self.parts[-1], bytes):
            self.parts[-1] += piece
        else:
            self.parts.append(piece)

    def gap(self, size: int) -> None:
        """Keep the number."""
        self.parts.append(size)

    def pause(self) -> None:
        """Nothing to do."""


class Followers:
    """A thread that follows or waits, whose answer is asked for with a deadline."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._thread = threading.Thread(target=lambda: setattr(self, "answer", act()), daemon=True)
        self.answer: object = None
        self._thread.start()

    def result(self) -> object:
        """What it came to, within the patience of a test."""
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.answer


def checkout_of(root: Path) -> Checkout:
    """The directory as a checkout."""
    return Checkout(str(root), has_git=False)


def new_run(root: Path, **fields: object) -> tuple[RunFolder, RunRecord]:
    """A run folder with output file and record; by default it runs and this process is its keeper."""
    with make_queue(root) as queue:
        folder = Runs(checkout_of(root), queue.kranz_fd).new(MISSION)
    values: dict[str, object] = {
        "kind": "mission",
        "mission": MISSION,
        "run": folder.run,
        "state": "running",
        "nonce": "0" * 32,
        "entry": EntryIdentity("0" * 32, "name", 1, None),
        "claim": "claim",
        "number": 0,
        "keeper": me(),
    }
    record = folder.write(RunRecord(**(values | fields)), sync=False)  # type: ignore[arg-type]
    os.close(folder.open_for_writing(OUTPUT))
    return folder, record


def end_run(folder: RunFolder, record: RunRecord, outcome: Outcome = Outcome.SUCCEEDED) -> None:
    """Record an end as a dispatcher does."""
    folder.write(replace(record, state="ended", outcome=outcome, fate=Retire(), reason="so it is"), sync=False)


def write(folder: RunFolder, data: bytes) -> None:
    """Let the run say something."""
    fd = folder.open_for_writing(OUTPUT)
    os.write(fd, data)
    os.close(fd)


def follow(root: Path, kept: Kept, tail: int | None = None) -> Followed:
    """Follow the first run."""
    with queues.open_runs(checkout_of(root)) as runs:
        assert runs is not None
        return follow_run(runs, MISSION, 1, kept, tail=tail)


def wait(
    root: Path,
    timeout_s: float | None = 20,
    after_run: int | None = None,
    sink: Kept | None = None,
    looked: threading.Event | None = None,
) -> MissionEnd:
    """Wait for the mission; `looked` is set after each look."""
    checkout = checkout_of(root)

    @contextlib.contextmanager
    def look() -> Iterator[object]:
        with queues.open_look(checkout) as queue:
            yield queue
        if looked is not None:
            looked.set()

    return wait_for_end(look, checkout, MISSION, timeout_s=timeout_s, after_run=after_run, sink=sink)  # type: ignore[arg-type]


def remove_entry(root: Path) -> None:
    """Take the mission's entry away, as carrying out *retire* or `cancel` does."""
    with make_queue(root) as queue:
        remove(queue, MISSION)


def until(condition: Callable[[], bool]) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_every_byte_arrives_as_it_is(tmp_path: Path) -> None:
    """Bytes that are no text, NULs and a line of ten megabytes go through unchanged, in bounded pieces."""
    data = b"\xff\xfe\x80\0" + b"y" * 10_000_000 + "\N{GRINNING FACE}".encode() + b"\n"
    folder, record = new_run(tmp_path)
    write(folder, data)
    end_run(folder, record)
    kept = Kept()

    assert follow(tmp_path, kept) == "ended"
    assert kept.parts == [data]
    assert kept.largest <= 64 * 1024


def test_what_was_left_out_is_told_as_a_number(tmp_path: Path) -> None:
    """The hole in a log over its cap is one gap with its size, not gigabytes of NULs."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.write(b"head\n" + b"h" * 4091)
        file.seek(5 << 30)
        file.write(b"tail\n")
    if path.stat().st_blocks * 512 > HOLE:
        pytest.skip("needs a file system with holes")
    kept = Kept()

    fd = os.open(path, os.O_RDONLY)
    Output(fd).pump(kept)
    os.close(fd)

    assert kept.parts == [b"head\n" + b"h" * 4091, (5 << 30) - 4096, b"tail\n"]


@pytest.mark.parametrize(
    ("data", "lines", "shown"),
    [
        (b"a\nb\nc\n", 2, b"b\nc\n"),
        (b"a\nb\nc", 2, b"b\nc"),
        (b"a\nb\nc\n", 9, b"a\nb\nc\n"),
        (b"a\nb\n", 0, b""),
        (b"a\nb", 0, b""),
        (b"", 3, b""),
        (b"x" * 200_000 + b"\nlast\n", 1, b"last\n"),
        (b"x" * 200_000 + b"\nlast\n", 2, b"x" * 200_000 + b"\nlast\n"),
        (b"\n\n\n", 2, b"\n\n"),
    ],
)
def test_a_tail_is_the_last_lines(tmp_path: Path, data: bytes, lines: int, shown: bytes) -> None:
    """As many lines as asked for, whether or not the last one is finished."""
    path = tmp_path / "log"
    path.write_bytes(data)
    kept = Kept()

    fd = os.open(path, os.O_RDONLY)
    output = Output(fd)
    output.seek_tail(lines)
    output.pump(kept)
    os.close(fd)

    assert b"".join(part for part in kept.parts if isinstance(part, bytes)) == shown


def test_following_ends_with_the_run(tmp_path: Path) -> None:
    """What is said until the end is shown, and then the follower leaves by itself."""
    folder, record = new_run(tmp_path)
    write(folder, b"before\n")
    kept = Kept()
    follower = Followers(lambda: follow(tmp_path, kept))
    until(lambda: kept.parts == [b"before\n"])
    write(folder, b"after\n")
    end_run(folder, record)

    assert follower.result() == "ended"
    assert kept.parts == [b"before\nafter\n"]


def test_following_ends_when_the_keeper_is_dead(tmp_path: Path) -> None:
    """Nobody waits for ever for the output of a run whose keeper was killed."""
    folder, _ = new_run(tmp_path, keeper=replace(me(), pid=gone_pid()))
    write(folder, b"said\n")
    kept = Kept()

    assert follow(tmp_path, kept) == "lost"
    assert kept.parts == [b"said\n"]


def test_a_wait_ends_with_the_mission(tmp_path: Path) -> None:
    """The wait comes back with the run that ended while it waited."""
    with make_queue(tmp_path) as queue:
        enqueue(queue, MISSION)
    looked = threading.Event()
    waiter = Followers(lambda: wait(tmp_path, looked=looked))
    assert looked.wait(20)  # a wait that begins after a run's end waits for the next one
    folder, record = new_run(tmp_path)
    end_run(folder, record)
    remove_entry(tmp_path)

    end = waiter.result()

    assert isinstance(end, MissionEnd)
    assert end.succeeded
    assert end.run is not None
    assert end.run.run == 1


def test_a_mission_that_is_enqueued_anew_is_waited_for(tmp_path: Path) -> None:
    """An earlier end does not answer for a mission that waits again."""
    folder, record = new_run(tmp_path)
    end_run(folder, record)
    with make_queue(tmp_path) as queue:
        enqueue(queue, MISSION)

    assert wait(tmp_path, 0.3).state == "timeout"


def test_an_entry_that_is_taken_away_ends_the_wait(tmp_path: Path) -> None:
    """A cancelled mission is no success, even if it had succeeded before."""
    folder, record = new_run(tmp_path)
    end_run(folder, record)
    with make_queue(tmp_path) as queue:
        enqueue(queue, MISSION)
    waiter = Followers(lambda: wait(tmp_path, after_run=1))
    remove_entry(tmp_path)

    end = waiter.result()

    assert isinstance(end, MissionEnd)
    assert end.state == "removed"
    assert not end.succeeded


def test_a_parked_mission_ends_the_wait(tmp_path: Path) -> None:
    """What needs a person is not waited for."""
    with make_queue(tmp_path) as queue:
        enqueue(queue, MISSION)
        with queue.change():
            queue.carry_out(queue.places()[0], Park("because"))

    assert wait(tmp_path) == MissionEnd("parked", reason="because")


@pytest.mark.parametrize("has_queue", [True, False])
def test_an_unknown_mission_is_told_at_once(tmp_path: Path, has_queue: bool) -> None:  # noqa: FBT001
    """A mistyped id is not waited for."""
    if has_queue:
        make_queue(tmp_path).close()

    assert wait(tmp_path, None).state == "unknown"


def test_whoever_enqueued_gets_the_output_however_fast_it_ended(tmp_path: Path) -> None:
    """`enqueue --follow` misses nothing, even if the run was over before the first look."""
    folder, record = new_run(tmp_path)
    write(folder, b"fast\n")
    end_run(folder, record)
    kept = Kept()

    end = wait(tmp_path, after_run=0, sink=kept)

    assert end.succeeded
    assert kept.parts == [b"fast\n"]
