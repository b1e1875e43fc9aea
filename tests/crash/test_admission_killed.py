"""A process is killed at each step of an admission from the inbox, and another one finishes it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import kranz_entry
from tests.laboratory import Laboratory
from tests.scenes import kill_points

pytestmark = [pytest.mark.crash, pytest.mark.slow]
STEPS = {
    "after the number": "after:kranzq.backends.file.inbox:sequence.record:1",
    "after the first rename": "after:kranzq.backends.file.inbox:_read:1",
    "before it is read again": "before:kranzq.backends.file.inbox:_finish:1",
    "before its content": "before:kranzq.backends.file.inbox:atomic.exchange_content:1",
    "after its content": "after:kranzq.backends.file.inbox:atomic.exchange_content:1",
    "after its name": "after:kranzq.backends.file.inbox:_publish:1",
}


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A checkout in which unsigned entries may run, with a command for them."""
    with Laboratory(checkout) as one:
        one.run("init")
        one.run("trust", "--unsigned", "--yes")
        yield one


def drop(lab: Laboratory, name: str, mission: str) -> None:
    """Put a file into the inbox."""
    made = lab.queue / "inbox" / f".{name}"
    made.write_bytes(kranz_entry(mission, seq=77))
    made.rename(lab.queue / "inbox" / name)


def enqueue_killed(lab: Laboratory, point: str, mission: str) -> int:
    """Enqueue another mission, which admits what lies in the inbox, in a process that is killed; its exit code."""
    return lab.killed(point, "enqueue", mission, "--", "true")


def in_one_place(lab: Laboratory, mission: str) -> bool:
    """Whether exactly one file says the mission's name: in the inbox, on its way or in the queue."""
    mine = f'"{mission}"'.encode()
    places = [lab.queue, lab.queue / "inbox"]
    files = [path for place in places for path in place.iterdir() if path.is_file() and not path.name.endswith(".tmp")]
    return sum(mine in path.read_bytes() for path in files) == 1


@pytest.mark.parametrize("step", STEPS)
def test_an_admission_killed_at_any_step_is_finished_by_another(lab: Laboratory, step: str) -> None:
    """The file is in one place whenever one looks, and in the end there is one entry."""
    drop(lab, "x", "m1")
    killed = enqueue_killed(lab, STEPS[step], "other")
    alone = in_one_place(lab, "m1")
    lab.run("enqueue", "other", "--", "true")

    assert killed == -signal.SIGKILL, lab.log()
    assert alone
    assert sorted(name.partition("-")[2].partition("-")[2] for name in lab.entries()) == ["m1.json", "other.json"]
    assert lab.names("inbox") == []


def test_admissions_killed_before_every_change_of_the_disk_lose_and_double_nothing(lab: Laboratory) -> None:
    """Each dropped file is one entry with a number of its own, whatever was done when its admitter died."""
    for number in kill_points(1, 200):
        drop(lab, f"x{number}", f"m{number}")
        killed = enqueue_killed(lab, f"change:{number}", f"other{number}")
        assert in_one_place(lab, f"m{number}")
        lab.run("enqueue", f"last{number}", "--", "true")

        assert len([name for name in lab.entries() if name.endswith(f"-m{number}.json")]) == 1
        if killed == 0:
            break
    entries = lab.entries()

    assert number > 10
    assert len({name.split("-")[1] for name in entries}) == len(entries)
    assert lab.names("inbox") == []
