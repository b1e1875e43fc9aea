"""Bad files, missing runners, full disks, strange environments, other worktrees: what a daemon makes of them."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from kranzq.model.clock import seconds_of
from tests.laboratory import PATIENCE, REPO, Laboratory, is_alive, wait_for
from tests.scenes import abandoned, begun, configure, passes, patient, through

pytestmark = pytest.mark.slow
FULL = """
import json, os, subprocess, sys, time
root, notes, *python = sys.argv[1:]
kranz = os.path.join(root, ".kranz")
os.makedirs(kranz, exist_ok=True)
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=192k,mode=755", "none", kranz], check=True)
def kranzq(*words):
    return subprocess.run([*python, "-C", root, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL)
def until(condition, what):
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline: raise SystemExit("not in time: " + what)
        time.sleep(0.02)
def fill():
    with open(os.path.join(kranz, "filler"), "ab", buffering=0) as file:
        try:
            while True: file.write(bytes(512))
        except OSError: pass
def clear(): os.unlink(os.path.join(kranz, "filler"))
def names(): return os.listdir(os.path.join(kranz, "queue"))
def entries(): return sorted(name for name in names() if ".json" in name and name[0] != ".")
def told(): return open(notes + "/told").read().splitlines() if os.path.exists(notes + "/told") else []
def alone(mission, *rest):
    return ["--", sys.executable, "-I", "-S", notes + "/alone.py", notes, mission, *map(str, rest)]
found = {"first": kranzq("enqueue", "m1", *alone("m1", 60, 3)).returncode}
fill()
full = kranzq("enqueue", "m2", *alone("m2", 0, 0))
found |= {"enqueue full": full.returncode, "said": full.stderr, "entries full": entries()}
found["drain full"] = kranzq("drain", "--once").returncode
found |= {"told full": told(), "still there": entries()}
clear()
daemon = subprocess.Popen([*python, "-C", root, "daemon"], stdout=open(notes + "/log", "ab"), stderr=subprocess.STDOUT)
until(lambda: "start m1" in told(), "m1 runs")
exit_json = os.path.join(kranz, "missions/m1/dispatch/001/exit.json")
run_json = exit_json.replace("exit", "run")
until(lambda: json.load(open(run_json))["state"] == "running", "that it runs is recorded")
fill()
open(notes + "/release", "w").close()
until(lambda: os.path.exists(exit_json) and "survivors" in json.load(open(exit_json)), "the end is recorded")
clear()
until(lambda: json.load(open(run_json))["state"] == "ended", "the end is settled")
found["outcome"] = json.load(open(run_json))["outcome"]
until(lambda: not entries(), "nothing waits")
found["enqueue after"] = kranzq("enqueue", "m2", *alone("m2", 0, 0)).returncode
until(lambda: "end m2" in told(), "m2 runs")
until(lambda: not entries(), "m2 is settled")
subprocess.run(["mount", "--bind", kranz, kranz], check=True)
subprocess.run(["mount", "-o", "remount,bind,ro", kranz], check=True)
found["enqueue read-only"] = kranzq("enqueue", "m3", *alone("m3", 0, 0)).returncode
found["drain read-only"] = kranzq("drain", "--once").returncode
found["alive"] = daemon.poll() is None
subprocess.run(["umount", "-l", kranz], check=True)
found["enqueue again"] = kranzq("enqueue", "m3", *alone("m3", 0, 0)).returncode
until(lambda: "end m3" in told(), "m3 runs")
until(lambda: not entries(), "m3 is settled")
kranzq("stop")
found |= {"stopped": daemon.wait(30), "told": told()}
found["temporary"] = [name for name in names() if name.endswith(".tmp")]
print(json.dumps(found))
"""


@pytest.mark.system("unshare", "mount")
def test_a_full_or_read_only_disk_loses_nothing_and_says_so(lab: Laboratory) -> None:
    """Nothing is begun that could not be recorded, an end is recorded all the same, and space is all it needs."""
    argv = ["unshare", "-m", sys.executable, "-c", FULL, str(lab.root), str(lab.notes), sys.executable, "-m", "kranzq"]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False, timeout=55)
    assert done.returncode == 0, (done.stderr, lab.log())
    found = json.loads(done.stdout)

    assert (found["first"], found["enqueue full"], found["drain full"]) == (0, 6, 6), found
    assert "No space left" in found["said"]
    assert found["told full"] == []
    assert [len(found[key]) for key in ("entries full", "still there")] == [1, 1]
    assert found["outcome"] == "failed"
    assert found["told"] == ["start m1", "end m1", "start m2", "end m2", "start m3", "end m3"]
    assert [found[key] for key in ("enqueue after", "enqueue read-only", "drain read-only")] == [0, 6, 6]
    assert (found["alive"], found["enqueue again"], found["stopped"]) == (True, 0, 0)
    assert found["temporary"] == []


@pytest.mark.parametrize("content", [b"", b"{", bytes(600)], ids=["empty", "cut off", "zeros"])
def test_b38_a_run_record_that_is_broken_counts_as_none(lab: Laboratory, content: bytes) -> None:
    """A claim whose record a power cut destroyed is judged by its name and goes back."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    keeper = abandoned(lab, verb="daemon")
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not is_alive(keeper), "the keeper is gone")
    (lab.root / ".kranz/missions/m1/dispatch/001/run.json").write_bytes(content)
    wait_for(lab.kill_all, "what it left is gone")
    lab.release()
    lab.run("drain")

    assert lab.count("start", "m1") == 2
    assert lab.outcomes("m1") == ["succeeded"]
    lab.assert_nothing_left()


@pytest.mark.parametrize("name", [".busy.json", ".daemon.json", ".seq", ".paused.tmp", ".stop"])
@pytest.mark.parametrize("content", [b"", b"{", bytes(600)], ids=["empty", "cut off", "zeros"])
def test_b38_broken_files_of_a_dispatcher_stop_nobody(lab: Laboratory, name: str, content: bytes) -> None:
    """What a power cut leaves of records that decide nothing needs no editing by hand."""
    lab.enqueue("m1")
    (lab.queue / name).write_bytes(content)
    daemon = lab.daemon()
    lab.enqueue("m2")
    through(lab, "m2")
    lab.run("stop")

    assert daemon.wait(PATIENCE) == 0
    assert lab.told() == ["start m1", "end m1", "start m2", "end m2"]


@pytest.mark.parametrize("content", [b"", bytes(60), b"no number\n"], ids=["empty", "zeros", "text"])
def test_b38_kranzs_lock_without_a_holder_is_busy_while_it_is_fresh(lab: Laboratory, content: bytes) -> None:
    """Fresh, its writer may be alive and slow; over an hour old it is set aside and the mission runs."""
    lab.enqueue("m1")
    (lab.queue / ".repo.busy.lock").write_bytes(content)
    fresh = lab.run("drain", "--once", code=None)
    program = (
        "import sys, time; real = time.time; time.time = lambda: real() + 3700;"
        "from kranzq.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    old = subprocess.run([sys.executable, "-c", program, *lab.command("drain")[3:]], cwd=REPO, check=False, timeout=30)

    assert (fresh.returncode, old.returncode) == (4, 0)
    assert lab.told() == ["start m1", "end m1"]


def test_b42_bad_files_at_the_head_are_set_aside_and_hold_up_nobody(lab: Laboratory) -> None:
    """Broken, huge, foreign and special files before a good entry: it runs without a timer, each is named once."""
    lab.run("init")
    queue = lab.queue
    for number, content in enumerate((b"{", b"", b"[" * 3_000_000, b"\xff\xfe")):
        (queue / f"000-{number:020d}-bad{number}.json").write_bytes(content)
    (queue / f"000-{4:020d}-bad4.json").mkdir()
    (queue / f"000-{5:020d}-bad5.json").symlink_to("nowhere")
    os.mkfifo(queue / f"000-{6:020d}-bad6.json")
    with (queue / f"000-{7:020d}-bad7.json").open("wb") as file:
        file.truncate(4 << 30)
    (queue / "x.json").write_text("{}")
    first = lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "3600"})
    lab.enqueue("m1")
    wait_for(lambda: lab.count("end", "m1"), "m1 runs")
    lab.run("stop")
    first.wait(PATIENCE)
    daemon = lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.5"})
    wait_for(
        lambda: len([name for name in lab.names("quarantine") if not name.endswith(".why.json")]) == 9, "all aside"
    )
    peak = [line for line in Path(f"/proc/{daemon.pid}/status").read_text().splitlines() if line.startswith("VmHWM")]
    lab.run("stop")

    assert int(peak[0].split()[1]) < 100_000
    assert (queue / f"quarantine/000-{3:020d}-bad3.json").read_bytes() == b"\xff\xfe"
    assert lab.log().count("set aside") == 9


def test_b53_a_missing_runner_is_tried_with_growing_pauses(lab: Laboratory) -> None:
    """Everybody's missing runner: one try, then a pause of seconds, no entry lost; mended, each of them runs once."""
    program = lab.root / "runner"
    configure(f'[mission]\ncommand = ["{program}", "{{mission_id}}"]\n')
    lab.enqueue("m1", *lab.alone("m1"))
    (lab.queue / lab.entries()[0]).unlink()
    for mission in ("m1", "m2", "m3"):
        lab.run("enqueue", mission)
    daemon = lab.daemon()
    wait_for(lambda: "nothing is started for" in lab.log(), "it says that it waits")
    entries = lab.entries()
    mended = lab.notes / "mended"
    mended.write_text(f"#!/bin/sh\necho start $1 >> {lab.notes}/told\n")
    mended.chmod(0o755)
    mended.rename(program)
    wait_for(lambda: not lab.entries(), "all have run")
    lab.kill(daemon)
    tries = lab.records("m1")

    assert len(entries) == 3
    assert len(tries) > 1
    assert all(_moment(then.created_at) - _moment(one.ended_at) > 3.5 for one, then in itertools.pairwise(tries))
    assert [len(lab.records(one)) for one in ("m2", "m3")] == [1, 1]
    assert sorted(lab.told()) == ["start m1", "start m2", "start m3"]


def _moment(text: str | None) -> float:
    found = seconds_of(text)
    assert found is not None
    return found


def _has_tried_after(lab: Laboratory, so_far: list[str]) -> bool:
    return len(lab.outcomes("m1")) > len(so_far)


def test_b53_whoever_has_mended_something_restarts_the_daemon_and_need_not_wait(lab: Laboratory) -> None:
    """The pause is not kept over a restart, which costs one try; the daemon itself never leaves because of it."""
    program = lab.root / "runner"
    configure(f'[mission]\ncommand = ["{program}"]\n')
    lab.run("enqueue", "m1")
    daemon = patient(lab, "daemon")
    for so_far in ([], ["not started"]):
        process = lab.start(daemon)
        wait_for(partial(_has_tried_after, lab, so_far), "another try")
        assert process.poll() is None
        lab.run("stop")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    lab.start(daemon)
    wait_for(lambda: not lab.entries(), "it has run")

    assert lab.outcomes("m1") == ["not started", "not started", "succeeded"]


def test_b53_a_mission_that_says_not_now_waits_and_a_failing_one_is_retired(lab: Laboratory) -> None:
    """Exit 75 is one start and a wait behind the others; exit 1 without retries is the end, with them a pause."""
    lab.enqueue("m1", *lab.alone("m1", 0, 75))
    lab.enqueue("m2", *lab.alone("m2", 0, 1))
    lab.enqueue("m3", *lab.alone("m3", 0, 1), retries=2)
    lab.start(patient(lab, "daemon"))
    wait_for(lambda: lab.count("end", "m3") and len(lab.names("waiting")) == 2, "two wait")
    seen_at = time.time()
    due = {name.rsplit("-", 1)[1]: int(name.split(".")[0]) / 1000 for name in lab.names("waiting")}
    ended = {f"{one}.json": _moment(lab.records(one)[-1].ended_at) for one in ("m1", "m3")}

    assert [lab.count("start", one) for one in ("m1", "m2", "m3")] == [1, 1, 1]
    assert all(due[name] - ended[name] > 0.7 * 3600 for name in ended)
    assert all(due[name] - seen_at < 3600 for name in ended)
    assert [name for name in lab.names() if name.endswith(".json")] == []
    assert lab.outcomes("m1") == ["deferred"]


@pytest.mark.system("git")
def test_b56_a_daemon_started_by_a_git_hook_serves_its_own_checkout(lab: Laboratory, tmp_path: Path) -> None:
    """Git's locations and our secrets do not reach the mission; its commit lands in the checkout."""
    wrong = tmp_path / "wrong"
    subprocess.run(["git", "init", "--quiet", str(wrong)], check=True)
    who = "git -c user.name=A -c user.email=a@example.org -c commit.gpgSign=false"
    script = f"env > {lab.notes}/env; pwd > {lab.notes}/pwd; {who} commit -q --allow-empty -m from-the-mission"
    lab.enqueue("m1", "/bin/sh", "-c", script)
    env = {"GIT_DIR": f"{wrong}/.git", "GIT_INDEX_FILE": f"{wrong}/.git/index", "GIT_WORK_TREE": str(wrong)}
    env |= {"KRANZQ_TOKEN": "a-secret", "KRANZ_CLAIM": "0" * 32 + ":1:1", "KRANZ_REPO": "/elsewhere", "KEPT": "kept"}
    lab.run("drain", env=env)
    seen = dict(line.split("=", 1) for line in (lab.notes / "env").read_text().splitlines() if "=" in line)
    log = subprocess.run(["git", "log", "--format=%s"], cwd=lab.root, capture_output=True, text=True, check=True).stdout

    assert not [name for name in seen if name.startswith("GIT_")]
    assert "a-secret" not in seen.values()
    assert (seen["KEPT"], seen["KRANZ_REPO"], seen["KRANZ_MISSION_ID"]) == ("kept", lab.checkout.root, "m1")
    assert (lab.notes / "pwd").read_text().strip() == lab.checkout.root
    assert log.splitlines()[0] == "from-the-mission"


@pytest.mark.system("git")
def test_b57_each_worktree_is_a_checkout_of_its_own(lab: Laboratory, tmp_path: Path) -> None:
    """Two linked worktrees are served at the same time, each from any folder in it, and git sees none of it."""
    subprocess.run(["git", "worktree", "add", "--quiet", str(tmp_path / "w" / "two")], cwd=lab.root, check=True)
    with Laboratory(tmp_path / "w" / "two") as other:
        for one in (lab, other):
            one.enqueue("m1", *one.alone("m1", 60))
            one.enqueue("m2")
        folder = other.root / "sub"
        folder.mkdir()
        lab.start(lab.command("daemon"))
        other.start([*other.command()[:-2], "-C", str(folder), "daemon"])
        for one in (lab, other):
            wait_for(lambda one=one: one.count("start", "m1"), "both run at once")  # type: ignore[misc]
        once = other.run("drain", "--once", code=None).returncode
        said = [
            subprocess.run(
                ["git", "status", "--short"], cwd=one.root, capture_output=True, text=True, check=True
            ).stdout
            for one in (lab, other)
        ]
        for one in (lab, other):
            one.release()
            wait_for(lambda one=one: not one.entries(), "all is settled")  # type: ignore[misc]
            one.run("stop")

        assert once == 4
        assert said == ["", ""]
        assert lab.told() == other.told() == ["start m1", "end m1", "start m2", "end m2"]


def sleeps(pid: int) -> int:
    """How often all threads of a process went to sleep so far; that others took their turn is no doing of theirs."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            lines = (task / "status").read_text().splitlines()
        except OSError:  # this thread has just ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))
    return total


def is_quiet(pid: int) -> bool:
    """Whether a process woke no more than twice in two seconds: what it had to do at first is done."""
    before = sleeps(pid)
    passes(2)
    return sleeps(pid) - before <= 2


@pytest.mark.parametrize("what", ["idle", "a mission sleeps", "an adopted mission sleeps"])
def test_a_daemon_with_nothing_to_do_uses_nothing(lab: Laboratory, what: str) -> None:
    """It wakes less than sixty times a minute, whether it waits for entries or for a mission, its own or another's."""
    if what == "idle":
        lab.run("init")
    else:
        lab.enqueue("m1", *lab.alone("m1", 60))
        (lab.notes / "alone.py").write_text(
            f"open({str(lab.notes / 'told')!r}, 'a').write('start m1\\n'); import time; time.sleep(300)"
        )
    daemon = lab.daemon()
    if what != "idle":
        begun(lab)
        lab.keeper("m1")
    if what == "an adopted mission sleeps":
        lab.kill(daemon)
        daemon = lab.daemon()
    wait_for(lambda: is_quiet(daemon.pid), "it has come to rest")
    one = psutil.Process(daemon.pid)
    before, used, began = sleeps(daemon.pid), one.cpu_times(), time.monotonic()
    passes(12)
    woke, now, took = sleeps(daemon.pid) - before, one.cpu_times(), time.monotonic() - began

    assert woke < took
    assert now.user + now.system - used.user - used.system < 0.05 * took
