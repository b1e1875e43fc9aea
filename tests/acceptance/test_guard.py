"""`kranzq guard`: 0 while a mission's claim is its own, refused as soon as it is not, or when nobody can tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kranzq.dispatch.inside import OF_A_RUN, OF_AN_ITEM
from kranzq.model.claim import Holder
from kranzq.model.work import Held, NewItem
from kranzq.runs.command import MARKS
from kranzq.wiring.working import open_work
from tests.laboratory import Laboratory, wait_for

pytestmark = [pytest.mark.system("git"), pytest.mark.slow]
TELLS = 'env -0 > "$0.part" && mv "$0.part" "$0"; trap "" TERM; while ! [ -e "$0.go" ]; do sleep 0.02; done'
"""A mission that shows its environment and goes on until it is let, whatever it is told."""


@dataclass
class Mission:
    """A mission that runs, and what its processes see."""

    lab: Laboratory
    env: dict[str, str]
    told: Path

    def guard(self, *flags: str, code: int, **changed: str) -> str:
        """Ask as a process of the mission does; what was said."""
        done = self.lab.run("guard", *flags, code=code, env=self.env | changed)
        return done.stdout + done.stderr

    def let_end(self) -> None:
        """Let it come to its end."""
        Path(f"{self.told}.go").touch()


@pytest.fixture
def mission(lab: Laboratory) -> Iterator[Mission]:
    """Mission m1, which runs, dispatched by a daemon."""
    told = lab.notes / "environment"
    lab.enqueue("m1", "sh", "-c", TELLS, str(told))
    lab.daemon()
    wait_for(told.exists, "the mission runs")
    shown = dict(part.split("=", 1) for part in told.read_text().split("\0") if "=" in part)
    one = Mission(lab, {name: text for name, text in shown.items() if name.startswith("KRANZ_")}, told)
    wait_for(lambda: lab.records("m1")[0].state == "running", "its record says so")
    yield one
    one.let_end()


def test_while_the_claim_is_its_own_nothing_is_refused(mission: Mission) -> None:
    """Also from another directory, for a mission may work in a clone of its own."""
    assert "mission m1 is its own" in mission.guard(code=0)
    shown = json.loads(mission.guard("--json", "--mission-only", code=0))

    assert shown == {"inside": True, "mission": "m1", "run": 1, "item": None, "attempt": None}


def test_a_cancelled_mission_is_refused_before_its_keeper_has_ended_it(mission: Mission) -> None:
    """The wish is enough: nobody wants what it does from now on."""
    mission.lab.run("cancel", "m1", "--why", "wrong ticket")
    said = mission.guard(code=4)

    assert "Mission m1 (run 1) has lost its claim: it was cancelled" in said
    assert "wrong ticket" in said
    assert "why m1" in said


def test_a_mission_that_is_asked_to_stop_is_refused(mission: Mission) -> None:
    """It will be run again, and would do everything twice."""
    mission.lab.run("stop", "--now", "--no-wait")
    wait_for((Path(mission.env["KRANZ_RUN_DIR"]) / "return.json").exists, "the wish is there")

    assert "asked to stop" in mission.guard(code=4)


def test_a_mission_that_has_ended_is_refused(mission: Mission) -> None:
    """A survivor speaks for nobody."""
    mission.let_end()
    wait_for(lambda: mission.lab.outcomes("m1") == ["succeeded"], "it has ended")

    assert "this run has ended: succeeded" in mission.guard(code=4)


def test_an_end_that_nobody_has_settled_is_an_end(mission: Mission) -> None:
    """The keeper's word is enough."""
    mission.lab.started[-1].send_signal(signal.SIGSTOP)
    mission.let_end()
    wait_for((Path(mission.env["KRANZ_RUN_DIR"]) / "exit.json").exists, "its keeper told the end")
    said = mission.guard(code=4)
    mission.lab.started[-1].send_signal(signal.SIGCONT)

    assert "outlived it" in said


def test_a_mission_whose_keeper_was_killed_is_refused(mission: Mission) -> None:
    """Its claim is put back by whoever looks next, so it is nobody's."""
    mission.lab.kill(mission.lab.started[-1])
    os.kill(mission.lab.keeper("m1"), signal.SIGKILL)
    said = wait_for(lambda: mission.lab.run("guard", code=None, env=mission.env).stderr, "it is refused")

    assert "whoever held its claim is gone" in said


def test_a_claim_that_was_taken_back_is_refused(mission: Mission) -> None:
    """Whoever renamed it: what counts is where the file is."""
    record = mission.lab.records("m1")[0]
    os.rename(mission.lab.queue / record.claim, mission.lab.queue / record.claim.partition(".claimed.")[0])

    assert "not in the queue any more" in mission.guard(code=4)


def test_a_link_in_the_place_of_the_claim_is_none(mission: Mission) -> None:
    """Only a file is a claim."""
    path = mission.lab.queue / mission.lab.records("m1")[0].claim
    os.rename(path, mission.lab.root / "elsewhere")
    os.symlink(mission.lab.root / "elsewhere", path)
    said = mission.guard(code=4)
    os.rename(mission.lab.root / "elsewhere", path)

    assert "is no claim" in said


def test_another_nonce_is_another_run(mission: Mission) -> None:
    """A run of the same number, made anew after `git clean`, is not this one."""
    claim = f"{'0' * 32}:{mission.env['KRANZ_CLAIM'].partition(':')[2]}"

    assert "another one's" in mission.guard(code=4, KRANZ_CLAIM=claim)


@pytest.mark.parametrize("what", ["missions/m1/dispatch/001/run.json", "queue"])
def test_what_git_tracks_is_not_believed(mission: Mission, what: str) -> None:
    """A clone may bring any record along, and any claim."""
    subprocess.run(["git", "add", "--force", f".kranz/{what}"], cwd=mission.lab.root, check=True)
    said = mission.guard(code=4)

    assert "believed" in said or "tracked by git" in said


def test_without_a_queue_nobody_can_tell(mission: Mission) -> None:
    """The mission removed it itself, or somebody cleaned up."""
    mission.lab.kill(mission.lab.started[-1])
    os.rename(mission.lab.queue, mission.lab.root / "moved")

    assert "is gone" in mission.guard(code=3)
    os.rename(mission.lab.root / "moved", mission.lab.queue)


def test_an_index_that_cannot_be_read_tells_nothing(mission: Mission) -> None:
    """What cannot be told is refused, and says so."""
    (mission.lab.root / ".git/index").write_bytes(b"no index")

    assert "cannot be told" in mission.guard(code=5)


@pytest.mark.parametrize("name", ["KRANZ_CLAIM", "KRANZ_MISSION_ID", "KRANZ_REPO", "KRANZ_RUN_NUMBER"])
def test_marks_that_got_lost_are_refused(mission: Mission, name: str) -> None:
    """Something between the keeper and git took them away."""
    assert "lost some of the marks" in mission.guard(code=5, **{name: ""})


def test_outside_of_any_mission_nothing_is_said(lab: Laboratory) -> None:
    """A person's own commit is nobody's claim."""
    done = lab.run("guard")
    assert (done.stdout, done.stderr) == ("", "")
    assert json.loads(lab.run("guard", "--json").stdout)["inside"] is False

    assert "no mission" in lab.run("guard", "--mission-only", code=3).stderr


def test_what_is_asked_first_is_what_marks_are_made_of() -> None:
    """The names that tell of a mission are among those that a mission is given."""
    assert {*OF_A_RUN, *OF_AN_ITEM} <= MARKS


def test_an_item_is_refused_once_it_is_another_ones(lab: Laboratory, tmp_path: Path) -> None:
    """The attempt is the fence: claimed, lapsed, claimed by another, done."""
    url = f"sqlite://{tmp_path}/work.db"

    def ask(attempt: int, code: int) -> str:
        marks = {"KRANZ_ITEM_ID": "w-9", "KRANZ_ITEM_ATTEMPT": str(attempt), "KRANZQ_WORK_URL": url}
        done = lab.run("guard", code=code, env=marks)
        named = lab.run("guard", "--item", "w-9", "--attempt", str(attempt), "--url", url, code=code)
        assert named.stderr == done.stderr
        return done.stdout + done.stderr

    assert "knows no item" in ask(1, 3)
    with open_work(url, os.environ) as store:
        store.enqueue(NewItem("t", "p", id="w-9"))
        store.claim(Holder("ann"), lease_ms=60_000)
        assert "item w-9 is its own" in ask(1, 0)
        store.claim(Holder("ann"), lease_ms=60_000)
        assert "in attempt 1" in ask(7, 4)
        store.heartbeat(Held("w-9", 1, Holder("ann")), 1)
        flags = ("guard", "--item", "w-9", "--attempt", "1", "--url", url)
        wait_for(lambda: lab.run(*flags, code=None).returncode, "the lease is over")
        assert "kranzq work heartbeat w-9" in ask(1, 4)
        wait_for(lambda: store.claim(Holder("bob"), lease_ms=60_000), "another claims it")
        assert "in attempt 2" in ask(1, 4)
        assert "its own" in ask(2, 0)
        store.finish(Held("w-9", 2, Holder("bob")))
        assert "its own" in ask(2, 0)


def test_a_cancelled_item_is_refused(lab: Laboratory, tmp_path: Path) -> None:
    """Nobody wants what comes of it."""
    url = f"sqlite://{tmp_path}/work.db"
    with open_work(url, os.environ) as store:
        store.enqueue(NewItem("t", "p", id="w-9"))
        store.claim(Holder("ann"))
        store.cancel("w-9")

    assert "was cancelled" in lab.run("guard", "--item", "w-9", "--attempt", "1", "--url", url, code=4).stderr


def test_marks_of_an_item_that_got_lost_are_refused(lab: Laboratory) -> None:
    """Without its attempt nobody can tell."""
    assert "lost a mark" in lab.run("guard", code=5, env={"KRANZ_ITEM_ID": "w-9"}).stderr


def test_a_store_that_is_away_tells_nothing(lab: Laboratory, tmp_path: Path) -> None:
    """What cannot be asked is refused."""
    marks = {"KRANZ_ITEM_ID": "w-9", "KRANZ_ITEM_ATTEMPT": "1", "KRANZQ_WORK_URL": f"sqlite://{tmp_path}/work.db"}
    (tmp_path / "work.db").write_bytes(b"no database" * 1000)

    assert lab.run("guard", code=6, env=marks).stderr


@pytest.mark.parametrize(
    "flags", [("--item", "w"), ("--attempt", "1"), ("--url", "sqlite:///x"), ("--server", "unix:/x")]
)
def test_words_that_make_no_sense_are_refused(lab: Laboratory, flags: tuple[str, ...]) -> None:
    """With what to type instead."""
    assert "--item ID" in lab.run("guard", *flags, code=2).stderr
