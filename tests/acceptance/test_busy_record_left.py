"""What a holder that was killed left in `.busy.json`: a reason to look for its processes once, and then nothing."""

from __future__ import annotations

import json

from kranzq.busy import record as busy_record
from kranzq.liveness import me
from tests.laboratory import Laboratory


def test_a_record_that_a_killed_holder_left_is_removed_by_a_turn_that_runs_nothing(lab: Laboratory) -> None:
    """Else each turn would look through all processes again, and never find the checkout idle."""
    lab.enqueue("m1")
    lab.run("park", "m1", "later")
    record = lab.queue / ".busy.json"
    shown = {"role": "keeper", "process": me().to_json() | {"pid": 4_000_000}, "since": "2026-01-01T00:00:00Z"}
    record.write_text(json.dumps(shown | {"version": "0", "mission": "m0", "run": 1, "nonce": "0" * 32}))
    lab.run("drain", code=None)

    assert not record.exists()


def test_what_holds_a_checkout_is_named_while_a_mission_runs(lab: Laboratory) -> None:
    """The record names the keeper, and goes with it."""
    seen = lab.notes / "seen"
    lab.enqueue("m1", "/bin/sh", "-c", f"cat .kranz/queue/.busy.json > {seen}")
    lab.run("drain")
    found = json.loads(seen.read_text())

    assert (found["role"], found["mission"]) == ("keeper", "m1")
    assert not (lab.queue / busy_record.BUSY_JSON).exists()
