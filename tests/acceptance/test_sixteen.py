"""Sixteen missions under a limit, a poisoned head, a predecessor that fails, two kills of the daemon, one of a keeper.

What must become of each stands in a table that was written by hand from `docs/reference/states.md`. The test prints the
table that it found, and writes it to the file that `KRANZQ_TABLE` names.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.laboratory import PATIENCE, Laboratory, is_alive, wait_for
from tests.trials import (
    Trial,
    agent,
    are_settled,
    assert_ended,
    assert_free,
    hurried,
    is_at,
    places,
    spans,
    table,
    tried,
    typed,
    wait_in,
)

TABLE = os.environ.get("KRANZQ_TABLE")  # read here, for each test has an environment of its own
ENV = {"KRANZQ_MISSION_GRACE_SECONDS": "0.2"}
MANY_RUNS_S = 100.0
"""So long a busy machine may take for some fifty runs."""


@dataclass(frozen=True)
class Row:
    """What an operator expects of one mission: how often it ran, how, what became of its entry, where that lies."""

    mission: str
    part: str
    behaviours: tuple[str, ...]
    runs: int
    outcomes: str
    fates: str
    place: str = "gone"
    why: str = "ended at"
    priority: int = 2
    flags: tuple[str, ...] = ()


TWICE = "deferred deferred"
BEHIND = "rotate rotate"
WORKER = (f"{TWICE} succeeded", f"{BEHIND} retire")
SIXTEEN = (
    Row("m01", "kills its keeper each time it works", ("limit=2", "kill-parent", "hang"), 5,
        f"{TWICE} interrupted interrupted interrupted", f"{BEHIND} return return park", "parked",
        "interrupted 3 times: it would be interrupted again", priority=0),
    Row("m02", "the predecessor that fails", ("limit=2", "exit=3"), 3,
        f"{TWICE} failed", f"{BEHIND} retire", why="failed, exit code 3 (retire)"),
    Row("m03", "fails, with one retry", ("limit=2", "exit=4"), 4,
        f"{TWICE} failed failed", f"{BEHIND} wait retire", why="failed, exit code 4 (retire)",
        flags=("--retries", "1")),
    Row("m04", "after m05, and more urgent", ("limit=2",), 3, *WORKER, priority=1,
        flags=("--after", "m05", "--future")),
    Row("m05", "the predecessor that succeeds", ("limit-named=2",), 3, *WORKER),
    Row("m06", "the daemon is killed while it works", ("limit=2", "3:wait=m06-works"), 3, *WORKER),
    Row("m07", "the daemon is killed before it is deferred", ("2:wait=m07-asks", "limit=2"), 3, *WORKER),
    Row("m08", "its keeper is killed while it works", ("limit=2", "3:hang"), 4,
        f"{TWICE} interrupted succeeded", f"{BEHIND} return retire"),
    Row("m09", "works", ("limit=2",), 3, *WORKER),
    Row("m10", "works", ("limit-named=2",), 3, *WORKER),
    Row("m11", "commits", ("limit=2", "commit=m11"), 3, *WORKER),
    Row("m12", "leaves children", ("limit=2", "fork=2", "daemonize"), 3, *WORKER),
    Row("m13", "works", ("limit-named=2",), 3, *WORKER),
    Row("m14", "works, least urgent", ("limit=2",), 3, *WORKER, priority=9),
    Row("m15", "works, most urgent", ("limit-named=2",), 3, *WORKER, priority=0),
    Row("m16", "works", ("limit=2",), 3, *WORKER),
)  # fmt: skip
BESIDE = (
    Row("damaged", "the damaged head", (), 0, "", "", "quarantined", "quarantined as", priority=0),
    Row("no-command", "the head that cannot start", (), 0, "not-started", "park", "parked", "no/such/program",
        priority=0),
    Row("after-m02", "after the one that fails", (), 0, "", "", "parked", "m02 failed (exit code 3)",
        flags=("--after", "m02", "--future")),
    Row("after-both", "after one that fails and one that succeeds", (), 0, "", "", "parked", "m02 failed (exit code 3)",
        flags=("--after", "m05", "--after", "m02", "--future")),
    Row("after-parked", "after one that is parked", (), 0, "", "", "waiting", "after-m02 is parked",
        flags=("--after", "after-m02", "--future")),
)  # fmt: skip
ROWS = (*BESIDE, *SIXTEEN)


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A checkout to experiment in."""
    with Laboratory(checkout) as one:
        yield one


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(3 * MANY_RUNS_S)
@pytest.mark.system("git")
def test_sixteen_missions_have_exactly_the_fates_of_the_policy(lab: Laboratory) -> None:
    """Whoever is killed, and whenever: each mission runs as often as the table says, and ends where it says."""
    enqueue_all(lab)
    daemon = play(lab, start_daemon(lab))
    ran = [row.mission for row in ROWS if row.fates]
    others = {row.mission: row.place for row in ROWS if not row.fates}
    settled = "all is settled"
    wait_in(lab, lambda: are_settled(lab, *ran) and others.items() <= places(lab).items(), settled, seconds=MANY_RUNS_S)
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(PATIENCE) == 0
    found = [(row, tried(lab, row.mission)) for row in ROWS]
    print_table(found)

    for row, trial in found:
        assert trial.starts == row.runs, trial
        assert [one.replace(" ", "-") for one in trial.outcomes] == row.outcomes.split(), trial
        assert (trial.fates, trial.place) == (row.fates.split(), row.place), trial
        assert row.why in trial.why, trial
    assert len(SIXTEEN) == 16
    assert [lab.told().count(f"at {one}") for one in ("m06 m06-works", "m07 m07-asks", "m08 hang")] == [1, 1, 1]
    assert lab.log().count("serves") == 3
    assert_ended(lab, *(row.mission for row in ROWS))
    wait_for(lambda: not lab.processes(), "all processes are gone")
    assert_free(lab)


def enqueue_all(lab: Laboratory) -> None:
    """Approve all of them, as the table has them; the first one's file is cut off by a full disk or a hand."""
    for row in ROWS:
        command = ("/no/such/program",) if row.mission == "no-command" else agent(lab, row.mission, *row.behaviours)
        typed(lab, "enqueue", row.mission, "--priority", str(row.priority), *row.flags, "--", *command)
    damaged = lab.queue / next(name for name in lab.entries() if name.endswith("-damaged.json"))
    damaged.write_bytes(damaged.read_bytes()[:100])


def start_daemon(lab: Laboratory) -> subprocess.Popen[bytes]:
    """Start a daemon; it is there when it says so, or its missions do."""
    return lab.start(hurried(lab, "daemon"), env=ENV)


def play(lab: Laboratory, daemon: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Kill whoever is to be killed, each when the mission that it concerns has come so far; the last daemon."""
    scenes: dict[str, tuple[str, Callable[[Laboratory, subprocess.Popen[bytes]], subprocess.Popen[bytes]]]] = {
        "m06": ("m06-works", kill_daemon_during_work),
        "m07": ("m07-asks", kill_daemon_before_deferral),
        "m08": ("hang", kill_keeper),
    }
    while scenes:
        mission = wait_in(
            lab,
            lambda: next((one for one, (place, _) in scenes.items() if is_at(lab, one, place)), ""),
            f"one of {list(scenes)} has come so far",
            seconds=MANY_RUNS_S,
        )
        daemon = scenes.pop(mission)[1](lab, daemon)
    return daemon


def kill_daemon_during_work(lab: Laboratory, daemon: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """The mission goes on under its keeper; the next daemon adopts it, and only then it ends."""
    lab.kill(daemon)
    following = start_daemon(lab)
    wait_in(lab, lambda: "m06 runs already" in lab.log(), "it is adopted")
    (lab.notes / "m06-works").touch()
    return following


def kill_daemon_before_deferral(lab: Laboratory, daemon: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """The mission asks for later while nobody is there to hear it; the next daemon reads it from the record."""
    lab.kill(daemon)
    (lab.notes / "m07-asks").touch()
    wait_for(lab.is_free, "the mission and its keeper have left")
    return start_daemon(lab)


def kill_keeper(lab: Laboratory, daemon: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """The daemon lives and sees to what is left."""
    keeper = lab.keeper("m08")
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not is_alive(keeper), "the keeper is gone")
    return daemon


def print_table(found: list[tuple[Row, Trial]]) -> None:
    """Show what was found, before anything is compared."""
    lines = [
        (row.mission, row.part, str(trial.starts), spans(trial.outcomes), spans(trial.fates), trial.place)
        for row, trial in found
    ]
    shown = table([("MISSION", "PART", "RUNS", "OUTCOMES", "FATES", "PLACE"), *lines])
    sys.stdout.write(shown)
    if TABLE is not None:
        Path(TABLE).write_text(shown, encoding="utf-8")
