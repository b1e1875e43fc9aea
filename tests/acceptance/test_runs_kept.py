"""What is kept of runs, and what a daemon says and writes over time: bounded output, retention, a quiet log."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import gone_pid
from tests.laboratory import Laboratory, laboratory, wait_for

pytestmark = pytest.mark.slow
MIB = 1 << 20
FLOOD = "import os\nfor at in range(40): os.write(1, b'%07d\\n' % at * 131072)"


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A laboratory in a git repository."""
    with laboratory(checkout) as one:
        yield one


def passes(seconds: float) -> None:
    """Let time pass in which something must not happen."""
    until = time.monotonic() + seconds
    wait_for(lambda: time.monotonic() > until, "time passes", seconds=seconds + 5)


def test_b25_output_over_the_cap_is_shown_with_one_line_for_the_gap(lab: Laboratory) -> None:
    """Beginning and end of a flood can be read, the middle takes no disk, and the tail is whole."""
    lab.enqueue("m1", sys.executable, "-I", "-S", "-c", FLOOD)
    lab.run("drain", env={"KRANZQ_MISSION_OUTPUT_CAP": "4MiB"})
    output = lab.root / ".kranz/missions/m1/dispatch/001/output.log"
    shown = lab.run("logs", "m1")
    tail = lab.run("logs", "m1", "--tail", "2").stdout

    assert output.stat().st_size == 40 * MIB
    assert output.stat().st_blocks * 512 < 5 * MIB
    assert shown.stdout.startswith("0000000\n" * 3)
    assert shown.stdout.endswith("0000039\n" * 3)
    assert "\0" not in shown.stdout
    assert len(shown.stdout) < 5 * MIB
    assert tail == "0000039\n" * 2


def test_b25_a_daemon_with_nothing_to_say_says_nothing(lab: Laboratory) -> None:
    """Two hundred entries that are not due and one that cannot be read: however often it looks, each is named once."""
    lab.enqueue("m0")
    first = lab.queue / lab.names()[0]
    (lab.queue / "waiting").mkdir()
    due = int((time.time() + 3600) * 1000)
    for at in range(200):
        name = f"002-{at + 100:020d}-n{at}.json"
        (lab.queue / "waiting" / f"{due}.{name}").write_bytes(first.read_bytes().replace(b"m0", f"n{at}".encode()))
    (lab.queue / "001-00000000000000000001-bad.json").write_text("{")
    lab.daemon(env={"KRANZQ_DAEMON_SCAN_SECONDS": "0.02"})
    for said in ("m0 succeeded", "set aside", "nothing more may run now"):
        wait_for(lambda what=said: what in lab.log(), f"all is said that there is to say: {said}")  # type: ignore[misc]
    before = lab.log()
    passes(3)  # a hundred looks and more

    assert lab.log() == before
    assert len(before.splitlines()) < 12


def test_old_runs_and_leavings_go_while_the_daemon_runs(lab: Laboratory) -> None:
    """At its start a daemon removes what is over: surplus runs, old quarantined files, files of killed writers."""
    for at in range(4):
        lab.enqueue("m1", *lab.alone("m1", 0, 1))
        lab.run("drain", code=1, env={"KRANZQ_RETENTION_RUNS_PER_MISSION": "100"} if at else None)
    left = lab.queue / f".002-00000000000000000009-m9.json.{gone_pid()}.0.tmp"
    left.write_text("half")
    os.utime(left, (1, 1))
    (lab.queue / "bad.json").write_text("{")
    dispatch = lab.root / ".kranz/missions/m1/dispatch"
    daemon = lab.daemon(env={"KRANZQ_RETENTION_RUNS_PER_MISSION": "2"})
    wait_for(lambda: sorted(os.listdir(dispatch)) == ["003", "004"], "old runs are gone")
    wait_for(lambda: "swept: 2 old runs" in lab.log(), "it says so")
    lab.kill(daemon)

    assert len(lab.records("m1")) == 2
    assert "swept: 2 old runs" in lab.log()


def test_recover_sweeps_too_and_a_dry_run_does_not(lab: Laboratory) -> None:
    """The command does what the daemon does; `--dry-run` removes nothing."""
    for _ in range(3):
        lab.enqueue("m1", *lab.alone("m1", 0, 1))
        lab.run("drain", code=1)
    env = {"KRANZQ_RETENTION_RUNS_PER_MISSION": "1"}
    dispatch = lab.root / ".kranz/missions/m1/dispatch"
    lab.run("recover", "--dry-run", env=env)
    before = sorted(os.listdir(dispatch))
    lab.run("recover", env=env)

    assert before == ["001", "002", "003"]
    assert os.listdir(dispatch) == ["003"]


def test_tries_are_counted_though_old_runs_go(lab: Laboratory) -> None:
    """Runs of an entry that is still in the queue are kept: a mission cannot outlive its limits by their removal."""
    lab.enqueue("m1", *lab.alone("m1", 0, 1), retries=9)
    lab.run("drain", code=None)
    dispatch = lab.root / ".kranz/missions/m1/dispatch"
    for run in ("002", "003", "004"):
        shutil.copytree(dispatch / "001", dispatch / run)
        record = (dispatch / run / "run.json").read_text()
        (dispatch / run / "run.json").write_text(record.replace('"run": 1', f'"run": {int(run)}'))
    env = {"KRANZQ_RETENTION_RUNS_PER_MISSION": "1"}
    lab.run("recover", env=env)
    waiting = lab.outcomes("m1")
    lab.run("cancel", "m1")
    lab.run("recover", env=env)

    assert waiting == ["failed"] * 4
    assert lab.outcomes("m1") == ["cancelled"]


def test_b56_markers_of_sessions_hooks_and_virtualenvs_do_not_reach_a_mission(lab: Laboratory) -> None:
    """A mission is no inner session of whoever started the daemon, and its commits bear their own time."""
    lab.enqueue("m1", "/bin/sh", "-c", f"env > {lab.notes}/env")
    env = {
        "CLAUDECODE": "1",
        "CODEX_SANDBOX": "x",
        "GEMINI_CLI": "1",
        "VIRTUAL_ENV": "/somewhere",
        "GIT_AUTHOR_DATE": "@1 +0000",
        "GIT_CONFIG_PARAMETERS": "'core.bare=true'",
        "GIT_AUTHOR_NAME": "A Robot",
        "SSH_AUTH_SOCK": "/kept",
    }
    lab.run("drain", env=env)
    seen = dict(line.split("=", 1) for line in (lab.notes / "env").read_text().splitlines() if "=" in line)

    assert {name: text for name, text in seen.items() if name in env} == {
        "GIT_AUTHOR_NAME": "A Robot",
        "SSH_AUTH_SOCK": "/kept",
    }
    assert seen["PATH"] == os.environ["PATH"]


def test_status_warns_as_the_settings_say(lab: Laboratory) -> None:
    """From when on a run is long, or silent for long, is a setting."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    lab.daemon()
    wait_for(lambda: lab.count("start", "m1"), "it runs")
    lab.keeper("m1")
    quiet = lab.run("status").stdout
    env = {"KRANZQ_STATUS_LONG_RUN": "0.001s", "KRANZQ_STATUS_LONG_SILENCE": "0.001s"}
    loud = lab.run("status", env=env).stdout

    assert "has run for more than" not in quiet
    assert "m1 has run for more than" in loud
    assert "m1 has said nothing for" in loud
