"""The looking verbs as a person and a program meet them: real commands, real missions, nothing written."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.liveness import start_ticks
from tests.laboratory import Laboratory, wait_for

ROOT = Path(__file__).resolve().parents[2]
WRITES = "creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,truncate,rmdir"
TOUCHES = "chmod,fchmodat,chown,fchownat,lchown,utimensat,utime,utimes,mknod,mknodat,setxattr,fsetxattr,flock"
PATIENCE = 30.0
IN_FIRST_NAMESPACE = Path("/proc/self/ns/pid").stat().st_ino == 0xEFFFFFFC


def argv(root: Path, *words: str) -> list[str]:
    """The words that run the real program."""
    return [sys.executable, "-m", "kranzq", "-C", str(root), *words]


def run(root: Path, *words: str, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[bytes]:
    """Run a verb to its end."""
    return subprocess.run(
        [*before, *argv(root, *words)], cwd=ROOT, capture_output=True, check=False, timeout=60, stdin=subprocess.DEVNULL
    )


def told(root: Path, *words: str) -> Any:
    """What a verb tells programs."""
    return json.loads(run(root, *words, "--json").stdout)


def until(condition: Callable[[], object], what: str) -> None:
    """Poll until the condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
def drain(checkout: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start `kranzq drain`; all that it leaves is ended afterwards, the keeper first by its mission's wish."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            argv(checkout, "drain"),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
    for record in (checkout / ".kranz/missions").glob("*/dispatch/*/run.json"):
        value = json.loads(record.read_bytes())
        for who in (value["keeper"], value["process"]):
            if who is not None and start_ticks(who["pid"]) == who["startTicks"]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(who["pid"], signal.SIGKILL)


def runs(root: Path) -> bool:
    """Whether a mission runs and has said something."""
    busy = told(root, "status")["busy"]
    return busy is not None and busy["lastOutput"] is not None


def test_a_running_mission_is_seen_by_every_verb(checkout: Path, drain: Callable[[], subprocess.Popen[bytes]]) -> None:
    """Who runs, since when, in which run, who waits for it, and what it said."""
    run(checkout, "enqueue", "first", "--", "sh", "-c", "echo hello; exec sleep 60")
    run(checkout, "enqueue", "second", "--", "true")
    drain()
    until(lambda: runs(checkout), "the mission runs")

    busy = told(checkout, "status")["busy"]
    (claim,) = told(checkout, "status")["claims"]
    states = [(one["mission"], one["state"]) for one in told(checkout, "list")["entries"]]
    waits = {one["reason"]: one["text"] for one in told(checkout, "why", "second")["reasons"]}

    assert (busy["mission"], busy["run"], busy["leftovers"]) == ("first", 1, [])
    assert (claim["mission"], claim["verdict"]) == ("first", "alive")
    assert states == [("first", "claimed"), ("second", "queued")]
    assert waits["busy"].startswith("busy with first since ")
    assert told(checkout, "why", "first")["reasons"][0]["reason"] == "running"
    assert run(checkout, "logs", "first").stdout == b"hello\n"
    assert run(checkout, "wait", "first", "--timeout", "0.2s").returncode == 75
    assert run(checkout, "history").stdout == b"Nothing has run yet.\n"


def test_whoever_comes_after_a_crash_sees_it(checkout: Path, drain: Callable[[], subprocess.Popen[bytes]]) -> None:
    """Keeper and dispatcher killed: the follower leaves, the leftovers and the gone holder are named, with the cure."""
    run(checkout, "enqueue", "m-1", "--", "sh", "-c", "echo hello; exec sleep 60")
    dispatcher = drain()
    until(lambda: runs(checkout), "the mission runs")
    follower = subprocess.Popen(argv(checkout, "logs", "-f", "m-1"), cwd=ROOT, stdout=subprocess.PIPE)
    dispatcher.kill()
    dispatcher.wait()
    os.kill(told(checkout, "status")["busy"]["pid"], signal.SIGKILL)

    out, _ = follower.communicate(timeout=PATIENCE)
    assert out == b"hello\n"
    until(lambda: told(checkout, "status")["claims"][0]["verdict"] == "gone", "the keeper is gone")
    shown = run(checkout, "status").stdout.decode()
    assert told(checkout, "status")["busy"]["leftovers"]
    assert "leftovers of a killed keeper" in shown
    assert "kranzq recover" in shown
    assert told(checkout, "why", "m-1")["reasons"][0]["reason"] == "holder gone"


def test_an_ended_mission_is_told_by_history_and_wait(
    checkout: Path, drain: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """Exit codes say how it ended; the record stays after the entry is gone."""
    for mission, code in (("good", 0), ("bad", 3)):
        run(checkout, "enqueue", mission, "--", "sh", "-c", f"echo {mission}; exit {code}")
    drain().wait(PATIENCE)

    found = told(checkout, "history")["runs"]
    assert [(one["mission"], one["outcome"], one["fate"], one["exitCode"]) for one in found] == [
        ("good", "succeeded", "retire", 0),
        ("bad", "failed", "retire", 3),
    ]
    assert told(checkout, "history", "--last", "1")["runs"] == found[1:]
    first = ["mission", "run", "outcome", "fate", "exitCode", "signal", "startedAt", "endedAt"]
    assert list(found[0]) == [*first, "tree", "kranzStatus", "reason"]
    assert run(checkout, "wait", "good").returncode == 0
    assert run(checkout, "wait", "bad").returncode == 1
    assert told(checkout, "why", "bad")["state"] == "gone"


def test_a_wait_inside_a_mission_refuses(checkout: Path, drain: Callable[[], subprocess.Popen[bytes]]) -> None:
    """A mission that waited for itself would wait for ever; looking is allowed."""
    program = " ".join(argv(checkout))
    run(checkout, "enqueue", "m-1", "--", "sh", "-c", f"cd {ROOT}; {program} wait m-1; echo $?; {program} why m-1")
    drain().wait(PATIENCE)

    lines = run(checkout, "logs", "m-1").stdout.decode().splitlines()
    assert "4" in lines
    assert "m-1 is claimed" in lines


def test_output_that_is_no_text_is_kept_and_shown_safely(
    checkout: Path, drain: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """To a file byte by byte, to a terminal escaped; the exit code of the mission is its own."""
    run(checkout, "enqueue", "m-1", "--", "printf", r"\377\000a\033[31mb\n")
    drain().wait(PATIENCE)
    ours, its = pty.openpty()
    subprocess.run(argv(checkout, "logs", "m-1"), cwd=ROOT, stdout=its, check=True, timeout=60)
    os.close(its)

    shown = b""
    with contextlib.suppress(OSError):  # nobody has its other end any more
        while part := os.read(ours, 4096):
            shown += part
    os.close(ours)
    assert shown == "\N{REPLACEMENT CHARACTER}\\x00a\\x1b[31mb\r\n".encode()
    assert run(checkout, "logs", "m-1").stdout == b"\xff\0a\x1b[31mb\n"
    assert told(checkout, "history")["runs"][0]["outcome"] == "succeeded"


def test_a_daemon_is_seen_while_it_lives(checkout: Path) -> None:
    """Who it is, since when and how it watches; after a kill its record alone is no daemon."""
    run(checkout, "init")
    with subprocess.Popen(
        argv(checkout, "daemon"),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as daemon:
        try:
            until(lambda: told(checkout, "status")["daemon"], "the daemon is seen")
            seen = told(checkout, "status")["daemon"]
        finally:
            daemon.kill()

    assert list(seen) == ["pid", "since", "watching", "lastScan", "version"]
    assert seen["pid"] == daemon.pid
    assert all(seen.values())
    assert told(checkout, "status")["daemon"] is None


@pytest.mark.system("unshare")
@pytest.mark.skipif(os.geteuid() != 0 or not IN_FIRST_NAMESPACE, reason="needs root and the first pid namespace")
def test_a_daemon_of_another_pid_namespace_is_not_judged_by_its_numbers(checkout: Path) -> None:
    """A container's mission is shown as running, without tales about processes that only share its numbers."""
    run(checkout, "enqueue", "m-1", "--", "sh", "-c", "echo hello; exec sleep 60")
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *argv(checkout, "daemon")]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as container:
        try:
            until(lambda: runs(checkout), "the mission runs")
            outside = told(checkout, "status")
            elsewhere = run(checkout, "status", before=("unshare", "--pid", "--fork", "--mount-proc")).stdout.decode()
        finally:
            container.kill()
    until(lambda: told(checkout, "status")["busy"] is None, "all of the container is gone")
    after = told(checkout, "status")

    assert (outside["busy"]["mission"], outside["busy"]["run"]) == ("m-1", 1)
    assert [claim["verdict"] for claim in outside["claims"]] == ["alive"]
    assert "runs     m-1, run 1" in elsewhere
    assert "cannot record" not in elsewhere
    assert after["daemon"] is None
    assert [claim["verdict"] for claim in after["claims"]] == ["gone"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(checkout: Path, shell: str) -> None:
    """One variable prints what a shell needs to complete verbs and missions."""
    done = subprocess.run(
        argv(checkout)[:-2],
        cwd=ROOT,
        env=os.environ | {"_KRANZQ_COMPLETE": f"{shell}_source"},
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert done.returncode == 0
    assert b"_KRANZQ_COMPLETE" in done.stdout


@pytest.mark.system("strace")
@pytest.mark.parametrize(
    "words", [("list",), ("list", "--all"), ("status",), ("why", "queued"), ("history",), ("logs", "done"), ("check",)]
)
def test_looking_writes_nothing(
    checkout: Path, tmp_path: Path, isolated: Path, drain: Callable[[], subprocess.Popen[bytes]], words: tuple[str, ...]
) -> None:
    """No system call of a looking verb could change anything in the checkout or in the user's state."""
    run(checkout, "enqueue", "done", "--", "echo", "hello")
    drain().wait(PATIENCE)
    run(checkout, "enqueue", "queued", "--", "true")
    (checkout / ".kranz/queue/bad.json").write_text("{")
    (checkout / ".kranz/queue/002-00000000000000000009-gone.json.claimed.4194303").write_text("{")
    trace = tmp_path / "trace"
    before = snapshot(checkout, isolated)

    # Python is told not to keep what it compiled: that is not the verb's doing
    strace = (
        "env",
        "PYTHONDONTWRITEBYTECODE=1",
        "strace",
        "-f",
        "-o",
        str(trace),
        "-e",
        f"trace=openat,open,{WRITES},{TOUCHES}",
    )
    done = run(checkout, *words, before=strace)

    calls = [line for line in trace.read_text(errors="replace").splitlines() if re.search(r"^\d+ +\w+\(", line)]
    opened = [line for line in calls if re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)", line)]
    changing = [line for line in calls if not re.search(r"^\d+ +open(at)?\(", line)]
    assert done.returncode == 0, done.stderr
    assert [line for line in opened if "/dev/" not in line] == []
    assert changing == []
    assert snapshot(checkout, isolated) == before


def snapshot(*roots: Path) -> list[tuple[str, int, int]]:
    """Every file below the roots with the times of its last change."""
    return sorted(
        (str(path), path.lstat().st_mtime_ns, path.lstat().st_ctime_ns) for root in roots for path in root.rglob("*")
    )


def test_a_mission_that_no_dispatcher_waits_for_is_named(lab: Laboratory) -> None:
    """It goes on, and `status` says what to type; while a drain waits for it there is nothing to do."""
    lab.enqueue("m1", *lab.alone("m1", seconds=600))
    drain = lab.start(lab.command("drain"))
    wait_for(lambda: lab.count("start", "m1"), "the mission runs")
    assert "no dispatcher waits" not in lab.run("status").stdout

    drain.kill()
    drain.wait()

    said = lab.run("status").stdout
    assert "mission m1 goes on without a dispatcher" in said
    assert "Type: kranzq daemon" in said
    lab.release()
    lab.run("drain")
    assert lab.outcomes("m1") == ["succeeded"]
