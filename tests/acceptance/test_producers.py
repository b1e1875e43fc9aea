"""A producer binds, is killed or not, reconciles, and acts once on each end."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from tests.laboratory import Laboratory

pytestmark = pytest.mark.slow


def sources(lab: Laboratory, *flags: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The bindings, by mission."""
    found = json.loads(lab.run("source", "list", *flags, "--json", env=env).stdout)["sources"]
    return {one["mission"]: one for one in found}


def test_a_pass_that_reconciles_sees_each_end_until_it_is_returned(lab: Laboratory) -> None:
    """Ended and not returned: to be acted on; a repeat of `returned` changes nothing, the other end is refused."""
    lab.run("enqueue", "good", "--source", "tracker:1", "--", *lab.alone("good"))
    lab.run("enqueue", "bad", "--source", "tracker:2", "--", *lab.alone("bad", 0.0, 3))
    lab.run("enqueue", "later", "--not-before", "+9h", "--source", "tracker:3", "--", "true")
    assert sources(lab, "--ended") == {}
    lab.run("drain", code=1)

    ended = sources(lab, "--ended")
    assert {mission: (one["reference"], one["outcome"], one["exitCode"]) for mission, one in ended.items()} == {
        "good": ("1", "succeeded", 0),
        "bad": ("2", "failed", 3),
    }
    lab.run("source", "returned", "good")
    lab.run("source", "returned", "good")
    lab.run("source", "cancelled", "good", code=3)
    assert list(sources(lab, "--ended")) == ["bad"]
    states = {mission: (one["state"], one["missionState"]) for mission, one in sources(lab).items()}
    assert states == {"good": ("returned", "gone"), "bad": ("bound", "gone"), "later": ("bound", "waiting")}


def test_an_older_end_is_no_answer_to_a_new_binding(lab: Laboratory) -> None:
    """A mission that ran before it was bound has not ended for that producer."""
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    lab.run("drain")
    binding = lab.root / ".kranz/missions/m1/enqueue-source.json"
    content = {"schemaVersion": 1, "missionId": "m1", "producer": "t", "externalRef": "7", "createdUnixSecs": 4 * 10**9}
    binding.write_text(json.dumps(content))

    assert sources(lab, "--ended") == {}
    assert sources(lab)["m1"]["outcome"] is None


def test_a_producer_killed_after_its_binding_leaves_an_orphan(lab: Laboratory) -> None:
    """It is named, reclaimed only when asked, and then the item may be taken anew."""
    point = "after:kranzq.backends.file.sources:write:1"
    killed = lab.killed(point, "enqueue", "m1", "--source", "tracker:7", "--", "true")
    at_once = {"KRANZ_CLAIM_TTL": "0"}

    assert killed == -signal.SIGKILL, lab.log()
    assert lab.entries() == []
    assert sources(lab)["m1"]["state"] == "bound"
    assert sources(lab, env=at_once)["m1"]["state"] == "orphaned"
    assert "tracker's 7" in lab.run("source", "reclaim", code=2, env=at_once).stderr
    lab.run("source", "reclaim", "--yes", env=at_once)
    assert sources(lab, env=at_once)["m1"]["state"] == "cancelled"
    lab.run("enqueue", "m1", "--source", "tracker:7", "--", "true")
    lab.run("source", "reclaim", "--yes", env=at_once)
    assert sources(lab, env=at_once)["m1"]["state"] == "bound"
