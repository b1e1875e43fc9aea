"""Daemon, drain, stop and recover as an operator meets them: through the real command, with real kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.laboratory import PATIENCE, REPO, Laboratory, is_alive, state_of, wait_for
from tests.trials import are_settled

pytestmark = pytest.mark.slow
ESCAPES = """
sleep 86399.{tag} &
setsid sleep 86398.{tag} &
env -i setsid sh -c 'trap "" TERM; while :; do sleep 86397.{tag}; done' &
echo start >> {notes}/told
[ -e {notes}/release ] || wait
"""


def started(lab: Laboratory, mission: str) -> None:
    """Wait until a mission has told that it runs."""
    wait_for(lambda: lab.count("start", mission), f"{mission} runs: {lab.log()}")


def settled(lab: Laboratory, *missions: str) -> None:
    """Wait until the last run of each mission has ended, its fate was carried out and nothing waits."""
    wait_for(
        lambda: are_settled(lab, *missions) and not lab.entries(),
        f"{missions} are settled: {lab.log()}",
    )


def kill_keeper(lab: Laboratory, mission: str) -> None:
    """SIGKILL the keeper of a running mission."""
    keeper = lab.keeper(mission)
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not is_alive(keeper), "the keeper is gone")


def test_a_restarted_daemon_adopts_the_running_mission_and_settles_it(lab: Laboratory) -> None:
    """A daemon killed while a mission runs costs that mission nothing; the next one waits for it and settles it."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    lab.enqueue("m2")
    first = lab.daemon()
    started(lab, "m1")
    lab.kill(first)
    lab.daemon()
    wait_for(lambda: "m1 runs already" in lab.log(), "it is adopted")
    lab.release()
    settled(lab, "m1", "m2")

    assert lab.told() == ["start m1", "end m1", "start m2", "end m2"]
    assert lab.outcomes("m1") == ["succeeded"]


def test_b01_daemon_and_keeper_killed_together_are_mended_by_the_next_daemon_at_once(lab: Laboratory) -> None:
    """The interrupted mission is back in its order and runs again, with no wait for any age."""
    lab.enqueue("m1", *lab.alone("m1", 60), priority=1)
    first = lab.daemon()
    started(lab, "m1")
    keeper = lab.keeper("m1")
    os.kill(first.pid, signal.SIGKILL)
    os.kill(keeper, signal.SIGKILL)
    first.wait()
    lab.enqueue("m2", priority=2)
    lab.release()
    lab.daemon()
    settled(lab, "m1", "m2")

    assert [line for line in lab.told() if line.startswith("start")] == ["start m1", "start m1", "start m2"]
    assert lab.outcomes("m1") == ["interrupted", "succeeded"]
    assert not [line for line in lab.told() if "overlap" in line]


def test_everything_that_a_killed_mission_started_is_gone_before_it_runs_again(lab: Laboratory) -> None:
    """Processes in sessions of their own and without their environment are found, ended and proven gone."""
    tag = str(os.getpid())
    lab.enqueue("m1", "/bin/sh", "-c", ESCAPES.format(tag=tag, notes=lab.notes))

    def sleepers() -> list[str]:
        return [name for name in os.listdir("/proc") if name.isdigit() and f".{tag}\0" in _cmdline(name)]

    try:
        first = lab.daemon()
        wait_for(lambda: len(sleepers()) >= 3 and lab.told(), "all of it runs, and it has told so")
        keeper = lab.keeper("m1")
        os.kill(first.pid, signal.SIGKILL)
        os.kill(keeper, signal.SIGKILL)
        first.wait()
        lab.release()
        done = lab.run("recover", "--json", seconds=60)
        left = sleepers()
        waiting = lab.names()
        lab.run("drain")
    finally:
        for pid in sleepers():
            os.kill(int(pid), signal.SIGKILL)

    assert left == []
    assert len(json.loads(done.stdout)["ended"]) >= 3
    assert [name for name in waiting if name.endswith("-m1.json")]
    assert lab.told() == ["start", "start"]
    assert lab.outcomes("m1") == ["interrupted", "succeeded"]


def _cmdline(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def test_a_term_to_the_keeper_puts_the_mission_back_uncounted(lab: Laboratory) -> None:
    """Whoever ends the keeper by hand interrupts the mission; it counts as nothing and runs again."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    process = lab.start(lab.command("drain"))
    started(lab, "m1")
    os.kill(lab.keeper("m1"), signal.SIGTERM)
    wait_for(lambda: lab.count("start", "m1") == 2, "it runs again")
    lab.release()

    assert process.wait(PATIENCE) == 0
    assert lab.outcomes("m1") == ["interrupted", "succeeded"]
    assert lab.records("m1")[0].counted is False


@pytest.mark.parametrize("on_stop", ["wait", "leave", "end"])
def test_a_stopped_machine_never_makes_a_mission_failed(lab: Laboratory, on_stop: str) -> None:
    """TERM to daemon, keeper and mission in one instant is an interruption on request, whatever stopping does."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    daemon = lab.daemon("--on-stop", on_stop)
    started(lab, "m1")
    keeper = lab.keeper("m1")
    mission = lab.records("m1")[-1].process
    assert mission is not None
    for pid in (mission[0], daemon.pid, keeper):
        os.kill(pid, signal.SIGTERM)
    daemon.wait(PATIENCE)

    assert daemon.returncode == 0
    assert lab.outcomes("m1") == ["interrupted"]
    assert lab.records("m1")[-1].counted is False
    assert [name for name in lab.names() if name.endswith("-m1.json")]
    lab.release()
    lab.run("drain")
    assert lab.outcomes("m1") == ["interrupted", "succeeded"]


def test_a_mission_survives_the_removal_of_the_installed_package(lab: Laboratory, tmp_path: Path) -> None:
    """An upgrade that removes every file of the package leaves the running mission and its record alone."""
    site = tmp_path / "site"
    shutil.copytree(REPO / "kranzq", site / "kranzq")
    lab.enqueue(
        "m1",
        "/bin/sh",
        "-c",
        f"sleep 300 & echo start m1 >> {lab.notes}/told; until [ -e {lab.notes}/release ]; do sleep 0.05; done; exit 3",
    )
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); import kranzq; from kranzq.__main__ import main; main()"
    daemon = lab.start([sys.executable, "-P", "-c", program, str(site), "-C", str(lab.root), "daemon"])
    started(lab, "m1")
    lab.keeper("m1")
    shutil.rmtree(site)
    lab.release()
    path = lab.root / ".kranz/missions/m1/dispatch/001/exit.json"
    wait_for(lambda: "survivors" in (lab.read(path) or {}), "the end is recorded")
    end = lab.read(path) or {}
    settled(lab, "m1")
    lab.kill(daemon)

    assert (end["exitCode"], end["survivors"]) == (3, [])
    assert lab.outcomes("m1") == ["failed"]


def test_ends_that_nobody_watched_are_settled_by_the_next_drain(lab: Laboratory) -> None:
    """A failure and a timeout that happened without a dispatcher are settled, and neither mission runs again."""
    lab.enqueue("m1", *lab.alone("m1", 60, 3))
    first = lab.daemon()
    started(lab, "m1")
    lab.kill(first)
    lab.release()
    ends = lab.root / ".kranz/missions"
    wait_for((ends / "m1/dispatch/001/exit.json").exists, "m1 has ended")
    lab.run("drain", code=0)
    (lab.notes / "release").unlink()
    lab.enqueue("m2", *lab.alone("m2", 60), timeout_seconds=3.0)
    second = lab.daemon()
    started(lab, "m2")
    lab.kill(second)
    wait_for((ends / "m2/dispatch/001/exit.json").exists, "m2 has ended")
    wait_for(lab.is_free, "its keeper has left")
    lab.run("drain", code=0)

    assert lab.outcomes("m1") == ["failed"]
    assert lab.outcomes("m2") == ["timed out"]
    assert (lab.count("start", "m1"), lab.count("start", "m2")) == (1, 1)
    lab.assert_nothing_left()


@pytest.mark.system("git")
@pytest.mark.parametrize("verb", ["drain", "daemon"])
def test_a_mission_that_cleans_the_checkout_stays_alone_in_it(lab: Laboratory, verb: str) -> None:
    """`git clean -fdx` in a mission removes queue and lock file; what is enqueued then begins only after its end."""
    wait = f"until [ -e {lab.notes}/release ]; do sleep 0.02; done"
    script = f"git clean -qfdx; echo start m1 >> {lab.notes}/told; {wait}; echo end m1 >> {lab.notes}/told; exit 3"
    lab.enqueue("m1", "/bin/sh", "-c", script)
    process = lab.start(lab.command(verb))
    started(lab, "m1")
    lab.enqueue("m2")
    other = lab.start(lab.command("drain"))
    once = lab.run("drain", "--once", code=None)
    lab.release()
    wait_for(lambda: lab.count("end", "m2"), f"m2 has run: {lab.log()}")
    if verb == "daemon":
        wait_for(lambda: not lab.entries(), "all is settled")
        process.send_signal(signal.SIGTERM)

    assert once.returncode == 4
    assert process.wait(PATIENCE) == (0 if verb == "daemon" else 1)
    assert other.wait(PATIENCE) == 0
    assert lab.told() == ["start m1", "end m1", "start m2", "end m2"]
    assert "m1 failed" in lab.log()
    lab.assert_nothing_left()


def test_b09_a_zombie_is_dead_for_claims_and_its_own_mission(lab: Laboratory) -> None:
    """A claimant that nobody buried is gone at once, and a mission is over when its own process is a zombie."""
    lab.enqueue("m1")
    program = "import os, sys, time; pid = os.fork(); pid or os._exit(0); print(pid, flush=True); time.sleep(300)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        zombie = int(parent.stdout.readline())
        wait_for(lambda: state_of(zombie) == "Z", "it is a zombie")
        name = lab.entries()[-1]
        os.rename(lab.queue / name, lab.queue / f"{name}.claimed.{zombie}.{'a' * 16}")
        found = json.loads(lab.run("recover", "--json").stdout)["claims"]
        parent.kill()
    lab.run("drain")

    assert [(one["verdict"], "zombie" in one["evidence"]) for one in found] == [("gone", True)]
    assert lab.told() == ["start m1", "end m1"]


@pytest.mark.parametrize("stopped", [False, True], ids=["running", "stopped"])
def test_b15_a_mission_that_ignores_term_is_never_joined_by_a_second_one(lab: Laboratory, *, stopped: bool) -> None:
    """Whatever state the mission is in, a new daemon waits for it or proves it gone; there are never two writers."""
    wait = f"until [ -e {lab.notes}/release ]; do sleep 0.02; done"
    script = f"trap '' TERM; echo start m1 >> {lab.notes}/told; {wait}; echo end m1 >> {lab.notes}/told"
    lab.enqueue("m1", "/bin/sh", "-c", script)
    lab.enqueue("m2")
    first = lab.daemon()
    started(lab, "m1")
    lab.keeper("m1")
    process = lab.records("m1")[-1].process
    assert process is not None
    if stopped:
        os.kill(process[0], signal.SIGSTOP)
    lab.kill(first)
    lab.daemon()
    wait_for(lambda: "m1 runs already" in lab.log(), "it is adopted")
    early = lab.told()
    if stopped:
        os.kill(process[0], signal.SIGCONT)
    lab.release()
    settled(lab, "m1", "m2")

    assert early == ["start m1"]
    assert lab.told() == ["start m1", "end m1", "start m2", "end m2"]


@pytest.mark.parametrize("how", ["cancel", "timeout", "stop"])
def test_b17_the_whole_tree_of_a_mission_ends_with_it(lab: Laboratory, how: str) -> None:
    """Cancelled, timed out or stopped: what a shell's child started and what traps TERM is gone before it is said."""
    inner = (
        "import signal, subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN); subprocess.run(['sleep', '1000'])"
    )
    script = f'{sys.executable} -c "{inner}" & (setsid sleep 1001 &) ; echo start m1 >> {lab.notes}/told; wait'
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"
    config.mkdir(parents=True)
    (config / "config.toml").write_text("[mission]\ngrace_seconds = 0.5\n")
    lab.enqueue("m1", "/bin/sh", "-c", script, timeout_seconds=4.0 if how == "timeout" else None)
    daemon = lab.daemon()
    started(lab, "m1")
    lab.keeper("m1")
    if how == "cancel":
        lab.run("cancel", "m1", "--wait")
    elif how == "stop":
        lab.run("stop", "--now")
    else:
        wait_for(lambda: lab.outcomes("m1"), "it has timed out")
    wait_for(lambda: lab.outcomes("m1"), "its end is recorded")
    tree = [line for line in lab.processes().values() if "sleep 100" in line or "signal.SIG_IGN" in line]
    lab.kill(daemon)

    assert tree == []
    assert lab.outcomes("m1") == [{"cancel": "cancelled", "timeout": "timed out", "stop": "interrupted"}[how]]


def test_b19_a_background_child_with_the_output_does_not_hold_up_the_end(lab: Laboratory) -> None:
    """Much output, a closed output and a child that keeps it: the run ends with its own process."""
    lab.enqueue("m1", "/bin/sh", "-c", "echo ok; sleep 300 & exit 0")
    lab.enqueue("m2", "/bin/sh", "-c", "head -c 20000000 /dev/zero >&2")
    lab.enqueue("m3", "/bin/sh", "-c", f"exec >&- 2>&-; sleep 0.3; echo end m3 >> {lab.notes}/told")
    lab.run("drain")

    assert [lab.outcomes(one) for one in ("m1", "m2", "m3")] == [["succeeded"]] * 3
    runs = lab.root / ".kranz/missions"
    assert (runs / "m1/dispatch/001/output.log").read_bytes() == b"ok\n"
    assert (runs / "m2/dispatch/001/output.log").stat().st_size == 20_000_000
    assert lab.told() == ["end m3"]


def test_b24_bytes_that_are_no_text_are_kept_and_shown(lab: Laboratory) -> None:
    """Output is kept byte for byte, the run has its real exit code, and viewers stay whole."""
    octal = r"\377\376\200\000\n\360\237x\n"
    lab.enqueue("m1", "/bin/sh", "-c", f"printf '{octal}'; head -c 3000000 /dev/zero | tr '\\0' x; exit 7")
    lab.run("drain", code=1)
    output = (lab.root / ".kranz/missions/m1/dispatch/001/output.log").read_bytes()
    shown = subprocess.run(lab.command("logs", "m1"), cwd=REPO, capture_output=True, check=False, timeout=PATIENCE)
    runs = json.loads(lab.run("history", "--json").stdout)["runs"]

    assert output.startswith(b"\xff\xfe\x80\0\n\xf0\x9fx\n")
    assert len(output) == 3_000_009
    assert shown.returncode == 0
    assert [(one["outcome"], one["exitCode"]) for one in runs] == [("failed", 7)]
