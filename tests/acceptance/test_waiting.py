"""Due times, predecessors, retries and changed minds, as an operator meets them: real dispatchers, real missions."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from kranzq.model.entry import Own
from kranzq.model.outcome import Rotate, Wait
from kranzq.wiring import queues
from tests.factories import kranz_name
from tests.laboratory import Laboratory, wait_for

pytestmark = pytest.mark.slow
SELDOM = {"KRANZQ_DAEMON_SCAN_SECONDS": "600"}
LATER = "2126-01-01T00:00:00Z"


def listed(lab: Laboratory) -> dict[str, dict[str, Any]]:
    """What `list --all` says, by mission."""
    found = json.loads(lab.run("list", "--all", "--json").stdout)["entries"]
    return {one["mission"]: one for one in found}


def due_now(lab: Laboratory, mission: str) -> None:
    """Let a mission that backs off be due, with the counters that it has."""
    lab.run("edit", mission, "--not-before", "now")


def test_b44_what_is_not_due_delays_nobody(lab: Laboratory) -> None:
    """The most urgent mission waits for its time, another for a mission, a poisoned one backs off; all else runs."""
    lab.run("enqueue", "urgent", "--priority", "0", "--not-before", "+1h", "--", *lab.alone("urgent"))
    lab.run("enqueue", "blocked", "--priority", "0", "--after", "urgent", "--", *lab.alone("blocked"))
    lab.run("enqueue", "poison", "--priority", "0", "--retries", "5", "--", *lab.alone("poison", code=1))
    ready = [f"ready-{number:02}" for number in range(8)]
    for mission in ready:
        lab.enqueue(mission, priority=5)
    lab.run("drain")
    seen = listed(lab)

    assert [line for line in lab.told() if line.startswith("start")] == [f"start {one}" for one in ("poison", *ready)]
    assert {mission: one["state"] for mission, one in seen.items()} == dict.fromkeys(
        ("urgent", "blocked", "poison"), "waiting"
    )
    assert seen["blocked"]["waitingFor"] == ["urgent"]
    assert seen["urgent"]["due"] is not None
    assert "1 of 5 retries used" in lab.run("list").stdout
    assert "poison: run 1 failed, exit code 1; 1 of 5 retries used" in lab.run("status").stdout
    assert "urgent is waiting" in lab.run("why", "blocked").stdout


def test_a_daemon_that_looks_seldom_starts_what_is_due_in_time(lab: Laboratory) -> None:
    """It is woken by what is enqueued for later, and for it; a length of time is enough to say when."""
    lab.daemon(env=SELDOM)
    began = time.time()
    lab.run("enqueue", "soon", "--not-before", "+2s", "--", *lab.alone("soon"))
    wait_for(lambda: lab.count("end", "soon"), "the mission runs")

    assert time.time() - began >= 2


def test_b77_the_same_time_is_due_at_the_same_instant_in_every_zone(lab: Laboratory) -> None:
    """Whatever zone the machine is in, the name in the queue bears the same milliseconds."""
    for mission, zone in (("one", "UTC"), ("two", "Pacific/Auckland")):
        words = ("enqueue", mission, "--not-before", "2126-03-28T02:30:00+01:00", "--", "true")
        lab.run(*words, env={"TZ": zone})
    dues = {name.partition(".")[0] for name in lab.names("waiting")}

    assert len(dues) == 1
    for wrong in (
        "2126-01-01T00:00:00",
        "4922899200",
        "4922899200000",
        "2126-02-30T00:00:00Z",
        "12126-01-01T00:00:00Z",
    ):
        assert "Write +90m" in lab.run("enqueue", "bad", "--not-before", wrong, "--", "true", code=2).stderr
    assert len(lab.entries()) == 2


def test_a_mission_runs_when_those_before_it_have_succeeded(lab: Laboratory) -> None:
    """The end of the first wakes the daemon for the second; one that has failed parks what waits for it."""
    lab.daemon(env=SELDOM)
    lab.run("enqueue", "deploy", "--after", "build", "--future", "--", *lab.alone("deploy"))
    lab.run("enqueue", "publish", "--after", "broken", "--future", "--", *lab.alone("publish"))
    lab.enqueue("build")
    lab.enqueue("broken", *lab.alone("broken", code=3))
    wait_for(lambda: lab.count("end", "deploy") and lab.names("parked"), "both are decided")
    told = lab.run("wait", "publish", code=4).stderr
    lab.run("retry", "broken")
    wait_for(lambda: lab.count("end", "broken") == 2, "the first runs once more")

    assert lab.told().index("end build") < lab.told().index("start deploy")
    assert "broken failed (exit code 3)" in told
    assert lab.count("start", "publish") == 0
    assert "kranzq unpark publish" in lab.run("list", "--parked").stdout


def test_both_a_predecessor_and_a_time(lab: Laboratory) -> None:
    """It waits for the mission first, and then for its time; `edit` lets it go at once."""
    lab.enqueue("first")
    lab.run("enqueue", "second", "--after", "first", "--not-before", LATER, "--", *lab.alone("second"))
    before = listed(lab)["second"]
    lab.run("drain")
    between = listed(lab)["second"]
    lab.run("edit", "second", "--not-before", "now")
    lab.run("drain")

    assert (before["waitingFor"], before["due"]) == (["first"], None)
    assert (between["waitingFor"], between["due"]) == ([], "2126-01-01T00:00:00.000Z")
    assert lab.count("end", "second") == 1
    lab.assert_nothing_left()


def test_an_entry_of_another_program_that_must_wait_waits(lab: Laboratory) -> None:
    """An unsigned entry among the queued ones is held back by its own due time, and by what it waits for."""
    lab.run("init")
    lab.run("trust", "--unsigned", code=None)
    wishes: tuple[tuple[str, dict[str, Any]], ...] = (("late", {"notBefore": LATER}), ("behind", {"after": ["none"]}))
    for seq, (mission, more) in enumerate(wishes):
        entry = {"missionId": mission, "priority": 2, "seq": seq, "kranzq": {"id": f"{seq}" * 32, **more}}
        (lab.queue / kranz_name(mission, seq=seq)).write_text(json.dumps(entry))
    env = {"KRANZQ_MISSION_COMMAND": " ".join(lab.alone("{mission_id}"))}
    lab.run("drain", env=env)

    assert lab.told() == []
    assert lab.names("waiting") == [
        f"4922899200000.{kranz_name('late')}",
        f"after.{kranz_name('behind', seq=1)}",
    ]


def test_retries_are_counted_over_restarts_and_begin_anew_when_a_person_says_so(lab: Laboratory) -> None:
    """Each dispatcher goes on where the last one was; when they are used up the mission has failed; `retry` is new."""
    lab.run("enqueue", "m1", "--retries", "2", "--", *lab.alone("m1", code=1))
    lab.run("drain")
    due_now(lab, "m1")
    lab.run("drain")
    waits = [record.fate.until_ms / 1000 for record in lab.records("m1") if isinstance(record.fate, Wait)]
    lab.run("retry", "m1")
    lab.run("drain")
    for _ in range(2):
        due_now(lab, "m1")
        lab.run("drain", code=None)

    assert waits[1] - waits[0] > 2.5  # 7.5 to 10 s from a later end on, and 3.75 to 5 s
    assert lab.outcomes("m1") == ["failed"] * 5
    assert len({record.entry.id for record in lab.records("m1")}) == 2
    lab.assert_nothing_left()


def test_a_deferred_mission_goes_behind_its_priority_and_uses_no_try(lab: Laboratory) -> None:
    """It waits, gets a new number, and is parked when it has deferred itself for longer than is allowed."""
    lab.run("enqueue", "m1", "--", *lab.alone("m1", code=75))
    lab.enqueue("m2")
    assert lab.run("drain", code=75).returncode == 75
    first = lab.records("m1")[0].fate
    due_now(lab, "m1")
    lab.run("drain", code=None, env={"KRANZQ_MISSION_DEFERRAL_LIMIT": "0.001s"})

    assert isinstance(first, Rotate)
    assert first.number == 2
    assert "deferred for more than" in lab.run("list", "--parked").stdout
    assert lab.count("end", "m2") == 1


def test_b72_a_mission_that_kills_its_keeper_is_parked_and_counted_anew_after_unpark(lab: Laboratory) -> None:
    """After as many interruptions as the settings allow it runs no more, until a person says so."""
    kill = ("sh", "-c", "kill -9 $PPID; sleep 60")
    lab.run("enqueue", "m1", "--", *kill)
    env = {"KRANZQ_MISSION_INTERRUPTION_LIMIT": "2"}
    lab.run("drain", env=env, code=None)
    parked = lab.run("why", "m1").stdout
    lab.run("unpark", "m1")
    lab.run("drain", env=env, code=None)

    assert "interrupted 2 times" in parked
    assert "kranzq unpark m1" in parked
    assert lab.outcomes("m1") == ["interrupted"] * 4
    assert [one["state"] for one in listed(lab).values()] == ["parked"]


def test_b48_an_approval_says_what_stays(lab: Laboratory) -> None:
    """The same mission with another time or predecessor is the same: nothing is changed, and the answer says so."""
    lab.run("enqueue", "m1", "--not-before", "+1h", "--", "true")
    again = lab.run("enqueue", "m1", "--not-before", "+2h", "--", "true").stdout
    lab.run("park", "m1", "until", "monday")
    parked = lab.run("enqueue", "m1", "--", "true", code=4).stderr

    assert "is waiting already" in again
    assert "kranzq edit m1" in again
    assert "is parked: until monday" in parked
    assert "kranzq unpark m1" in parked
    assert len(lab.entries()) == 1


def test_what_ran_can_be_run_once_more(lab: Laboratory) -> None:
    """With its own command, as often as one likes; a running one is left alone."""
    lab.enqueue("m1")
    lab.run("drain")
    for _ in range(2):
        assert "m1 is queued" in lab.run("retry", "m1").stdout
        lab.run("drain")
    lab.enqueue("m2", *lab.alone("m2", 60))
    drain = lab.start(lab.command("drain"))
    lab.keeper("m2")
    running = lab.run("retry", "m2", code=4).stderr
    lab.release()
    drain.wait(30)

    assert lab.told().count("end m1") == 3
    assert "kranzq enqueue --again m2" in running
    assert lab.run("retry", "never", code=3).returncode == 3


def test_cancel_takes_a_pattern_after_a_question(lab: Laboratory) -> None:
    """Without a terminal it must be said beforehand; what runs is asked to end, and the rest is removed."""
    lab.enqueue("m-1", *lab.alone("m-1", 60))
    drain = lab.start(lab.command("drain"))
    lab.keeper("m-1")
    for mission in ("m-2", "other"):
        lab.enqueue(mission)
    lab.run("park", "m-2")
    asked = lab.run("cancel", "m-*", code=2).stderr
    none = lab.run("cancel", "x*", "--yes", code=3).stderr
    done = json.loads(lab.run("cancel", "m-*", "--yes", "--wait", "--json").stdout)
    drain.wait(30)

    assert "m-1 (claimed)" in asked
    assert "m-2 (parked)" in asked
    assert "Nothing in the queue matches" in none
    assert [(one["mission"], one["result"]) for one in done["cancelled"]] == [("m-2", "removed"), ("m-1", "cancelled")]
    assert done["failed"] == []
    assert lab.count("end", "other") == 1
    lab.assert_nothing_left()


def test_one_that_cannot_be_cancelled_does_not_stop_the_others(lab: Laboratory) -> None:
    """The claim of a stranger stays, everything else goes, and the exit code says that not all is done."""
    for mission in ("m-1", "m-2", "m-3"):
        lab.enqueue(mission)
    name = lab.entries()[0]
    (lab.queue / name).rename(lab.queue / f"{name}.claimed.{os.getpid()}")
    done = lab.run("cancel", "m-?", "--yes", code=1)

    assert "m-1: " in done.stderr
    assert lab.entries() == [f"{name}.claimed.{os.getpid()}"]


def test_a_mission_that_was_parked_while_a_daemon_runs_is_left_alone(lab: Laboratory) -> None:
    """Parked, it is passed over; unparked, it is started at once; edited, it changes its place."""
    lab.enqueue("first", *lab.alone("first", 60))
    lab.daemon(env=SELDOM)
    lab.keeper("first")
    for mission in ("a", "b"):
        lab.enqueue(mission)
    lab.run("park", "a", "not yet")
    lab.enqueue("c", priority=7)
    lab.run("edit", "c", "--priority", "1")
    lab.release()
    wait_for(lambda: lab.count("end", "b"), "the others have run")
    parked = lab.names("parked")
    lab.run("unpark", "a")
    wait_for(lambda: lab.count("end", "a"), "what was parked runs")

    starts = [line.split()[1] for line in lab.told() if line.startswith("start")]
    assert starts == ["first", "c", "b", "a"]
    assert len(parked) == 2
    assert lab.run("stop").returncode == 0


def test_what_is_enqueued_for_later_is_signed_and_durable(lab: Laboratory) -> None:
    """An entry that waits was published as any other: complete, with its own number, visible to everybody."""
    lab.run("enqueue", "m1", "--not-before", "+1h", "--env", "A=b", "--", "true")
    lab.run("enqueue", "m2", "--", "true")
    with queues.make_queue(lab.checkout) as queue:
        entries = [queue.read(place) for place in queue.places()]

    assert [entry.number for entry in entries if entry is not None] == [0, 1]
    own = entries[0].own if entries[0] is not None else None
    assert isinstance(own, Own)
    assert own.env == {"A": "b"}
    assert listed(lab)["m1"]["signed"] is True
