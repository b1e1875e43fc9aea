"""`kranzq check --prove`: what a person sees of the trials, and that nothing of theirs is touched."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from kranzq.prove.scratch import scratch
from tests.laboratory import PATIENCE, Laboratory, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.crash]


def tree(root: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_every_promise_gets_a_verdict_and_nothing_is_touched(lab: Laboratory) -> None:
    """The trials hold on the machine of these tests, and the real queue is as it was."""
    lab.enqueue("ours", "true")
    before = tree(lab.root)

    told = json.loads(lab.run("check", "--prove", "--seconds", "4", "--json", seconds=110).stdout)

    assert tree(lab.root) == before
    assert [one["promise"] for one in told["promises"]] == [1, 2, 3, 4, 5, 6]
    assert {one["verdict"] for one in told["promises"]} <= {"holds", "weaker"}
    trials = {one["name"]: one for one in told["trials"]}
    assert trials["dispatched, killed"]["verdict"] == trials["approved, killed"]["verdict"] == "holds"
    assert trials["dispatched, killed"]["tried"] >= 1


def test_a_killed_proof_leaves_nothing_that_lasts(lab: Laboratory) -> None:
    """Its folder is hidden from git, and the next one removes it."""
    (lab.root / ".kranz").mkdir(exist_ok=True)
    process = lab.start(lab.command("check", "--prove", "--seconds", "60"))
    wait_for(lambda: "one holder" in lab.log("log"), "the first trial has ended")
    lab.kill(process)
    [left] = (lab.root / ".kranz").glob(".kranzq-prove-*")

    def is_removed() -> bool:
        """As long as a process that it had forked lives, the folder is held."""
        with scratch(lab.checkout):
            return not left.exists()

    wait_for(is_removed, "what it left is removed")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_proof_that_is_told_to_end_clears_up(lab: Laboratory, number: signal.Signals) -> None:
    """As by `timeout`, or a terminal that is closed: nobody may ever make another one that would remove the folder."""
    (lab.root / ".kranz").mkdir(exist_ok=True)
    process = lab.start(lab.command("check", "--prove", "--seconds", "60"))
    wait_for(lambda: "one holder" in lab.log("log"), "the first trial has ended")
    process.send_signal(number)
    assert process.wait(PATIENCE) == 128 + number
    assert list((lab.root / ".kranz").glob(".kranzq-prove-*")) == []
