"""The working tree around a run: a lock left behind, checkouts that move or vanish, what is noted and what is kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.laboratory import PATIENCE, Laboratory, is_alive, laboratory, wait_for

WHO = "git -c user.name=A -c user.email=a@example.org -c commit.gpgSign=false"
EDITING = f"""
[ -e {{notes}}/editing ] && exit 0
printf '#!/bin/sh\\ntouch {{notes}}/editing\\nexec sleep 1000\\n' > {{notes}}/editor; chmod +x {{notes}}/editor
echo work >> file; git add file; GIT_EDITOR={{notes}}/editor {WHO} commit -q file
"""
HOURLY = """
from kranzq.model import policy
policy.BACKOFF_FIRST_S = policy.BACKOFF_MOST_S = 3600.0
from kranzq.__main__ import main
main()
"""
"""The program, with an hour between two tries."""


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A laboratory in a git repository."""
    with laboratory(checkout) as one:
        yield one


def passes(lab: Laboratory, seconds: float) -> None:
    """Let time pass in which something must not happen, with a look at it from time to time."""
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > until, "time passes", seconds=seconds + 5)


def start_editing(lab: Laboratory, mission: str = "m1") -> Path:
    """A mission in the middle of `git commit`: its editor is open, git holds the index lock with the file closed."""
    lab.enqueue(mission, "/bin/sh", "-c", EDITING.format(notes=lab.notes))
    lab.daemon()
    wait_for((lab.notes / "editing").exists, "git has called its editor")
    lock = Path(
        subprocess.run(
            ["git", "rev-parse", "--git-path", "index.lock"], cwd=lab.root, capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    lock = lab.root / lock
    wait_for(lock.exists, "git holds its lock")
    return lock


def kill_git_and_keeper(lab: Laboratory) -> None:
    """Kill git so that it cannot take its lock away, and the keeper before it sees the mission's end."""
    keeper = lab.keeper("m1")
    os.kill(keeper, signal.SIGSTOP)
    git = [pid for pid, command in lab.processes().items() if command.startswith("git ") and " commit " in command]
    for pid in (*git, keeper):
        os.kill(pid, signal.SIGKILL)


def commit_afterwards(lab: Laboratory, mission: str) -> None:
    """A mission that commits."""
    lab.enqueue(mission, "/bin/sh", "-c", f"echo more >> file; git add file; {WHO} commit -q -m after")


def subjects(root: Path) -> list[str]:
    """The subjects of the commits, newest first."""
    return subprocess.run(
        ["git", "log", "--format=%s"], cwd=root, capture_output=True, text=True, check=True
    ).stdout.splitlines()


@pytest.mark.crash
@pytest.mark.system("git")
@pytest.mark.parametrize("how", ["keeper killed", "cancelled", "keeper and daemon killed"])
def test_b60_the_lock_of_a_git_that_was_killed_is_moved_into_the_run_folder(lab: Laboratory, how: str) -> None:
    """A mission that is killed in the middle of a commit stops no mission after it; what it left is kept and named."""
    lab.run("init")
    lock = start_editing(lab)
    commit_afterwards(lab, "m2")
    if how == "cancelled":
        lab.run("cancel", "m1")
    else:
        if how != "keeper killed":
            lab.kill(lab.started[-1])
        kill_git_and_keeper(lab)
        if how != "keeper killed":
            lab.daemon()
    wait_for(lambda: lab.outcomes("m2"), "the next mission has run")
    first = lab.records("m1")[0]

    assert lab.outcomes("m2") == ["succeeded"]
    assert subjects(lab.root)[0] == "after"
    assert first.outcome is not None
    assert first.outcome.value == ("cancelled" if how == "cancelled" else "interrupted")
    assert first.tree is not None
    assert first.tree.branch == "main"
    assert not [name for name in os.listdir(lab.root / ".kranz/missions/m1/dispatch/001") if name.endswith(".tmp")]
    if how != "cancelled":  # git itself takes its lock away when it gets a TERM in time
        moved = lab.root / ".kranz/missions/m1/dispatch/001/index.lock"
        assert moved.exists()
        assert first.tree.lock == str(moved)
        assert str(moved) in lab.log()
    assert not lock.exists()


@pytest.mark.crash
@pytest.mark.system("git")
def test_b60_in_a_linked_worktree_the_lock_lies_elsewhere(lab: Laboratory, tmp_path: Path) -> None:
    """The lock of a linked worktree is found in the main repository's git folder, and set aside from there."""
    subprocess.run(["git", "worktree", "add", "-q", str(tmp_path / "w" / "two")], cwd=lab.root, check=True)
    with Laboratory(tmp_path / "w" / "two") as other:
        other.run("init")
        lock = start_editing(other)
        commit_afterwards(other, "m2")
        kill_git_and_keeper(other)
        wait_for(lambda: other.outcomes("m2"), "the next mission has run")

        assert lock.parent == lab.root / ".git/worktrees/two"
        assert other.outcomes("m2") == ["succeeded"]
        assert (other.root / ".kranz/missions/m1/dispatch/001/index.lock").exists()
        tree = other.records("m1")[0].tree
        assert tree is not None
        assert tree.branch == "two"


@pytest.mark.system("git")
def test_b60_a_lock_of_somebody_else_is_waited_for_and_reported(lab: Laboratory) -> None:
    """A git at work outside is never disturbed: no try is used, its age and its holder are named, then all goes on."""
    lab.run("init")
    lock = lab.root / ".git/index.lock"
    holder = lab.start([sys.executable, "-c", f"import time; f = open({str(lock)!r}, 'x'); time.sleep(1000)"])
    wait_for(lock.exists, "the lock is there")
    commit_afterwards(lab, "m1")
    lab.start([sys.executable, "-c", HOURLY, *lab.words("daemon")], env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.2"})
    wait_for(lambda: "nothing is started" in lab.log(), "it says that it waits")
    why = lab.run("why", "m1").stdout
    check = lab.run("check").stdout
    tries = len(lab.records("m1"))
    lab.kill(holder)
    lock.unlink()
    wait_for(lambda: lab.outcomes("m1")[-1:] == ["succeeded"], "it runs at once when the lock is gone")

    assert tries == 1
    assert f"process {holder.pid}" in why
    assert "index.lock is" in why
    assert "no mission can start now: git's" in check
    assert "has it open" in why
    assert set(lab.outcomes("m1")) == {"not started", "succeeded"}


@pytest.mark.system("git")
def test_an_interrupted_run_says_what_it_left_in_the_tree(lab: Laboratory) -> None:
    """Branch, commit and changed files are in the record, in `why` and in `history --json`."""
    (lab.root / "kept").write_text("as it was")
    (lab.root / "changed").write_text("as it was")
    subprocess.run(["sh", "-c", f"git add . && {WHO} commit -qm two"], cwd=lab.root, check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=lab.root, capture_output=True, text=True, check=True)
    lab.enqueue("m1", "/bin/sh", "-c", f"echo half done > changed; touch {lab.notes}/begun; exec sleep 1000")
    daemon = lab.daemon()
    wait_for((lab.notes / "begun").exists, "the mission works")
    lab.run("stop", "--now")
    daemon.wait(30)
    why = lab.run("why", "m1").stdout
    history = lab.run("history", "m1", "--json").stdout

    tree = lab.records("m1")[0].tree
    assert tree is not None
    assert (tree.branch, tree.commit) == ("main", commit.stdout.strip())
    assert tree.changed is not None
    assert (tree.changed.total, tree.changed.names) == (1, ("changed",))
    assert f"left the checkout on branch main at {commit.stdout[:12]}, 1 changed file: changed" in why
    assert '"names": [' in history
    assert lab.is_free()


@pytest.mark.parametrize("kind", ["bare", "bare behind a file", "says so"])
@pytest.mark.system("git")
def test_b57_a_bare_repository_is_refused_with_a_sentence(lab: Laboratory, tmp_path: Path, kind: str) -> None:
    """Where there is no working tree nothing is made, and the message says where to go."""
    place = tmp_path / "place"
    place.mkdir()
    where = {"bare": ".", "bare behind a file": ".bare", "says so": ".git"}[kind]
    subprocess.run(["git", "clone", "-q", "--bare", str(lab.root), where], cwd=place, check=True)
    if kind == "bare behind a file":
        (place / ".git").write_text("gitdir: ./.bare\n")
    done = subprocess.run(
        [*lab.command()[:-1], str(place), "init"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 3
    assert f"{place} is a bare repository" in done.stderr
    assert "worktree" in done.stderr
    assert not (place / ".kranz").exists()


def test_b34_a_checkout_that_is_renamed_while_idle_is_waited_for(lab: Laboratory) -> None:
    """Nothing is made under the old path; one clear line; when it is back, work goes on."""
    lab.run("init")
    daemon = lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.2", "KRANZQ_DAEMON_POLL_SECONDS": "0.2"})
    away = lab.root.with_name("away")
    lab.root.rename(away)
    wait_for(lambda: "is gone or another directory" in lab.log(), "it is noticed")
    passes(lab, 1)
    there = lab.root.exists()
    lines = lab.log().count("is gone or another directory")
    away.rename(lab.root)
    lab.enqueue("m1")
    wait_for(lambda: lab.outcomes("m1"), "work goes on")
    lab.run("stop")

    assert not there
    assert lines == 1
    assert lab.outcomes("m1") == ["succeeded"]
    assert daemon.wait(PATIENCE) == 0


@pytest.mark.crash
@pytest.mark.parametrize("back", ["comes back", "stays away"])
def test_b34_a_checkout_that_is_renamed_during_a_mission_keeps_its_records(lab: Laboratory, back: str) -> None:
    """The run ends with its outcome where the checkout went and is settled there; nothing is made in the old place."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    lab.enqueue("m2")
    lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.2", "KRANZQ_DAEMON_POLL_SECONDS": "0.2"})
    wait_for(lambda: lab.count("start", "m1"), "m1 runs")
    lab.keeper("m1")
    away = lab.root.with_name("away")
    lab.root.rename(away)
    lab.release()
    ended = away / ".kranz/missions/m1/dispatch/001/exit.json"
    wait_for(lambda: (lab.read(ended) or {}).get("survivors") == [], "its end is recorded")
    run = away / ".kranz/missions/m1/dispatch/001/run.json"
    wait_for(lambda: (lab.read(run) or {}).get("outcome") == "succeeded", "and settled, by what was opened before")
    wait_for(lambda: "gone" in lab.log(), "it is noticed")
    passes(lab, 0.5)
    there = lab.root.exists()
    if back == "comes back":
        away.rename(lab.root)
        wait_for(lambda: lab.outcomes("m2"), "work goes on")

    assert not there
    assert lab.count("start", "m1") == 1
    assert lab.count("start", "m2") == (1 if back == "comes back" else 0)
    if back == "comes back":
        lab.run("stop")
        lab.assert_nothing_left()


@pytest.mark.crash
def test_b34_a_kranz_folder_that_is_deleted_during_a_mission_is_named_and_work_goes_on(lab: Laboratory) -> None:
    """The mission ends by itself, the log tells its outcome and what vanished, and a new entry runs."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    lab.enqueue("lost")
    lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.2"})
    wait_for(lambda: lab.count("start", "m1"), "m1 runs")
    keeper = lab.keeper("m1")
    shutil.rmtree(lab.root / ".kranz")
    lab.release()
    wait_for(lambda: not is_alive(keeper), "its keeper leaves")
    wait_for(lambda: "lost" in lab.log(), "what vanished is named")
    lab.enqueue("m2")
    wait_for(lambda: lab.outcomes("m2"), "a new entry runs")

    assert "m1 succeeded" in lab.log()
    assert lab.count("start", "m1") == 1
    assert lab.count("start", "lost") == 0
    assert lab.outcomes("m2") == ["succeeded"]


@pytest.mark.crash
@pytest.mark.system("git")
def test_b57_a_worktree_that_is_removed_during_a_run_ends_it_with_a_reason(lab: Laboratory, tmp_path: Path) -> None:
    """The mission is not run again anywhere, the log tells its outcome, and nothing is made where the worktree was."""
    subprocess.run(["git", "worktree", "add", "-q", str(tmp_path / "w" / "two")], cwd=lab.root, check=True)
    with Laboratory(tmp_path / "w" / "two") as other:
        other.enqueue("m1", *other.alone("m1", 60))
        other.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.2", "KRANZQ_DAEMON_POLL_SECONDS": "0.2"})
        wait_for(lambda: other.count("start", "m1"), "m1 runs")
        other.keeper("m1")
        subprocess.run(["git", "worktree", "remove", "--force", str(other.root)], cwd=lab.root, check=True)
        other.release()
        wait_for(lambda: "m1 succeeded" in other.log() and "is gone" in other.log(), "its end is told")
        passes(other, 0.5)
        there = other.root.exists()
        subprocess.run(["git", "worktree", "add", "-q", "-f", str(other.root), "two"], cwd=lab.root, check=True)
        other.enqueue("m2")
        wait_for(lambda: other.count("end", "m2"), "a worktree that is made again under the same path is served")

        assert not there
        assert other.count("start", "m1") == 1


UNMOUNTED = """
import os, subprocess, sys, time
root, notes, *python = sys.argv[1:]
def sh(*words): subprocess.run(words, check=True)
def kranzq(*words): return subprocess.run([*python, "-C", root, *words], capture_output=True, text=True)
def log(): return open(notes + "/log").read()
def until(condition, what):
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline: raise SystemExit("not in time: " + what + log())
        time.sleep(0.02)
store = notes + "/store"
os.mkdir(store)
sh("mount", "-t", "tmpfs", "none", store)
sh("mount", "--bind", store, root)
sh("git", "init", "-q", root)
assert kranzq("init").returncode == 0
env = os.environ | {"KRANZQ_DAEMON_SCAN_SECONDS": "0.2", "KRANZQ_DAEMON_POLL_SECONDS": "0.2"}
daemon = subprocess.Popen([*python, "-C", root, "daemon"], stdout=open(notes + "/log", "ab"), stderr=2, env=env)
def told(): return open(notes + "/told").read() if os.path.exists(notes + "/told") else ""
def alone(mission):
    return ["enqueue", mission, "--", sys.executable, "-I", "-S", notes + "/alone.py", notes, mission, "0", "0"]
assert kranzq(*alone("m1")).returncode == 0
until(lambda: "end m1" in told(), "m1 has run")
sh("umount", "-l", root)
until(lambda: "gone or another directory" in log(), "it is noticed")
until(lambda: log().count("\\n") > 0, "lines")
made = os.listdir(root)
sh("mount", "--bind", store, root)
assert kranzq(*alone("m2")).returncode == 0
until(lambda: "end m2" in told(), "m2 has run")
assert kranzq("stop").returncode == 0
print("made:", made, "code:", daemon.wait(30))
"""


@pytest.mark.system("git", "unshare", "mount")
def test_b34_a_checkout_that_is_unmounted_is_waited_for(lab: Laboratory, tmp_path: Path) -> None:
    """Nothing is made in the empty mount point; mounted again, work goes on."""
    root = tmp_path / "mounted"
    root.mkdir()
    argv = ["unshare", "-m", sys.executable, "-c", UNMOUNTED, str(root), str(lab.notes), sys.executable, "-m", "kranzq"]
    done = subprocess.run(argv, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=50)
    if done.stderr.startswith("unshare:"):
        pytest.skip(done.stderr)

    assert done.returncode == 0, (done.stderr, lab.log())
    assert done.stdout.strip() == "made: [] code: 0"
