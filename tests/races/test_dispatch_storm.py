"""Many dispatchers and enqueuers at one checkout, some of them killed again and again: nothing lost, nothing twice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.laboratory import IN_OTHER_NAMESPACE, PATIENCE, Laboratory, wait_for

pytestmark = [pytest.mark.race, pytest.mark.slow]
SECONDS = float(os.environ.get("KRANZQ_STORM_SECONDS", "7"))
ENQUEUERS = 10
MISSIONS = int(SECONDS * 0.6) + 1
"""How many each enqueuer queues: about as many as are worked off in the time."""
IN_FRONT = ("sh", "-c", '"$@" & wait', "sh")


def in_thread(call: Callable[[], None], faults: list[BaseException]) -> threading.Thread:
    """Run something beside the test; what goes wrong in it is kept."""

    def run() -> None:
        try:
            call()
        except BaseException as fault:  # noqa: BLE001 - whatever it is, the test must fail with it
            faults.append(fault)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.system("unshare")
@pytest.mark.timeout(4 * SECONDS + 120)
def test_a_storm_of_dispatchers_loses_no_mission_and_doubles_none(lab: Laboratory) -> None:
    """A daemon killed every second or two, a second one, one in another namespace, three drains, ten enqueuers."""
    over = time.monotonic() + SECONDS
    faults: list[BaseException] = []
    dice = random.Random(1)
    ended: list[int] = []
    queued: list[str] = []

    def enqueue(who: int) -> None:
        for number in range(MISSIONS):
            at = over - SECONDS + SECONDS * number / MISSIONS
            wait_for(lambda until=at: time.monotonic() >= until, "its time", seconds=SECONDS)  # type: ignore[misc]
            mission = f"m{who}-{number}"
            lab.enqueue(mission, *lab.alone(mission, dice.uniform(0.01, 0.1)), priority=dice.randrange(4))
            queued.append(mission)

    def lives(daemon: subprocess.Popen[bytes], until: float) -> bool:
        """Whether it goes on: none is killed before one of them was refused beside another, however slow they are."""
        return daemon.poll() is None and (4 not in ended or time.monotonic() < until)

    def serve(log: str, least: float, most: float) -> None:
        while time.monotonic() < over:
            daemon = lab.start(lab.command("daemon"), log=log)
            until = time.monotonic() + dice.uniform(least, most)
            wait_for(lambda one=daemon, at=until: not lives(one, at), "its kill", seconds=SECONDS + 60)  # type: ignore[misc]
            if daemon.poll() is not None:
                ended.append(daemon.returncode)
            lab.kill(daemon)

    def drain(before: tuple[str, ...] = ()) -> None:
        while time.monotonic() < over:
            process = lab.start([*before, *lab.command("drain")], log="drains")
            wait_for(lambda one=process: one.poll() is not None, "it has drained", seconds=SECONDS + 60)  # type: ignore[misc]

    threads = [in_thread(lambda who=who: enqueue(who), faults) for who in range(ENQUEUERS)]  # type: ignore[misc]
    threads += [in_thread(lambda: serve("daemon", 1, 2), faults), in_thread(lambda: serve("second", 1.5, 1.5), faults)]
    threads += [in_thread(drain, faults) for _ in range(3)]
    threads.append(in_thread(lambda: drain((*IN_OTHER_NAMESPACE, *IN_FRONT)), faults))
    for thread in threads:
        thread.join(3 * SECONDS + 60)
    assert not faults, faults
    for _ in range(2):
        lab.run("drain", code=None, seconds=SECONDS + 90)

    expected = Counter({f"{what} {mission}": 1 for what in ("start", "end") for mission in queued})
    assert Counter(lab.told()) == expected
    assert len(queued) == ENQUEUERS * MISSIONS
    assert set(ended) <= {0, 4}
    assert 4 in ended
    assert all(lab.outcomes(mission)[-1] == "succeeded" for mission in queued)
    assert not [
        line for name in ("daemon", "second", "drains") for line in lab.log(name).splitlines() if "fault" in line
    ]
    lab.assert_nothing_left()


@pytest.mark.timeout(4 * SECONDS + 120)
def test_a_storm_that_kills_keepers_too_never_lets_two_missions_meet(lab: Laboratory) -> None:
    """Keepers and daemons are killed at random: each mission succeeds once, or is parked after three interruptions."""
    over = time.monotonic() + SECONDS
    dice = random.Random(2)
    missions: list[str] = []

    def enqueue() -> None:
        missions.append(mission := f"m{len(missions)}")
        lab.enqueue(mission, *lab.alone(mission, dice.uniform(0.02, 0.2)))

    def is_open() -> bool:
        return any(".json" in name for name in lab.names())

    for _ in range(int(SECONDS * 3)):
        enqueue()
    daemons: list[subprocess.Popen[bytes]] = []
    killed = 0
    while (time.monotonic() < over and is_open()) or killed <= SECONDS / 2:
        if not is_open():  # a slow machine kills more slowly than it works
            enqueue()
        if not daemons or daemons[-1].poll() is not None:
            daemons.append(lab.start(lab.command("daemon"), log="daemon"))
        at = time.monotonic() + dice.uniform(0.0, 0.4)
        wait_for(lambda until=at: time.monotonic() >= until, "the next kill")  # type: ignore[misc]
        holder = (lab.read(lab.queue / ".busy.json") or {}).get("process", {}).get("pid")
        victims = [pid for pid, line in lab.processes().items() if pid == holder and "keeper.py" in line]
        if dice.random() < 0.25:
            victims.append(daemons[-1].pid)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):  # it may have ended by itself in this instant
                os.kill(pid, signal.SIGKILL)
                killed += 1
    daemons[-1].kill()
    for _ in range(2):
        lab.run("drain", code=None, seconds=SECONDS + 90)
    parked = {name.partition(".json")[0].split("-", 2)[2] for name in lab.names("parked")}
    succeeded = {mission for mission in missions if "succeeded" in lab.outcomes(mission)}

    assert killed > SECONDS / 2
    assert succeeded | parked == set(missions)
    assert not succeeded & parked
    assert all(lab.outcomes(mission).count("succeeded") == 1 for mission in succeeded)
    for mission in parked:
        outcomes = Counter(lab.outcomes(mission))  # a keeper that is killed before its mission begins interrupts none
        assert outcomes["interrupted"] == 3, outcomes
        assert set(outcomes) <= {"interrupted", "never began", "not started"}, outcomes
    assert not [line for line in lab.told() if "overlap" in line]
    assert lab.is_free()
    wait_for(lambda: not lab.processes(), "all processes are gone")


def test_two_drains_of_one_checkout_share_the_work_and_one_waits(lab: Laboratory) -> None:
    """Started in the same instant, both end with 0, and each mission ran once."""
    missions = [f"m{number}" for number in range(10)]
    for mission in missions:
        lab.enqueue(mission, *lab.alone(mission, 0.01))
    drains: list[subprocess.Popen[bytes]] = [lab.start(lab.command("drain")) for _ in range(2)]

    assert [one.wait(30) for one in drains] == [0, 0]
    assert Counter(lab.told()) == Counter(f"{what} {mission}" for what in ("start", "end") for mission in missions)
    lab.assert_nothing_left()


def test_recover_in_a_loop_beside_a_working_drain_disturbs_nothing(lab: Laboratory) -> None:
    """Whoever looks for crashes while all is well finds nothing to mend, at any instant of a turn."""
    missions = [f"m{number}" for number in range(25)]
    for mission in missions:
        lab.enqueue(mission, *lab.alone(mission, 0.0))
    drain = lab.start(lab.command("drain"), log="drain")
    looks = 0
    program = (
        "import sys, os; from kranzq.wiring import checkouts, dispatching\n"
        "c = checkouts.find_checkout(sys.argv[1], os.environ)\n"
        "while os.path.exists(sys.argv[2]):\n"
        "    for one in dispatching.recover(c, os.environ).findings:\n"
        "        print(one.mission, one.verdict.value, one.evidence, one.action, flush=True)\n"
    )
    flag = lab.notes / "look"
    flag.touch()
    lookers = [
        lab.start([sys.executable, "-c", program, str(lab.root), str(flag)], log=f"look{number}") for number in range(2)
    ]
    code = drain.wait(80)
    flag.unlink()
    for one in lookers:
        looks += one.wait(PATIENCE) == 0

    assert (code, looks) == (0, 2), [lab.log(name) for name in ("drain", "look0", "look1")]
    assert Counter(lab.told()) == Counter(f"{what} {mission}" for what in ("start", "end") for mission in missions)
    assert all(lab.outcomes(mission) == ["succeeded"] for mission in missions)
    lab.assert_nothing_left()
