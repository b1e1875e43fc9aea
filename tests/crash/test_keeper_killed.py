"""A keeper is killed at each of its steps, alone or together with its dispatcher; the next dispatcher mends it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kranzq.runs.leftovers import Leftover
from kranzq.wiring import dispatching
from tests.laboratory import PATIENCE, REPO, Laboratory, is_alive, wait_for
from tests.scenes import configure

pytestmark = [pytest.mark.crash, pytest.mark.slow]
KEEPER = REPO / "kranzq" / "keeper.py"
DIE = "(os.unlink({flag!r}), {also}, os.kill(os.getpid(), 9)) if os.path.exists({flag!r}) else None"
BOTH = "os.kill(DISPATCHER, 9)"
STEPS = {  # the line before which it dies, and 0: nothing had run, 1: its end was not recorded, -1: it was
    "before it is ready": ('    sock.send(json.dumps({"ready"', 0),
    "before go is read": ("    data, ancillary, flags, _ = packet", 0),
    "after go was read": ("    received = [fd", 0),
    "before it says that it lives": ("    for lock in locks:\n        say_alive", 0),
    "after it says that it lives": ("    fds = dict(named)", 0),
    "before the space is taken": ("            for _ in range(2):  # room", 0),
    "after the space was taken": ("        quietly(fcntl.fcntl, self.run, fcntl.F_NOTIFY", 0),
    "before the start": ('        self.end["startedAt"] = stamp()', 0),
    "after the start": ("        timeout, seen = self.order", 1),
    "after the start was told": ("        return True\n\n    def spawn", 1),
    "after the mission's end": ('        self.end["endedAt"] = stamp()\n        ended =', 1),
    "after the mission was reaped": ("            self.record(patient=True)\n            self.tell", 1),
    "before the record is synced": ("            os.fsync(fd)\n            try:", 1),
    "before the record is there": (
        "                os.rename(temporary, name, src_dir_fd=self.run, dst_dir_fd=self.run)\n            except",
        1,
    ),
    "after the record is there": ("        for level in range(self.order", -1),
    "after the record is safe": ('            self.tell({"end": self.end})', -1),
    "between the records": ('            self.end["survivors"] = self.see', -1),
    "before the second record": ("            recorded = self.record(patient=True)\n", -1),
    "after the second record": ('            self.tell({"survivors"', -1),
    "before the last act": ("        if recorded and self.dispatcher_is_gone():", -1),
}


def mortal_keeper(lab: Laboratory, step: str, *, both: bool) -> dict[str, str]:
    """Make a keeper that dies once at a step, and what lets a dispatcher use it."""
    flag = lab.notes / "flag"
    flag.touch()
    text = KEEPER.read_text()
    place = STEPS[step][0]
    assert text.count(place) == 1, place
    indent = place[: len(place) - len(place.lstrip())]
    die = DIE.format(flag=str(flag), also=BOTH if both else None)
    program = lab.notes / "keeper.py"
    program.write_text(
        text.replace(place, f"{indent}{die}\n{place}").replace(" main()\n", " DISPATCHER = os.getppid()\n    main()\n")
    )
    return {"LAB_KEEPER": str(program)}


def kill_keeper(lab: Laboratory, dispatcher: subprocess.Popen[bytes] | None) -> None:
    """Kill the keeper of m1, which runs, and before it its dispatcher."""
    keeper = lab.keeper("m1")  # first: it is the dispatcher that records that it runs
    if dispatcher is not None:
        lab.kill(dispatcher)
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not is_alive(keeper), "the keeper is gone")


@pytest.mark.parametrize("both", [False, True], ids=["keeper", "both"])
@pytest.mark.parametrize("step", STEPS)
def test_a_keeper_killed_at_any_step_loses_nothing(lab: Laboratory, step: str, *, both: bool) -> None:
    """A mission whose end was not recorded runs again, one whose end was recorded never does."""
    lab.enqueue("m1", *lab.alone("m1", 0.05, 3))
    lab.enqueue("m2")
    env = mortal_keeper(lab, step, both=both)
    killed = lab.killed("never", "drain", env=env)
    lab.run("drain", code=None)
    earlier = STEPS[step][1]
    interrupted = earlier >= 0 and step != "before it is ready"

    assert not (lab.notes / "flag").exists(), lab.log()
    assert killed == (-signal.SIGKILL if both else 75 if step == "before it is ready" else 1), lab.log()
    assert lab.outcomes("m1")[-2:] == (["failed"] if not interrupted else ["interrupted", "failed"])
    assert lab.count("start", "m1") in ({1, 2} if earlier == 1 else {1})  # it may die before it can tell
    assert lab.count("start", "m2") == 1
    assert lab.told()[-2:] == ["start m2", "end m2"]
    lab.assert_nothing_left()


def test_a_keeper_killed_with_go_unread_has_started_nothing(lab: Laboratory) -> None:
    """*Go* that nobody reads frees the locks that travel with it, and the mission runs once, later."""
    lab.enqueue("m1")
    env = mortal_keeper(lab, "before go is read", both=False)
    program = Path(env["LAB_KEEPER"])
    die = DIE.format(flag=str(lab.notes / "flag"), also=None)
    text = KEEPER.read_text().replace(
        "            packet = sock.recvmsg(",
        f"            select.select([sock], [], [], 30)\n            {die}\n            packet = sock.recvmsg(",
    )
    program.write_text(text)
    lab.killed("never", "drain", env=env)
    lab.run("drain")

    assert not (lab.notes / "flag").exists()
    assert lab.told() == ["start m1", "end m1"]
    lab.assert_nothing_left()


@pytest.mark.parametrize("both", [False, True], ids=["keeper", "both"])
def test_what_lost_its_environment_still_holds_the_tree(lab: Laboratory, *, both: bool) -> None:
    """Nothing but the busy lock that it inherited says whose it is: it is ended before its mission runs again."""
    hidden = shlex.join(lab.alone("m1", 60))
    lab.enqueue("m1", "/bin/sh", "-c", f"test -e {lab.notes}/again || env -i setsid {hidden} & wait")
    drain = lab.start(lab.command("drain"))
    wait_for(lambda: lab.count("start", "m1"), "the mission runs")
    (lab.notes / "again").touch()
    kill_keeper(lab, drain if both else None)
    lab.enqueue("m2")
    if not both:
        drain.wait(PATIENCE)
    lab.run("drain", code=None)

    assert lab.outcomes("m1") == ["interrupted", "succeeded"]
    assert lab.told() == ["start m1", "start m2", "end m2"]
    lab.assert_nothing_left()


def test_leftovers_with_and_without_a_mark_get_one_grace_together(lab: Laboratory) -> None:
    """Neither hears TERM: the next dispatcher waits once for both, and tells of both in one line."""
    configure("[mission]\ngrace_seconds = 0.5\n")
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    words = shlex.join([sys.executable, "-I", "-S", "-c", deaf])
    both = f"env -i setsid {words} & setsid {words} & echo start m1 >> {lab.notes}/told; wait"
    lab.enqueue("m1", "/bin/sh", "-c", f"if ! test -e {lab.notes}/again; then {both}; fi")
    drain = lab.start(lab.command("drain"))

    def deaf_ones() -> list[int]:
        return [pid for pid, line in lab.processes().items() if line.startswith(sys.executable) and deaf in line]

    wait_for(lambda: len(deaf_ones()) == 2 and lab.count("start", "m1"), "both are there")
    left = deaf_ones()
    (lab.notes / "again").touch()
    kill_keeper(lab, drain)
    done = lab.run("drain")
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if "proven gone" in line]

    assert "leftovers of m1 ended" in line
    assert all(str(pid) in line for pid in left)
    lab.assert_nothing_left()


@pytest.mark.parametrize("asks", [False, True], ids=["no-kill", "asked"])
def test_nobody_is_ended_who_was_not_named_first(lab: Laboratory, *, asks: bool) -> None:
    """What only the busy lock tells of lives on with `--no-kill`, and where a person agreed to end others alone."""
    hidden, marked = shlex.join(lab.alone("hidden", 60)), shlex.join(lab.alone("marked", 60))
    lab.enqueue("m1", "/bin/sh", "-c", f"env -i setsid {hidden} & {f'setsid {marked} &' if asks else ''} wait")
    drain = lab.start(lab.command("drain"))
    wait_for(lambda: lab.count("start", "hidden") and (not asks or lab.count("start", "marked")), "all are there")
    kill_keeper(lab, drain)
    (mission,) = [pid for pid, line in lab.processes().items() if line.startswith("/bin/sh -c env -i")]
    os.kill(mission, signal.SIGKILL)
    (left,) = [pid for pid, line in lab.processes().items() if line.startswith(sys.executable) and " hidden " in line]
    named: list[tuple[str, int]] = []

    def agreed(subject: str, found: tuple[Leftover, ...]) -> bool:
        named.extend((subject, one.pid) for one in found)
        return subject == "m1"

    report = dispatching.recover(lab.checkout, os.environ, kill=asks, confirm=agreed if asks else None)

    assert [one.pid for one in report.leftovers] == [left]
    assert left in lab.processes()
    assert left not in [one.pid for one in report.ended]
    assert len(report.ended) == asks
    assert not asks or named[-1] == ("the busy lock", left)


@pytest.mark.parametrize("held", [False, True], ids=["free", "busy"])
def test_what_closed_its_descriptors_is_ended_before_its_mission_comes_back(lab: Laboratory, *, held: bool) -> None:
    """It holds no lock, and has the mark of its run: a recovery ends it, even while others work in the tree."""
    closing = "import os, sys; os.closerange(3, 1000); os.execv(sys.argv[1], sys.argv[1:])"
    words = (sys.executable, "-I", "-S", "-c", closing, *lab.alone("m1", 60))
    lab.enqueue("m1", "/bin/sh", "-c", f"test -e {lab.notes}/again || setsid {shlex.join(words)} & wait")
    drain = lab.start(lab.command("drain"))
    wait_for(lambda: lab.count("start", "m1"), "the mission runs")
    (lab.notes / "again").touch()
    kill_keeper(lab, drain)
    (mission,) = [pid for pid, line in lab.processes().items() if line.startswith("/bin/sh -c test -e")]
    os.kill(mission, signal.SIGKILL)
    wait_for(lambda: lab.is_free() and len(lab.processes()) == 1, "nobody holds the lock, and one is left")
    (left,) = lab.processes()
    with contextlib.ExitStack() as stack:
        for path in (lab.root / ".git", lab.queue / ".busy.flock") if held else ():
            fd = os.open(path, os.O_RDONLY)
            stack.callback(os.close, fd)
            fcntl.flock(fd, fcntl.LOCK_EX)
        done = lab.run("recover", "--yes", code=None)

    assert str(left) in done.stdout
    assert lab.processes() == {}
    assert lab.names()[0].endswith("m1.json")
