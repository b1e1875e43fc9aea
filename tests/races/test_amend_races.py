"""Several people change their minds at random about the same missions, beside a daemon that runs them."""

from __future__ import annotations

import os
import sys

import pytest

from kranzq.model.ids import MissionId
from kranzq.wiring import queues
from tests.laboratory import Laboratory, wait_for

pytestmark = [pytest.mark.race, pytest.mark.slow]
MISSIONS = [f"m{number}" for number in range(6)]
PEOPLE = 3
SECONDS = os.environ.get("KRANZQ_STORM_SECONDS", "4")
SOMEBODY = """
import contextlib, io, random, sys, time
from kranzq.cli.main import run
root, seed, seconds, *missions = sys.argv[1:]
random.seed(int(seed))
until = time.monotonic() + float(seconds)
while time.monotonic() < until:
    mission = random.choice(missions)
    words = random.choice([
        ["park", mission, "not now"], ["unpark", mission], ["retry", mission], ["why", mission], ["list"],
        ["edit", mission, "--priority", str(random.randrange(6))], ["edit", mission, "--timeout", "100s"],
        ["edit", mission, "--not-before", random.choice(["now", "+1s"])],
    ])
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = run(["-C", root, *words])
    if code not in {0, 3, 4}:
        print(words, code, said.getvalue(), flush=True)
"""


def places(lab: Laboratory, mission: str) -> int:
    """In how many places a mission is."""
    with queues.make_queue(lab.checkout) as queue, queue.change():
        return len(queue.places(MissionId(mission)))


def all_ended(lab: Laboratory) -> bool:
    """Whether nothing is left, after whatever is parked or waits was let go."""
    if not lab.entries():
        return True
    for mission in MISSIONS:
        lab.run("unpark", mission, code=None)
        lab.run("edit", mission, "--not-before", "now", code=None)
    return False


def test_minds_changed_at_random_lose_and_double_nothing(lab: Laboratory) -> None:
    """Each mission stays in one place at most, each run is recorded, nothing is damaged, and in the end all end."""
    for number, mission in enumerate(MISSIONS):
        lab.run("enqueue", mission, "--retries", "1", "--", *lab.alone(mission, code=number % 2))
    daemon = lab.daemon()
    people = [
        lab.start([sys.executable, "-c", SOMEBODY, str(lab.root), str(seed), SECONDS, *MISSIONS], log=f"person-{seed}")
        for seed in range(PEOPLE)
    ]
    most = 0
    while any(person.poll() is None for person in people):
        most = max(most, *(places(lab, mission) for mission in MISSIONS))
    wait_for(lambda: all_ended(lab), "all have ended", seconds=60)
    lab.run("stop")
    daemon.wait(30)

    assert most == 1
    assert [lab.log(f"person-{seed}") for seed in range(PEOPLE)] == [""] * PEOPLE
    for number, mission in enumerate(MISSIONS):
        outcomes = lab.outcomes(mission)
        assert set(outcomes) == {"failed" if number % 2 else "succeeded"}
        assert lab.count("start", mission) == lab.count("end", mission) == len(outcomes)
    assert lab.names("quarantine") == []
    lab.assert_nothing_left()
