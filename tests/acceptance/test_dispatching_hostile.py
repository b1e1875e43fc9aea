"""Missions that harm their keeper, their records or their checkout, and what a dispatcher starts under."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kranzq.liveness import kranz_token
from tests.laboratory import PATIENCE, REPO, Laboratory, is_alive, wait_for
from tests.scenes import abandoned, begun, configure, ended_alone, passes, through

pytestmark = pytest.mark.slow
ESCAPES = """
import os, signal, subprocess, sys, time
notes = sys.argv[1]
again = os.path.exists(notes + "/told")
with open(notes + "/told", "a") as told: told.write("start m1\\n")
if again: sys.exit(0)
if os.fork() == 0:
    os.setsid()
    if os.fork(): os._exit(0)
    os.closerange(0, 1000)
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c",
        "import signal, sys, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)", notes], {})
time.sleep(600)
"""
KILLED_BETWEEN = '            self.end["survivors"] = self.see'


def test_what_escaped_from_everything_is_still_the_dispatchers(lab: Laboratory) -> None:
    """A process without mark, lock and parents comes to the living dispatcher when the keeper is killed, and ends."""
    configure("[mission]\ngrace_seconds = 0.5\n")
    lab.enqueue("m1", sys.executable, "-I", "-S", "-c", ESCAPES, str(lab.notes))
    drain = lab.start(lab.command("drain"))
    begun(lab)
    inner = "-c import signal"  # the mission's own command line has the rest of it, too
    escaped = wait_for(lambda: [pid for pid, line in lab.processes().items() if inner in line], "it escapes")
    os.kill(lab.keeper("m1"), signal.SIGKILL)

    assert drain.wait(PATIENCE) == 0
    assert not is_alive(escaped[0])
    assert lab.outcomes("m1") == ["interrupted", "succeeded"]
    lab.assert_nothing_left()


@pytest.mark.parametrize("number", ["KILL", "TERM"])
def test_a_mission_that_ends_its_keeper_is_parked_after_three_times(lab: Laboratory, number: str) -> None:
    """It would do it a fourth time; others run meanwhile, and nothing of it lives on."""
    configure("[mission]\ngrace_seconds = 0.5\n")
    lab.enqueue("m1", "/bin/sh", "-c", f"echo start m1 >> {lab.notes}/told; kill -{number} $PPID; exec sleep 600")
    lab.enqueue("m2")
    lab.run("drain", code=1)

    assert lab.told() == ["start m1"] * 3 + ["start m2", "end m2"]
    assert lab.outcomes("m1") == ["interrupted"] * 3
    assert next(name for name in lab.names("parked") if not name.endswith(".why.json")).endswith("-m1.json")
    assert lab.processes() == {}


@pytest.mark.parametrize("both", [False, True], ids=["keeper", "both"])
def test_survivors_of_a_recorded_end_are_ended_and_the_mission_stays_ended(lab: Laboratory, *, both: bool) -> None:
    """The keeper is killed after the end and before it saw to the survivors: whoever comes next does that."""
    flag = lab.notes / "flag"
    flag.touch()
    also = "os.kill(os.getppid(), 9)" if both else "None"
    die = f"os.path.exists({str(flag)!r}) and (os.unlink({str(flag)!r}), {also}, os.kill(os.getpid(), 9))"
    program = lab.notes / "keeper.py"
    text = (REPO / "kranzq" / "keeper.py").read_text()
    assert text.count(KILLED_BETWEEN) == 1
    program.write_text(text.replace(KILLED_BETWEEN, f"            {die}\n{KILLED_BETWEEN}"))
    script = f"env -i setsid sleep 601 & setsid sleep 602 & echo start m1 >> {lab.notes}/told; exit 0"
    lab.enqueue("m1", "/bin/sh", "-c", script)
    lab.killed("never", "drain", env={"LAB_KEEPER": str(program)})
    lab.run("drain")

    assert not flag.exists()
    assert lab.told() == ["start m1"]
    assert lab.outcomes("m1") == ["succeeded"]
    lab.assert_nothing_left()


@pytest.mark.parametrize("killed", [False, True], ids=["watched", "dispatcher killed"])
def test_what_is_left_on_purpose_lives_on_and_blocks_nobody(lab: Laboratory, *, killed: bool) -> None:
    """With `report` a survivor is named and spared, also by later dispatchers, and the next mission runs beside it."""
    configure('[mission]\non_survivors = "report"\n')
    script = f"setsid sleep 603 & until [ -e {lab.notes}/release ]; do sleep 0.02; done"
    lab.enqueue("m1", "/bin/sh", "-c", script)
    drain = lab.start(lab.command("drain"))
    wait_for(lambda: [line for line in lab.processes().values() if line == "sleep 603 "], "the survivor is there")
    keeper = lab.keeper("m1")
    if killed:
        lab.kill(drain)
    ended_alone(lab, keeper)
    wait_for(lab.is_free, "it left the lock free")
    lab.enqueue("m2")
    lab.run("drain")
    daemon = lab.daemon()
    lab.enqueue("m3")
    through(lab, "m3")
    lab.kill(daemon)

    assert lab.outcomes("m1") == ["succeeded"]
    assert [line for line in lab.processes().values() if line == "sleep 603 "]


@pytest.mark.parametrize("has_git", [True, False], ids=["git", "no git"])
def test_a_mission_that_removes_the_lock_file_stays_alone(lab: Laboratory, *, has_git: bool) -> None:
    """The second half of the lock is gone: the first half, or else the keeper that lives, keeps everybody out."""
    if not has_git:
        shutil.rmtree(lab.root / ".git")
        lab.checkout = type(lab.checkout)(lab.checkout.root, has_git=False)
    lab.enqueue("m1", "/bin/sh", "-c", f"rm {lab.queue}/.busy.flock; exec {' '.join(lab.alone('m1', 60))}")
    lab.enqueue("m2")
    drain = lab.start(lab.command("drain"))
    begun(lab)
    once = lab.run("drain", "--once", code=None)
    lab.release()

    assert drain.wait(PATIENCE) == 0
    assert once.returncode == 4, once.stderr
    assert lab.told() == ["start m1", "end m1", "start m2", "end m2"]


def test_a_mission_that_forges_its_records_changes_no_more_than_its_own_end(lab: Laboratory) -> None:
    """Broken or false records in its run folder: the run has the end that its keeper saw, and others run."""
    script = 'cd "$KRANZ_RUN_DIR"; echo "{}" > exit.json; echo broken > run.json; mkfifo not-before; exit 4'
    lab.enqueue("m1", "/bin/sh", "-c", script)
    lab.enqueue("m2", "/bin/sh", "-c", 'rm -rf "$KRANZ_RUN_DIR"; exit 4')
    lab.enqueue("m3")
    lab.run("drain", code=1)

    assert lab.outcomes("m1") == lab.outcomes("m2") == ["failed"]
    assert lab.told() == ["start m3", "end m3"]
    lab.assert_nothing_left()


def test_a_removed_run_folder_does_not_let_an_ended_mission_run_again(lab: Laboratory) -> None:
    """The mission removes its run folder and its dispatcher is killed: its end is kept and settled all the same."""
    script = f"echo start m1 >> {lab.notes}/told; until [ -e {lab.notes}/release ]; do sleep 0.02; done"
    lab.enqueue("m1", "/bin/sh", "-c", f'{script}; rm -rf "$KRANZ_RUN_DIR"; exit 4')
    ended_alone(lab, abandoned(lab))
    lab.run("drain")

    assert lab.told() == ["start m1"]
    assert lab.outcomes("m1") == ["failed"]
    lab.assert_nothing_left()


@pytest.mark.parametrize("how", ["stop --now", "twice", "once", "leave"])
def test_stopping_treats_an_adopted_mission_as_one_of_its_own(lab: Laboratory, how: str) -> None:
    """A daemon that found a mission running ends it, waits for it or leaves it, as it would its own."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    keeper = abandoned(lab, verb="daemon")
    second = lab.daemon(*(["--on-stop", "leave"] if how == "leave" else []))
    wait_for(lambda: "m1 runs already" in lab.log(), "it is adopted")
    if how == "stop --now":
        lab.run("stop", "--now")
    else:
        second.send_signal(signal.SIGTERM)
    if how in {"once", "twice"}:
        wait_for(lambda: "once more" in lab.log(), "it has heard it, and waits")
        passes(0.7)  # two within half a second would be one wish
        assert second.poll() is None
    if how == "once":
        lab.release()
    if how == "twice":
        second.send_signal(signal.SIGTERM)

    assert second.wait(PATIENCE) == 0
    assert is_alive(keeper) == (how == "leave")
    outcomes = {"stop --now": ["interrupted"], "twice": ["interrupted"], "once": ["succeeded"], "leave": []}
    assert lab.outcomes("m1") == outcomes[how]


@pytest.mark.system("unshare")
def test_as_process_one_of_a_container_a_stop_puts_the_mission_back(lab: Laboratory) -> None:
    """Its end would kill the mission anyhow, so it ends it in order, uncounted, and it buries what it is given."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    container = lab.daemon(before=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"))
    begun(lab)
    lab.keeper("m1")
    inner = Path(f"/proc/{container.pid}/task/{container.pid}/children").read_text().split()
    os.kill(int(inner[0]), signal.SIGTERM)

    assert container.wait(PATIENCE) == 0
    assert lab.outcomes("m1") == ["interrupted"]
    assert lab.records("m1")[-1].counted is False
    assert [name for name in lab.names() if name.endswith("-m1.json")]


def test_b23_a_service_manager_hears_when_it_is_ready_and_alive_and_missions_outlive_a_restart(
    lab: Laboratory, tmp_path: Path
) -> None:
    """READY when it watches, pings also while a mission runs, and TERM leaves the mission to the next daemon."""
    address, said = str(tmp_path / "notify"), list[str]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)

        def hear() -> None:
            """All the time: the system keeps ten messages, and then whoever sends one waits."""
            while heard := manager.recv(1000):
                said.append(heard.decode())

        hears = threading.Thread(target=hear)
        hears.start()
        try:
            lab.enqueue("m1", *lab.alone("m1", 60))
            daemon = lab.daemon(env={"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "200000"})
            begun(lab)
            keeper = lab.keeper("m1")
            so_far = len(said)
            wait_for(lambda: len(said) >= so_far + 11, "it pings while the mission runs")
            daemon.send_signal(signal.SIGTERM)
            code = daemon.wait(PATIENCE)
            wait_for(lambda: "STOPPING=1" in said, "it says that it stops")
        finally:
            manager.shutdown(socket.SHUT_RDWR)
            hears.join(PATIENCE)

    assert said[0].startswith("READY=1")
    assert said.count("WATCHDOG=1") >= 10
    assert code == 0
    assert is_alive(keeper)
    lab.release()
    lab.run("drain")
    assert lab.told() == ["start m1", "end m1"]


def test_a_reader_that_went_away_does_not_stop_a_daemon(lab: Laboratory) -> None:
    """The program that read the daemon's output is gone: missions run, and stopping is no fault."""
    process = subprocess.Popen(lab.command("daemon"), cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lab.started.append(process)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    process.stderr.close()
    lab.enqueue("m1")
    through(lab, "m1")
    lab.enqueue("m2")
    through(lab, "m2")
    lab.run("stop")

    assert process.wait(PATIENCE) == 0


def test_ends_are_settled_while_kranz_has_the_checkout(lab: Laboratory) -> None:
    """A kranz at work keeps new missions from starting, and does not keep a recorded end from its place."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    ended_alone(lab, abandoned(lab))
    lab.enqueue("m2")
    (lab.queue / ".repo.busy.lock").write_text(f"{os.getpid()}\n{int(time.time())}\n{kranz_token(os.getpid())}\n0\n")
    once = lab.run("drain", "--once", code=None)

    assert once.returncode == 4
    assert lab.outcomes("m1") == ["succeeded"]
    assert [name.rsplit("-", 1)[1] for name in lab.names() if ".json" in name] == ["m2.json"]
