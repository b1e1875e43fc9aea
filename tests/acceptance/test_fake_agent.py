"""The worst of agents, one after another: how their runs end, what becomes of their entries, and what is left of them.

Each trial is a real mission under a real dispatcher in a real git repository. The expectations are the table in
`docs/reference/states.md`, written out by hand. `python -m tests.fake_agent_log` prints what each trial came to.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kranzq.model.clock import seconds_of
from kranzq.model.outcome import Rotate
from tests.hurried import BACKOFF_FIRST_S, BACKOFF_MOST_S
from tests.laboratory import PATIENCE, REPO, Laboratory, is_alive, state_of, wait_for
from tests.trials import (
    Trial,
    agent,
    approve,
    are_settled,
    assert_ended,
    assert_free,
    await_place,
    children,
    hurried,
    is_at,
    place_of,
    spans,
    table,
    tried,
    typed,
    wait_in,
)

pytestmark = [pytest.mark.slow, pytest.mark.system("git"), pytest.mark.timeout(120)]
LOG = os.environ.get("KRANZQ_AGENT_LOG")  # read here, for each test has an environment of its own
GRACE = {"KRANZQ_MISSION_GRACE_SECONDS": "0.2"}
"""For those that do nothing with theirs. Whoever ends in order within it has the usual one, on a busy machine."""
CAP = 64 * 1024
FAMILY = ("fork=2", "daemonize", "clear-environment", "close-descriptors", "vanish")


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A checkout with one tracked file."""
    (checkout / "kept").write_text("as it was\n")
    git(checkout, "add", "kept")
    git(checkout, "commit", "-q", "-m", "a file")
    with Laboratory(checkout) as one:
        yield one


def git(root: Path, *words: str) -> str:
    """What a git command prints."""
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgSign=false")
    return subprocess.run(["git", *who, *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def came_to(
    lab: Laboratory,
    mission: str,
    outcomes: Sequence[str],
    fates: Sequence[str],
    *,
    exits: Sequence[object],
    place: str = "gone",
    why: str,
    starts: int | None = None,
) -> Trial:
    """Assert all that an operator can see of a mission's runs, and note it."""
    trial = tried(lab, mission)
    assert (trial.outcomes, trial.fates, trial.exits) == (list(outcomes), list(fates), list(exits)), trial
    assert (trial.place, trial.starts) == (place, len(outcomes) if starts is None else starts), trial
    assert why in trial.why, trial.why
    assert len({record.entry.id for record in lab.records(mission)}) == 1
    if trial.end is not None:  # of a killed keeper there is none
        last = trial.runs[-1]
        recorded = (trial.end["exitCode"], trial.end["signal"], trial.end["survivors"])
        assert recorded == (last["exitCode"], last["signal"], []), trial.end
        assert trial.end["started"] is True
    assert (trial.end is None) == (trial.outcomes[-1] in {"interrupted", "not started"}), trial
    assert_ended(lab, mission)
    if LOG is not None:
        behaviour = " ".join(lab.records(mission)[-1].command[6:]) or "(none)"
        with open(LOG, "a", encoding="utf-8") as file:
            cells = (mission, behaviour, spans(trial.outcomes), spans(trial.fates), trial.place, trial.why)
            file.write("\t".join(cells) + "\n")
    return trial


BY_THEMSELVES: dict[str, tuple[tuple[str, ...], str, int]] = {
    "obeys": ((), "succeeded", 0),
    "fails": (("exit=3",), "failed", 3),
    "dies-by-a-signal": ((f"signal={signal.SIGUSR1.value}",), "failed", -signal.SIGUSR1),
    "becomes-another-program": (("exec=echo another; exit 7",), "failed", 7),
    "closes-its-streams": (("close-streams",), "succeeded", 0),
    "floods-output": (("flood=1000000",), "succeeded", 0),
    "forks": (("fork=3",), "succeeded", 0),
    "forks-the-deaf": (("ignore-term", "fork=2", "daemonize"), "succeeded", 0),
    "daemonizes": (("daemonize",), "succeeded", 0),
    "clears-its-environment": (("clear-environment",), "succeeded", 0),
    "closes-descriptors": (("close-descriptors",), "succeeded", 0),
    "clears-and-closes-all": (("vanish",), "succeeded", 0),
    "storms": (("storm=300",), "succeeded", 0),
    "commits": (("commit=work",), "succeeded", 0),
}


def test_agents_that_end_by_themselves(lab: Laboratory) -> None:
    """Exit 0 is succeeded and anything else failed; both retire, and whatever was left behind is gone before the next.

    No keeper was killed, so nothing escapes it: what it started comes back to it, without environment and lock, too.
    """
    for mission, (behaviours, _, _) in BY_THEMSELVES.items():
        approve(lab, mission, *behaviours)
    lab.enqueue("cannot-start", "/no/such/program")
    lab.run("drain", code=1, env=GRACE | {"KRANZQ_MISSION_OUTPUT_CAP": f"{CAP}"}, seconds=110)

    for mission, (_, outcome, code) in BY_THEMSELVES.items():
        how = {"succeeded": "", "failed": f", exit code {code}" if code > 0 else f", killed by signal {-code}"}[outcome]
        trial = came_to(
            lab,
            mission,
            [outcome],
            ["retire"],
            exits=[code],
            why=f"run 1 ended at {ended(lab, mission)}: {outcome}{how}",
        )
        assert ("left the checkout" in trial.why) == (code < 0)
    came_to(
        lab,
        "cannot-start",
        ["not started"],
        ["park"],
        exits=[None],
        place="parked",
        why="cannot-start is parked | parked: command '/no/such/program' was not found, or is not executable",
        starts=0,
    )
    left = {mission: {kind: len(pids) for kind, pids in children(lab, mission).items()} for mission in BY_THEMSELVES}
    assert {mission: kinds for mission, kinds in left.items() if kinds} == {
        "forks": {"fork": 3},
        "forks-the-deaf": {"fork": 2, "daemonize": 1},
        "daemonizes": {"daemonize": 1},
        "clears-its-environment": {"clear-environment": 1},
        "closes-descriptors": {"close-descriptors": 1},
        "clears-and-closes-all": {"vanish": 1},
    }
    assert [line.split()[1] for line in lab.told() if line.startswith("start")] == list(BY_THEMSELVES)
    assert_flood_is_bounded(lab)
    assert git(lab.root, "log", "-1", "--format=%s", "--", "work") == "commits: work"
    assert_free(lab)
    assert lab.entries() == [name for name in lab.names("parked") if name.endswith("-cannot-start.json")]
    assert lab.processes() == {}


def ended(lab: Laboratory, mission: str) -> str:
    """The local time of a mission's last end, as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds_of(lab.records(mission)[-1].ended_at)))


def assert_flood_is_bounded(lab: Laboratory) -> None:
    """Head and tail are kept, the middle takes no space, and `logs` says how much is left out."""
    file = lab.root / ".kranz/missions/floods-output/dispatch/001/output.log"
    shown = subprocess.run(lab.command("logs", "floods-output"), cwd=REPO, capture_output=True, check=True).stdout
    lines = shown.decode().splitlines()
    gap = [line for line in lines if line.startswith("… ")]

    assert file.stat().st_size > 1_000_000
    assert file.stat().st_blocks * 512 <= CAP + 2 * 4096
    assert (lines[0], lines[-1]) == ("the first line", "the last line")
    assert len(gap) == 1
    assert gap[0].endswith(" bytes left out …")
    assert len(shown) <= CAP + 2 * 4096


def test_agents_that_are_cancelled(lab: Laboratory) -> None:
    """Whatever an agent makes of a TERM, `cancel` ends it with all it started; the outcome is *cancelled*."""
    in_order: dict[str, tuple[tuple[str, ...], int]] = {
        "hangs": (("hang",), -signal.SIGTERM),
        "traps-term-and-exits-143": (("trap-term=143", "hang"), 143),
        "traps-term-and-exits-0": (("trap-term=0", "hang"), 0),
    }
    deaf: dict[str, tuple[tuple[str, ...], int]] = {
        "ignores-term": (("ignore-term", "hang"), -signal.SIGKILL),
        "ignores-term-with-all-its-family": (("ignore-term", *FAMILY, "hang"), -signal.SIGKILL),
        "stops-itself": (("stop",), -signal.SIGKILL),
        "leaves-git-locked": (("leave-index-lock=kept", "ignore-term", "hang"), -signal.SIGKILL),
    }
    warned = ""
    for agents, grace in ((in_order, {}), (deaf, GRACE)):
        for mission, (behaviours, _) in agents.items():
            approve(lab, mission, *behaviours)
        if agents is deaf:
            approve(lab, "works-afterwards", "commit=after")
        daemon = lab.daemon(env=grace)
        for mission, (behaviours, _) in agents.items():
            await_place(lab, mission, behaviours[-1])
            if mission == "hangs":
                warned = silent(lab)
            if mission == "stops-itself":
                wait_for(lambda: "T" in states(lab, "stops-itself"), "it has stopped itself")
            assert place_of(lab, mission) == "claimed"
            done = json.loads(lab.run("cancel", mission, "--wait", "--json", "--why", "enough").stdout)
            assert (done["result"], done["outcome"]) == ("cancelled", "cancelled")
        if agents is deaf:
            wait_in(lab, lambda: are_settled(lab, "works-afterwards"), "the last one is settled")
        assert_stops(lab, daemon)

    assert "mission hangs has said nothing for" in warned
    assert "kranzq cancel hangs" in warned
    for mission, (_, code) in (in_order | deaf).items():
        trial = came_to(
            lab, mission, ["cancelled"], ["retire"], exits=[code], why="cancelled, Its end was wished: cancel"
        )
        assert trial.end is not None
        assert (trial.end["why"], trial.end["wish"]["why"]) == ("cancel", "enough")
        assert "left the checkout on branch main at" in trial.why
    came_to(lab, "works-afterwards", ["succeeded"], ["retire"], exits=[0], why="succeeded")
    moved = lab.root / ".kranz/missions/leaves-git-locked/dispatch/001/index.lock"
    assert f"1 changed file: kept; a lock of a killed git was moved to {moved}" in tried(lab, "leaves-git-locked").why
    assert moved.exists()


def states(lab: Laboratory, mission: str) -> list[str | None]:
    """The state of a mission's own process, once it is known."""
    return [state_of(record.process[0]) for record in lab.records(mission) if record.process is not None]


def silent(lab: Laboratory) -> str:
    """Wait until `status` warns of a long silence, with a patience that is short; what it says."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRANZQ_STATUS_LONG_SILENCE", "0.1s")
        return wait_for(lambda: text if "has said nothing" in (text := typed(lab, "status")) else "", "it warns")


def assert_stops(lab: Laboratory, daemon: subprocess.Popen[bytes]) -> None:
    """The daemon leaves when it is asked to, and nothing of the laboratory lives then."""
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(PATIENCE) == 0
    wait_for(lambda: not lab.processes(), f"all processes are gone: {lab.processes()}")
    assert_free(lab)


def test_agents_whose_time_is_over(lab: Laboratory) -> None:
    """`--timeout` ends the silent, the deaf and the stopped alike: *timed out*, retired, the tree free for the next."""
    agents = {
        "traps-term": (("trap-term=0", *FAMILY, "hang"), 0),
        "hangs": (("hang",), -signal.SIGTERM),
        "ignores-term": (("ignore-term", "hang"), -signal.SIGKILL),
        "stops-itself": (("stop",), -signal.SIGKILL),
    }
    for mission, (behaviours, _) in agents.items():
        seconds = "6s" if FAMILY[0] in behaviours else "3s"  # long enough to come so far beside any load
        typed(lab, "enqueue", mission, "--timeout", seconds, "--", *agent(lab, mission, *behaviours))
    approve(lab, "works-afterwards")
    lab.run("drain", "--once", code=1)  # the first one, which ends in order
    lab.run("drain", code=1, env=GRACE)  # and the others

    for mission, (behaviours, code) in agents.items():
        why = "timed out, It ran longer than its timeout (retire)"
        trial = came_to(lab, mission, ["timed out"], ["retire"], exits=[code], why=why)
        assert is_at(lab, mission, behaviours[-1])
        assert trial.end is not None
        assert trial.end["why"] == "timeout"
    came_to(lab, "works-afterwards", ["succeeded"], ["retire"], exits=[0], why="succeeded")
    assert_free(lab)
    assert lab.processes() == {}


def test_an_agent_that_kills_its_parent_is_parked_after_three_times(lab: Laboratory) -> None:
    """It would do it a fourth time. All that it left is ended before each next run, for the dispatcher lives."""
    approve(lab, "kills-its-parent", *FAMILY, "kill-parent", "hang")
    approve(lab, "works-afterwards")
    lab.run("drain", code=1, env=GRACE)

    why = "parked: interrupted 3 times: it would be interrupted again | When it may run again: "
    came_to(
        lab,
        "kills-its-parent",
        ["interrupted"] * 3,
        ["return", "return", "park"],
        exits=[None] * 3,
        place="parked",
        why=f"{why}kranzq unpark kills-its-parent",
    )
    assert [record.counted for record in lab.records("kills-its-parent")] == [True] * 3
    assert {kind: len(pids) for kind, pids in children(lab, "kills-its-parent").items()} == {
        "fork": 6,
        "daemonize": 3,
        "clear-environment": 3,
        "close-descriptors": 3,
        "vanish": 3,
    }
    came_to(lab, "works-afterwards", ["succeeded"], ["retire"], exits=[0], why="succeeded")
    assert "1 mission is parked and will not run" in typed(lab, "status")
    assert_free(lab)
    assert lab.processes() == {}


def test_what_escapes_both_nets_is_what_the_guarantees_name(lab: Laboratory) -> None:
    """With keeper and dispatcher killed, only what dropped environment *and* lock lives on; it keeps no lock."""
    page = (REPO / "docs/explanation/guarantees-and-assumptions.md").read_text(encoding="utf-8")
    approve(lab, "leaves-all", *(f"1:{one}" for one in (*FAMILY, "hang")))
    drain = lab.start(lab.command("drain"), env=GRACE)
    await_place(lab, "leaves-all", "hang")
    keeper = lab.keeper("leaves-all")
    lab.kill(drain)
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not is_alive(keeper), "the keeper is gone")
    left = children(lab, "leaves-all")
    escaped = left.pop("vanish")
    report = json.loads(lab.run("recover", "--json", env=GRACE).stdout)
    alive = [pid for pids in left.values() for pid in pids if is_alive(pid)]
    still = [pid for pid in escaped if is_alive(pid)]
    free = lab.is_free()
    lab.run("drain", env=GRACE)
    for pid in escaped:
        os.kill(pid, signal.SIGKILL)

    assert "only what dropped its environment *and* the lock escapes, and that only if the dispatcher" in page
    assert {pid for pids in left.values() for pid in pids} <= {one["pid"] for one in report["ended"]}
    assert (alive, still, free) == ([], escaped, True)
    came_to(
        lab, "leaves-all", ["interrupted", "succeeded"], ["return", "retire"], exits=[None, 0], why="succeeded (retire)"
    )
    wait_for(lambda: not lab.processes(), "all is gone")
    assert_free(lab)


def test_an_agent_that_is_interrupted_after_its_commit(lab: Laboratory) -> None:
    """Branch, commit and changed files are in the record and in `why`; its commit stays, and it runs once more."""
    approve(lab, "commits-and-goes-on", "1:commit=work", "1:change=kept", "1:hang")
    drain = lab.start(lab.command("drain", "--once"))
    await_place(lab, "commits-and-goes-on", "hang")
    os.kill(lab.keeper("commits-and-goes-on"), signal.SIGKILL)
    drain.wait(PATIENCE)
    commit = git(lab.root, "rev-parse", "HEAD")

    assert git(lab.root, "log", "-1", "--format=%s") == "commits-and-goes-on: work"
    trial = came_to(
        lab,
        "commits-and-goes-on",
        ["interrupted"],
        ["return"],
        exits=[None],
        place="queued",
        why=f"run 1 (interrupted) left the checkout on branch main at {commit[:12]}, 1 changed file: kept",
    )
    changed = {"count": 1, "names": ["kept"], "complete": True}
    tree = {"branch": "main", "commit": commit, "changed": changed, "lock": None}
    assert trial.runs[0]["tree"] == tree
    lab.run("drain")
    came_to(
        lab,
        "commits-and-goes-on",
        ["interrupted", "succeeded"],
        ["return", "retire"],
        exits=[None, 0],
        why="run 2 ended",
    )
    assert_free(lab)
    assert lab.processes() == {}


def test_agents_that_leave_git_locked_and_end(lab: Laboratory) -> None:
    """The lock of one that was killed stops nobody; that of one that left in peace is waited for and named."""
    approve(lab, "is-killed", "leave-index-lock=kept", "signal=9")
    approve(lab, "commits-next", "commit=next")
    approve(lab, "leaves-in-peace", "leave-index-lock=kept")
    approve(lab, "must-wait", "commit=last")
    first = lab.run("drain", code=None)
    lock = lab.root / ".git/index.lock"
    there = lock.exists()
    moved = lab.root / ".kranz/missions/is-killed/dispatch/001/index.lock"

    assert first.returncode == 1  # one failed
    came_to(
        lab,
        "is-killed",
        ["failed"],
        ["retire"],
        exits=[-signal.SIGKILL],
        why=f"a lock of a killed git was moved to {moved}",
    )
    came_to(lab, "commits-next", ["succeeded"], ["retire"], exits=[0], why="succeeded")
    came_to(lab, "leaves-in-peace", ["succeeded"], ["retire"], exits=[0], why="succeeded")
    came_to(
        lab,
        "must-wait",
        ["not started"],
        ["return"],
        exits=[None],
        place="queued",
        why=f"its last try could not be started: git's {lock} is",
        starts=0,
    )
    assert there
    lock.unlink()
    lab.run("drain")
    came_to(
        lab,
        "must-wait",
        ["not started", "succeeded"],
        ["return", "retire"],
        exits=[None, 0],
        why="run 2 ended",
        starts=1,
    )
    assert_free(lab)


def test_agents_that_ask_for_later_or_are_tried_again(lab: Laboratory) -> None:
    """Exit 75 ten times is ten deferrals and no try; failures and timeouts use up their own tries; pauses double."""
    typed(lab, "enqueue", "exits-75-ten-times", "--", *agent(lab, "exits-75-ten-times", "1-10:exit=75"))
    typed(lab, "enqueue", "names-its-time", "--", *agent(lab, "names-its-time", "1:not-before=3"))
    typed(lab, "enqueue", "fails-once", "--retries", "2", "--", *agent(lab, "fails-once", "1:exit=3"))
    typed(lab, "enqueue", "fails-always", "--retries", "2", "--", *agent(lab, "fails-always", "exit=3"))
    words = ("--retries", "1", "--timeout", "1s")
    typed(lab, "enqueue", "hangs-twice", *words, "--", *agent(lab, "hangs-twice", "hang"))
    missions = ("exits-75-ten-times", "names-its-time", "fails-once", "fails-always", "hangs-twice")
    daemon = lab.start(hurried(lab, "daemon"))
    wait_in(lab, lambda: are_settled(lab, *missions), "all are settled")

    came_to(
        lab,
        "exits-75-ten-times",
        ["deferred"] * 10 + ["succeeded"],
        ["rotate"] * 10 + ["retire"],
        exits=[75] * 10 + [0],
        why="run 11 ended",
    )
    came_to(lab, "names-its-time", ["deferred", "succeeded"], ["rotate", "retire"], exits=[0, 0], why="run 2 ended")
    came_to(lab, "fails-once", ["failed", "succeeded"], ["wait", "retire"], exits=[3, 0], why="succeeded")
    came_to(lab, "fails-always", ["failed"] * 3, ["wait", "wait", "retire"], exits=[3] * 3, why="failed, exit code 3")
    came_to(lab, "hangs-twice", ["timed out"] * 2, ["wait", "retire"], exits=[-signal.SIGTERM] * 2, why="run 2 ended")
    assert_pauses_double(lab)
    asked, again = lab.records("names-its-time")
    assert isinstance(asked.fate, Rotate)
    assert (seconds_of(again.started_at) or 0) * 1000 >= asked.fate.until_ms
    assert lab.names("waiting") == []
    assert_ended(lab, *missions)
    assert_stops(lab, daemon)


def assert_pauses_double(lab: Laboratory) -> None:
    """Ten deferrals wait twice as long each time up to the ceiling, each behind the others of its priority."""
    records = lab.records("exits-75-ten-times")[:10]
    fates = [record.fate for record in records if isinstance(record.fate, Rotate)]
    numbers = [fate.number for fate in fates if fate.number is not None]
    ends = [seconds_of(record.ended_at) or 0 for record in records]
    waits = [fate.until_ms / 1000 - end for fate, end in zip(fates, ends, strict=True)]
    least = [0.75 * min(BACKOFF_FIRST_S * 2**tries, BACKOFF_MOST_S) - 0.002 for tries in range(10)]

    assert numbers == sorted(set(numbers))
    assert len(numbers) == 10
    assert all(wait >= low for wait, low in zip(waits, least, strict=True)), waits


def test_an_agent_that_asks_for_later_for_too_long_is_parked(lab: Laboratory) -> None:
    """When its patience with a mission is over, the queue says so and lets the others work."""
    approve(lab, "asks-for-ever", "exit=75")
    approve(lab, "works", priority=5)
    daemon = lab.start(hurried(lab, "daemon"), env={"KRANZQ_MISSION_DEFERRAL_LIMIT": "0.4s"})
    wait_in(lab, lambda: are_settled(lab, "asks-for-ever", "works"), "it is parked")
    runs = len(lab.records("asks-for-ever"))

    assert runs >= 2
    why = "asks-for-ever is parked | parked: deferred for more than"
    came_to(
        lab,
        "asks-for-ever",
        ["deferred"] * runs,
        ["rotate"] * (runs - 1) + ["park"],
        exits=[75] * runs,
        place="parked",
        why=why,
    )
    came_to(lab, "works", ["succeeded"], ["retire"], exits=[0], why="succeeded")
    assert_stops(lab, daemon)


def test_an_agent_whose_time_comes_while_nobody_dispatches(lab: Laboratory) -> None:
    """It asked to be run again and has not done its work, however late somebody reads that: it runs again at once."""
    approve(lab, "names-its-time", "1:wait=asks", "1:not-before=3")
    first = lab.start(hurried(lab, "daemon"))
    await_place(lab, "names-its-time", "asks")
    lab.kill(first)
    (lab.notes / "asks").touch()
    wait_for(lab.is_free, "the mission and its keeper have left")
    asked = lab.root / ".kranz/missions/names-its-time/dispatch/001/not-before"
    wait_for(lambda: time.time() > (seconds_of(asked.read_text()) or 0), "the time has come")
    second = lab.start(hurried(lab, "daemon"))
    wait_in(lab, lambda: are_settled(lab, "names-its-time"), "it is settled")

    why = "run 2 ended"
    came_to(lab, "names-its-time", ["deferred", "succeeded"], ["rotate", "retire"], exits=[0, 0], why=why)
    assert_stops(lab, second)


@pytest.mark.skipif(LOG is not None, reason="is the one that prints the log")
def test_the_log_of_all_trials_can_be_printed(tmp_path: Path) -> None:
    """The page that tells how each agent ended is made by a program, from the trials themselves."""
    lines = [("hangs", "hang", "cancelled", "retire", "gone", "hangs has ended")]
    (tmp_path / "log").write_text("".join("\t".join(line) + "\n" for line in lines))
    program = [sys.executable, "-m", "tests.fake_agent_log", "--show", str(tmp_path / "log")]
    shown = subprocess.run(program, cwd=REPO, capture_output=True, text=True, check=True, timeout=30).stdout

    head = ("MISSION", "BEHAVIOUR", "OUTCOMES", "FATES", "PLACE", "WHY")
    assert shown == table([head, *lines])
