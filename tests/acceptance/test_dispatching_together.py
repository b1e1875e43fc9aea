"""Several dispatchers, namespaces, signals and terminals at one checkout: who waits, who leaves, who is spared."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from kranzq.liveness import start_ticks
from tests.laboratory import IN_OTHER_NAMESPACE, PATIENCE, REPO, Laboratory, is_alive, wait_for
from tests.scenes import passes

pytestmark = pytest.mark.slow
IN_FRONT = ("sh", "-c", '"$@" & wait', "sh")
LATER = (
    "import sys, time; real, ahead = time.time, float(sys.argv.pop(1)); time.time = lambda: real() + ahead;"
    "from kranzq.cli.main import run; sys.exit(run(sys.argv[1:]))"
)
REUSE = """
import json, os, signal, subprocess, sys, time
root, told, *python = sys.argv[1:]
def start(): return subprocess.Popen([*python, "-C", root, "daemon"], stdout=subprocess.DEVNULL, start_new_session=True)
def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
def lines(): return open(told).read().split("\\n") if os.path.exists(told) else []
def reuse(pid):
    for _ in range(100):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file: file.write(str(pid - 1))
        other = subprocess.Popen(["sleep", "600"])
        if other.pid == pid: return other
        other.kill(); other.wait()
    raise SystemExit("the number did not come again")
first = start()
until(lambda: "start m1" in lines())
record = os.path.join(root, ".kranz/missions/m1/dispatch/001/run.json")
until(lambda: json.load(open(record))["state"] == "running")
keeper = json.load(open(record))["keeper"]["pid"]
os.kill(first.pid, signal.SIGKILL); first.wait()
os.kill(keeper, signal.SIGKILL)
until(lambda: not os.path.exists(f"/proc/{keeper}") or open(f"/proc/{keeper}/stat").read().split()[2] == "Z")
try: os.waitpid(keeper, 0)
except ChildProcessError: pass
until(lambda: not os.path.exists(f"/proc/{keeper}"))
impostors = [reuse(keeper), reuse(first.pid)]
found = subprocess.run([*python, "-C", root, "recover", "--json"], capture_output=True, text=True)
open(os.path.join(os.path.dirname(told), "release"), "w").close()
second = start()
until(lambda: lines().count("end m1") == 1)
stop = subprocess.run([*python, "-C", root, "stop"], capture_output=True, text=True)
print(json.dumps({"claims": json.loads(found.stdout)["claims"], "alive": [one.poll() is None for one in impostors],
    "stop": stop.returncode, "second": second.wait(30)}))
"""


def started(lab: Laboratory, mission: str, times: int = 1) -> None:
    """Wait until a mission has told that it runs."""
    wait_for(lambda: lab.count("start", mission) >= times, f"{mission} runs: {lab.log()}")


def later(lab: Laboratory, seconds: float, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a verb with the wall clock ahead."""
    argv = [sys.executable, "-c", LATER, str(seconds), "-C", str(lab.root), *words]
    return subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.system("unshare")
def test_b03_a_number_that_was_given_out_again_is_nobody_we_know(lab: Laboratory) -> None:
    """Claim, busy lock and daemon record of dead processes whose numbers others have now: gone, and nobody is hurt."""
    lab.enqueue("m1", *lab.alone("m1", 300))
    argv = [*IN_OTHER_NAMESPACE, sys.executable, "-c", REUSE, str(lab.root), str(lab.notes / "told")]
    done = subprocess.run(
        [*argv, sys.executable, "-m", "kranzq"], cwd=REPO, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert [(one["verdict"], "another process" in one["evidence"]) for one in found["claims"]] == [("gone", True)]
    assert found["alive"] == [True, True]
    assert (found["stop"], found["second"]) == (0, 0)
    assert lab.outcomes("m1") == ["interrupted", "succeeded"]


@pytest.mark.system("unshare")
@pytest.mark.parametrize("inside", [True, False], ids=["daemon inside", "daemon outside"])
def test_b05_a_dispatcher_of_another_pid_namespace_is_never_taken_for_dead(lab: Laboratory, *, inside: bool) -> None:
    """Across pid namespaces the second dispatcher sees a living keeper, moves nothing, waits, and then goes on."""
    first, second = ((*IN_OTHER_NAMESPACE, *IN_FRONT), ()) if inside else ((), (*IN_OTHER_NAMESPACE, *IN_FRONT))
    lab.enqueue("m1", *lab.alone("m1", 60))
    lab.enqueue("m2")
    lab.daemon(before=first)
    started(lab, "m1")
    lab.keeper("m1")
    claims = [name for name in lab.names() if ".claimed." in name]
    once = lab.start([*second, *lab.command("drain", "--once")], log="once")
    once.wait(PATIENCE)
    argv = [*second[: len(IN_OTHER_NAMESPACE)], *lab.command("recover", "--json")]
    found = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False, timeout=30)
    other = lab.start([*second, *lab.command("drain")], log="drain")
    wait_for(lambda: "busy" in lab.log("drain"), "the second one says why it waits")
    early = lab.told()
    after = [name for name in lab.names() if ".claimed." in name]
    lab.release()
    wait_for(lambda: not lab.entries(), "all is settled")

    assert other.wait(PATIENCE) == 0
    assert "busy" in lab.log("once")
    assert [one["verdict"] for one in json.loads(found.stdout)["claims"]] == ["alive"]
    assert early == ["start m1"]
    assert claims == after != []
    assert sorted(lab.told()) == ["end m1", "end m2", "start m1", "start m2"]
    assert lab.outcomes("m1") == lab.outcomes("m2") == ["succeeded"]


@pytest.mark.system("unshare")
def test_b05_a_pid_namespace_that_is_gone_leaves_a_claim_that_is_gone(lab: Laboratory) -> None:
    """When a whole container is killed its keeper's lock is free, and whoever gets it may put the claim back."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    container = lab.daemon(before=(*IN_OTHER_NAMESPACE, *IN_FRONT))
    started(lab, "m1")
    lab.keeper("m1")
    lab.kill(container)
    wait_for(lab.is_free, "all of it is gone")
    lab.release()
    lab.run("drain")

    assert lab.outcomes("m1") == ["interrupted", "succeeded"]
    lab.assert_nothing_left()


def test_b03_a_number_of_an_earlier_boot_is_nobody_we_know(lab: Laboratory) -> None:
    """A keeper's number and start are those of a living process, and its boot is over: it is not taken for alive."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    daemon = lab.daemon()
    started(lab, "m1")
    keeper = lab.keeper("m1")
    lab.kill(daemon)
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not is_alive(keeper), "the keeper is gone")
    lab.release()
    wait_for(lambda: lab.count("end", "m1"), "its mission has ended")
    impostor = lab.start(["sleep", "60"])
    path = lab.root / ".kranz/missions/m1/dispatch/001/run.json"
    record = json.loads(path.read_text())
    record["keeper"] |= {"pid": impostor.pid, "startTicks": start_ticks(impostor.pid), "bootId": "an earlier one"}
    path.write_text(json.dumps(record))
    young = json.loads(lab.run("recover", "--json", code=4).stdout)["claims"]
    old = json.loads(later(lab, 61 * 60, "recover", "--json").stdout)["claims"]

    assert [one["verdict"] for one in young] == ["unknown"]  # its claim was touched in this boot
    assert [(one["verdict"], one["action"][:8]) for one in old] == [("gone", "put back")]
    assert impostor.poll() is None


def test_b07_only_what_cannot_be_judged_is_decided_by_age(lab: Laboratory) -> None:
    """A claim of another machine stays for an hour and then goes back; a living keeper's is left at any age."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    daemon = lab.daemon()
    started(lab, "m1")
    keeper = lab.keeper("m1")
    proven = json.loads(later(lab, 3 * 3600, "recover", "--json").stdout)
    lab.kill(daemon)
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not is_alive(keeper), "the keeper is gone")
    lab.release()
    wait_for(lambda: lab.count("end", "m1"), "its mission has ended")
    path = lab.root / ".kranz/missions/m1/dispatch/001/run.json"
    record = json.loads(path.read_text())
    record["keeper"] |= {"bootId": "another", "machineId": "another"}
    path.write_text(json.dumps(record))
    young = later(lab, 59 * 60, "recover", "--json")
    busy = lab.run("drain", "--once", code=None)
    old = later(lab, 61 * 60, "recover", "--json")

    assert [one["verdict"] for one in proven["claims"]] == ["alive"]
    assert [one["verdict"] for one in json.loads(young.stdout)["claims"]] == ["unknown"]
    assert (young.returncode, busy.returncode, old.returncode) == (4, 4, 0)
    assert [(one["verdict"], one["action"][:8]) for one in json.loads(old.stdout)["claims"]] == [("gone", "put back")]


def nine_left(daemons: list[subprocess.Popen[bytes]]) -> bool:
    """Whether all but one have ended."""
    return sum(one.poll() is not None for one in daemons) == len(daemons) - 1


def test_b14_of_ten_daemons_one_stays_and_the_others_name_it(lab: Laboratory) -> None:
    """Started in one instant, again and again: one serves, nine leave with 4 and say which process has it."""
    with_queue = lab.enqueue("m0")
    lab.run("cancel", str(with_queue.entry.mission))
    for number in range(3):
        daemons = [lab.start(lab.command("daemon"), log=f"{number}.{one}") for one in range(10)]
        wait_for(partial(nine_left, daemons), "nine have left")
        (stays,) = [at for at, one in enumerate(daemons) if one.poll() is None]
        pid = daemons[stays].pid
        said = [lab.log(f"{number}.{one}") for one in range(10) if one != stays]
        if number:
            lab.kill(daemons[stays])  # its record stays behind for the next round
        else:
            folder = lab.root / "some" / "folder"
            folder.mkdir(parents=True)
            done = subprocess.run([*lab.command()[:-2], "-C", str(folder), "stop"], cwd=REPO, check=False, timeout=30)
            assert (done.returncode, daemons[stays].wait(PATIENCE)) == (0, 0)

        assert [one.returncode for at, one in enumerate(daemons) if at != stays] == [4] * 9
        assert all(f"pid {pid}," in text for text in said), said


def test_b14_a_daemon_whose_lock_was_replaced_notices_and_leaves(lab: Laboratory) -> None:
    """When somebody removes the lock file and another daemon takes a new one, the first is the one that goes."""
    first = lab.daemon()
    first.send_signal(signal.SIGSTOP)
    (lab.queue / ".daemon.flock").unlink()
    second = lab.daemon()
    first.send_signal(signal.SIGCONT)
    lab.enqueue("m1")
    wait_for(lambda: first.poll() is not None, "the first one leaves")
    wait_for(lambda: lab.count("end", "m1"), "the second one serves")

    assert first.returncode == 4
    assert second.poll() is None
    assert lab.told() == ["start m1", "end m1"]


def at_terminal(lab: Laboratory, *words: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a verb as the leader of a terminal; the process and the other end of the terminal."""
    ours, its = pty.openpty()
    process = subprocess.Popen(["setsid", "--ctty", *lab.command(*words)], cwd=REPO, stdin=its, stdout=its, stderr=its)
    os.close(its)
    lab.started.append(process)
    return process, ours


def await_text(terminal: int, text: bytes) -> None:
    """Read what comes to a terminal until this has come."""
    shown = b""

    def there() -> bool:
        nonlocal shown
        while select.select([terminal], [], [], 0)[0]:
            shown += os.read(terminal, 4096)
        return text in shown

    wait_for(there, f"the terminal shows {text!r}")


@pytest.mark.system("setsid")
@pytest.mark.parametrize("verb", ["daemon", "drain"])
@pytest.mark.parametrize("how", ["once", "twice at once", "twice", "hang-up"])
def test_b20_ctrl_c_and_hang_up_reach_the_dispatcher_and_not_the_mission(lab: Laboratory, how: str, verb: str) -> None:
    """The first lets the mission end, the second ends it and puts it back; a closed terminal is a first one."""
    lab.enqueue("m1", "/bin/sh", "-c", f"trap '' INT TERM; exec {' '.join(lab.alone('m1', 60))}", env={})
    lab.enqueue("m2")
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[mission]\ngrace_seconds = 0.3\n")
    process, terminal = at_terminal(lab, verb)
    started(lab, "m1")
    lab.keeper("m1")
    if how == "hang-up":
        os.close(terminal)
    else:
        os.write(terminal, b"\x03\x03" if how == "twice at once" else b"\x03")
        await_text(terminal, b"once more")
        if how == "twice":
            passes(0.7)  # two within half a second would be one
            os.write(terminal, b"\x03")
    if how != "twice":
        passes(0.3)
        assert process.poll() is None, "it waits for the mission"
        lab.release()
    code = process.wait(PATIENCE)
    if how != "hang-up":
        os.close(terminal)

    ended = {"daemon": 0, "drain": 129 if how == "hang-up" else 130}
    assert code == ended[verb]
    assert lab.outcomes("m1") == (["interrupted"] if how == "twice" else ["succeeded"])
    assert lab.count("start", "m2") == 0
    lab.release()
    lab.run("drain")
    assert lab.outcomes("m1")[-1] == "succeeded"
    lab.assert_nothing_left()


@pytest.mark.parametrize("verb", ["daemon", "drain"])
@pytest.mark.parametrize(
    "point",
    [
        "after:kranzq.dispatch.turn:take_hold:1",
        "after:kranzq.dispatch.turn:choose:1",
        "after:kranzq.runs.folder:RunFolder.write:1",
        "before:kranzq.dispatch.turn:launch.claim:1",
        "after:kranzq.dispatch.turn:launch.claim:1",
        "after:kranzq.dispatch.turn:launch.prepare:1",
    ],
)
def test_b21_a_term_before_the_start_starts_nothing(lab: Laboratory, point: str, verb: str) -> None:
    """Told to stop at any step before *go*, a dispatcher puts the entry back under its old name and leaves."""
    lab.enqueue("m1")
    entries = lab.entries()
    code = lab.killed(point, verb, env={"LAB_SIGNAL": str(int(signal.SIGTERM))})

    assert code == (0 if verb == "daemon" else 143)
    assert lab.told() == []
    assert lab.entries() == entries
    lab.run("drain")
    assert lab.told() == ["start m1", "end m1"]
    lab.assert_nothing_left()


def test_b21_a_command_that_cannot_be_started_is_not_running(lab: Laboratory) -> None:
    """No such file, no interpreter, not executable: parked with the reason, and the next one runs."""
    script = lab.root / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    lab.enqueue("m1", "no-such-program")
    lab.enqueue("m2", str(script))
    lab.enqueue("m3", "/etc/hostname")
    lab.enqueue("m4")
    done = lab.run("drain", code=1)

    assert lab.told() == ["start m4", "end m4"], done.stderr
    assert [lab.outcomes(one) for one in ("m1", "m2", "m3")] == [["not started"]] * 3
    assert len([name for name in lab.names("parked") if not name.endswith(".why.json")]) == 3


def test_b52_a_held_lock_costs_the_waiting_nothing(lab: Laboratory) -> None:
    """Eight dispatchers wait for a lock that somebody holds; then every mission runs once, in its first run."""
    missions = [f"m{number}" for number in range(8)]
    for mission in missions:
        lab.enqueue(mission, *lab.alone(mission, 0.05))
    fd = os.open(lab.root / ".git", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    drains = [lab.start(lab.command("drain"), log=f"drain{number}") for number in range(8)]
    wait_for(lambda: all("busy" in lab.log(f"drain{number}") for number in range(8)), "all say that they wait")
    ticks, began = [_ticks(one.pid) for one in drains], time.monotonic()
    passes(2)
    used = [_ticks(one.pid) - before for one, before in zip(drains, ticks, strict=True)]
    took = time.monotonic() - began
    early = lab.told()
    os.close(fd)

    assert [one.wait(40) for one in drains] == [0] * 8
    assert early == []
    assert max(used) < 0.15 * took * os.sysconf("SC_CLK_TCK")
    assert sorted(lab.told()) == sorted(f"{what} {mission}" for what in ("start", "end") for mission in missions)
    assert all([record.run for record in lab.records(mission)] == [1] for mission in missions)
    lab.assert_nothing_left()


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_lock_of_kranz_is_waited_for_without_spinning(lab: Laboratory) -> None:
    """A living kranz holds its own lock and not ours: a daemon looks now and then, and goes on when it is gone."""
    from kranzq.liveness import kranz_token

    lab.enqueue("m1")
    lock = lab.queue / ".repo.busy.lock"
    lock.write_text(f"{os.getpid()}\n{int(time.time())}\n{kranz_token(os.getpid())}\n0\n")
    daemon = lab.daemon()
    wait_for(lambda: "busy" in lab.log(), "it says that it waits")
    before, began = _ticks(daemon.pid), time.monotonic()
    passes(3)
    used, took, early = _ticks(daemon.pid) - before, time.monotonic() - began, lab.told()
    lock.unlink()
    wait_for(lambda: lab.count("end", "m1"), "it runs")

    assert used < 0.1 * took * os.sysconf("SC_CLK_TCK")
    assert early == []
