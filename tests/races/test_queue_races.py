"""Many real processes on one queue: nothing is lost, nothing is given twice, never two in one checkout."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kranzq import queue as q
from kranzq.liveness import kranz_token
from kranzq.wiring import trusting
from tests.factories import PATIENT, kranz_entry, kranz_name, names, run_python

Together = Callable[..., list[subprocess.Popen[str]]]
pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(120)]

PRELUDE = (
    PATIENT
    + """
import contextlib, os, sys, time
from kranzq import queue as q
from kranzq.errors import KranzqError
root, number = sys.argv[1], int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
"""
)
ENQUEUE = (
    PRELUDE
    + """
for count in range(int(sys.argv[3])):
    print(q.enqueue(root, f"m-{number}-{count}").entry.number, f"m-{number}-{count}", flush=True)
"""
)
ENQUEUE_UNTIL = (
    PRELUDE
    + """
count = 0
while not os.path.exists(sys.argv[3]):
    print(q.enqueue(root, f"m-{number}-{count}").entry.number, flush=True)
    count += 1
"""
)
ENQUEUE_ONE = PRELUDE + "print(q.enqueue(root, 'm-1').created, flush=True)\n"
CLAIM = (
    PRELUDE
    + """
while (claim := q.claim_front(root)) is not None:
    print(claim.mission, flush=True)
    q.finish_claim(claim)
"""
)
CLAIM_AND_DIE = (
    PRELUDE
    + """
while (claim := q.claim_front(root)) is not None:
    print(claim.mission, flush=True)
    os.kill(os.getpid(), 9)
"""
)
RECOVER = (
    PRELUDE
    + """
moved = 0
deadline = time.monotonic() + 100
while not os.path.exists(sys.argv[3]) and time.monotonic() < deadline:
    moved += q.recover_dead_claims(root)
print(moved, flush=True)
"""
)
# whoever is inside makes a file that must not be there
INSIDE = """
def inside():
    os.close(os.open(root + "/inside", os.O_CREAT | os.O_EXCL))
    os.unlink(root + "/inside")
"""
CYCLE = (
    PRELUDE
    + INSIDE
    + """
from kranzq.busy.lock import BusyLock
from kranzq.model.checkout import Checkout
checkout = Checkout(root, has_git=os.path.exists(root + "/.git"))
lock, done = BusyLock(checkout), 0
while done < int(sys.argv[3]):
    queue = os.open(checkout.queue, os.O_RDONLY)
    if (hold := lock.try_hold(queue)) is not None:
        inside()
        done += 1
        hold.unlock() if done % 2 else hold.close()
    os.close(queue)
print(done, flush=True)
"""
)
ACQUIRE = (
    PRELUDE
    + INSIDE
    + """
done = 0
while done < int(sys.argv[3]):
    with contextlib.suppress(q.RepoBusy), q.acquire_repo_busy(root, f"m-{number}"):
        inside()
        done += 1
print(done, flush=True)
"""
)
DISPATCH = (
    PRELUDE
    + INSIDE
    + """
empty = 0
while empty < 3:
    match q.claim_front_when_repo_free(root):
        case q.Claimed(claim):
            inside()
            print(claim.mission, flush=True)
            q.finish_claim(claim)
        case q.Empty():
            empty += 1
        case _:
            os.sched_yield()
"""
)


@pytest.fixture
def together() -> Iterator[Together]:
    """Start that many processes, which begin in the same instant; none outlives the test."""
    everybody: list[subprocess.Popen[str]] = []

    def begin(code: str, count: int, *arguments: str) -> list[subprocess.Popen[str]]:
        started = [run_python(code, arguments[0], str(number), *arguments[1:]) for number in range(count)]
        everybody.extend(started)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        return started

    yield begin
    for process in everybody:
        process.kill()
        process.communicate()


def said(processes: list[subprocess.Popen[str]], *, killed: bool = False) -> list[list[str]]:
    """What each said until its end; each must have ended well, unless some were killed."""
    lines = []
    for process in processes:
        out, _ = process.communicate(timeout=100)
        assert killed or process.returncode == 0, out
        lines.append(out.splitlines())
    return lines


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until it holds; fail after 30 s."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        os.sched_yield()


def test_b46_simultaneous_writers_never_share_a_number(together: Together, checkout: Path) -> None:
    """Eight processes with fifty approvals each: 400 entries, each id once, each number once."""
    lines = [line.split() for one in said(together(ENQUEUE, 8, str(checkout), "50")) for line in one]
    numbers, missions = [int(number) for number, _ in lines], {mission for _, mission in lines}
    entries = q.entries(checkout)

    assert sorted(numbers) == list(range(400))
    assert {str(entry.mission) for entry in entries} == missions
    assert [entry.number for entry in entries] == list(range(400))


def test_b46_killed_writers_lose_nothing_that_was_reported(together: Together, checkout: Path) -> None:
    """Killed at any instant: what was reported is there, no number is given twice, and others go on at once."""
    chance = random.Random(46)
    writers = together(ENQUEUE, 6, str(checkout), "400")
    for victim in writers[:4]:
        until(lambda: len(names(checkout)) > chance.randrange(10, 60), "nothing is queued")
        victim.kill()
    lines = [line.split() for one in said(writers, killed=True) for line in one if len(line.split()) == 2]
    reported = {mission: int(number) for number, mission in lines}
    there = {str(entry.mission): entry.number for entry in q.entries(checkout)}

    assert reported.items() <= there.items()
    assert max(Counter(there.values()).values()) == 1
    assert len(there) >= 800
    assert q.enqueue(checkout, "m-after").created  # who finds it locked for five seconds is refused


def test_b48_one_of_twenty_processes_makes_the_entry(together: Together, checkout: Path) -> None:
    """Twenty approvals of one mission in the same instant are one entry, and one of them says that it made it."""
    lines = said(together(ENQUEUE_ONE, 20, str(checkout)))

    assert Counter(line for one in lines for line in one) == {"True": 1, "False": 19}
    assert len(q.entries(checkout)) == 1


def test_no_mission_is_given_to_two_processes(together: Together, checkout: Path) -> None:
    """Six processes that claim and finish at full speed: each mission once, none left."""
    for count in range(60):
        q.enqueue(checkout, f"m-{count}")
    got = Counter(line for one in said(together(CLAIM, 6, str(checkout))) for line in one)

    assert got == {f"m-{count}": 1 for count in range(60)}
    assert names(checkout) == []


def test_dying_holders_lose_nothing_while_others_recover(together: Together, checkout: Path, tmp_path: Path) -> None:
    """Holders are killed with their claims while three recover all the time: each claim is moved exactly once."""
    for count in range(12):
        q.enqueue(checkout, f"m-{count}")
    stop = tmp_path / "stop"
    recovering = together(RECOVER, 3, str(checkout), str(stop))
    claimed = sum(len(one) for one in said(together(CLAIM_AND_DIE, 8, str(checkout)), killed=True))
    until(lambda: not any(".claimed." in name for name in names(checkout)), "a claim is left")
    stop.touch()
    moved = sum(int(one[0]) for one in said(recovering))

    assert claimed == moved == 8
    assert {
        str(entry.mission) for state in (q.State.QUEUED, q.State.PARKED) for entry in q.entries(checkout, state)
    } == {f"m-{count}" for count in range(12)}


@pytest.mark.parametrize("git", [True, False], ids=["git", "no-git"])
def test_b12_the_busy_lock_never_overlaps(together: Together, checkout: Path, tmp_path: Path, *, git: bool) -> None:
    """Three processes that take and free the lock all the time are never inside together.

    With git this holds although the lock file below the queue is removed all the time.
    """
    root = checkout if git else tmp_path / "plain"
    (root / ".kranz/queue").mkdir(parents=True)
    cycling = together(CYCLE, 3, str(root), "500")
    while git and any(process.poll() is None for process in cycling):
        (root / ".kranz/queue/.busy.flock").unlink(missing_ok=True)
        os.sched_yield()

    assert said(cycling) == [["500"]] * 3


def test_b12_the_checkout_is_held_by_one_beside_a_kranz(together: Together, checkout: Path) -> None:
    """Both locks, ours and kranz's with a dead one of its own in the way, cycled by three processes."""
    q.enqueue(checkout, "m-0")
    (checkout / ".kranz/queue/.repo.busy.lock").write_text("1\n0\nanother:1\n0\n")

    assert said(together(ACQUIRE, 3, str(checkout), "15")) == [["15"]] * 3
    assert not (checkout / ".kranz/queue/.repo.busy.lock").exists()


def test_b52_a_busy_checkout_costs_nothing(together: Together, checkout: Path) -> None:
    """Six dispatchers on one checkout: one mission at a time, each once; waiting interrupts and parks none."""
    for count in range(18):
        q.enqueue(checkout, f"m-{count}")
    got = [line for one in said(together(DISPATCH, 6, str(checkout))) for line in one]

    assert sorted(got) == sorted(f"m-{count}" for count in range(18))
    assert q.entries(checkout, q.State.PARKED) == []
    runs = [json.loads(path.read_text())["outcome"] for path in (checkout / ".kranz/missions").rglob("run.json")]
    assert set(runs) == {"succeeded"}


def test_a_kranz_that_claims_beside_us_gets_each_entry_instead_of_us(together: Together, checkout: Path) -> None:
    """A stand-in that renames as kranz does, without our lock, and three of ours: each entry has one taker."""
    trusting.approvals(os.environ).allow_unsigned(str(checkout))
    q.enqueue(checkout, "m-first")
    queue, token = checkout / ".kranz/queue", kranz_token(os.getpid())
    assert token is not None
    for seq in range(1, 41):
        (queue / kranz_name(f"m-{seq}", 2, seq)).write_bytes(kranz_entry(f"m-{seq}", 2, seq))
    ours = together(CLAIM, 3, str(checkout))
    theirs = []
    while entries := [name for name in names(checkout) if name.endswith(".json")]:
        with contextlib.suppress(FileNotFoundError):
            claim = queue / f"{entries[0]}.claimed.{os.getpid()}"
            (queue / entries[0]).rename(claim)
            theirs.append(json.loads(claim.read_text())["missionId"])
            claim.unlink()
    got = Counter([*theirs, *(line for one in said(ours) for line in one)])

    assert got == dict.fromkeys(["m-first", *(f"m-{seq}" for seq in range(1, 41))], 1)


def test_a_kranz_that_queues_beside_us_gives_out_other_numbers(
    together: Together, checkout: Path, tmp_path: Path
) -> None:
    """A stand-in that takes kranz's lock alone, reads the hint, writes it and queues, and two of ours."""
    q.enqueue(checkout, "m-first")
    queue, lock, stop = checkout / ".kranz/queue", checkout / ".kranz/queue/.mutate.lock", tmp_path / "stop"
    ours, looks = together(ENQUEUE_UNTIL, 2, str(checkout), str(stop)), itertools.count(1)
    theirs = seen = 0
    while theirs < 15:
        assert all(process.poll() is None for process in ours)
        now = sum("-m-" in name for name in names(checkout))
        if now == seen:
            continue  # one number for one of theirs
        with contextlib.suppress(FileExistsError):
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            lock.write_text(f"{os.getpid()}.{theirs}")
            theirs, seen = theirs + 1, now
            number = int((queue / ".seq").read_text()) + 1
            until(lambda: next(looks) % 50 == 0, "others had time to give out the same")
            (queue / kranz_name(f"k-{theirs}", 2, number)).write_bytes(kranz_entry(f"k-{theirs}", 2, number))
            (queue / ".seq").write_text(str(number))
            lock.unlink()
    stop.touch()
    numbers = [line for one in said(ours) for line in one]
    given = [name.split("-")[1] for name in names(checkout) if name[0].isdigit()]

    assert [number for number, often in Counter(given).items() if often > 1] == []
    assert len(given) == 1 + len(numbers) + theirs


def test_b01_a_kill_of_all_holders_leaves_everything_to_the_next(together: Together, checkout: Path) -> None:
    """Dispatchers killed at random with claims and lock: the next one runs every mission once, and none is missing."""
    for count in range(20):
        q.enqueue(checkout, f"m-{count}")
    chance, finished = random.Random(1), list[str]()
    for _ in range(4):
        dispatching = together(DISPATCH, 2, str(checkout))
        left = len(names(checkout))
        until(lambda: len(names(checkout)) <= max(0, left - chance.randrange(1, 4)), "nothing is done")  # noqa: B023
        for process in dispatching:
            process.send_signal(signal.SIGKILL)
        finished += [line for one in said(dispatching, killed=True) for line in one]
        (checkout / "inside").unlink(missing_ok=True)  # of one that was killed there
    finished += [line for one in said(together(DISPATCH, 1, str(checkout))) for line in one]

    assert set(finished) == {f"m-{count}" for count in range(20)}
    assert [name for name in names(checkout) if name[0].isdigit()] == []
    assert q.is_repo_busy(checkout) is None
