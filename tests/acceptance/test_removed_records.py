"""What a mission, a planted name or a closed terminal can do to records and verbs, through the real command."""

from __future__ import annotations

import subprocess

import pytest

from tests.laboratory import REPO, Laboratory, wait_for

pytestmark = pytest.mark.slow


def mission(lab: Laboratory, harm: str, *, waits: bool = False) -> tuple[str, ...]:
    """A mission that says that it began, does harm to its own records, and ends well, perhaps when it is released."""
    end = f"until [ -e {lab.notes}/release ]; do sleep 0.02; done" if waits else ":"
    return ("sh", "-c", f"echo start >> {lab.notes}/told; {harm}; {end}")


@pytest.mark.parametrize(
    "harm",
    [
        "rm -f $KRANZ_RUN_DIR/run.json",
        "rm -f $KRANZ_RUN_DIR/run.json; mkdir $KRANZ_RUN_DIR/run.json",
        "mkdir $KRANZ_RUN_DIR/exit.json",
        "rm -f $KRANZ_RUN_DIR/run.json; mkdir $KRANZ_RUN_DIR/run.json $KRANZ_RUN_DIR/exit.json",
    ],
    ids=["removed", "run.json a folder", "exit.json a folder", "both folders"],
)
@pytest.mark.parametrize("unattended", [False, True], ids=["watched", "unattended"])
def test_a_mission_that_harms_its_records_runs_once_and_holds_nobody_up(
    lab: Laboratory, harm: str, *, unattended: bool
) -> None:
    """The end carries a copy of the record, and what lies in a record's way is moved aside."""
    lab.enqueue("m1", *mission(lab, harm, waits=unattended))
    lab.enqueue("m2", "true")
    if unattended:
        first = lab.start(lab.command("drain"))
        wait_for(lambda: lab.told() == ["start"], "m1 runs")
        lab.kill(first)
        lab.release()
        wait_for(lab.is_free, "the keeper has gone")
    done = lab.run("drain")

    assert lab.told() == ["start"], done
    assert lab.outcomes("m1") == ["succeeded"]
    assert lab.outcomes("m2") == ["succeeded"]
    assert lab.entries() == []


def test_a_name_that_would_imitate_a_claim_is_refused_or_set_aside(lab: Laboratory) -> None:
    """Neither an id nor a planted file can make a turn take an entry for a claim."""
    lab.run("enqueue", "job.claimed", "--", "true", code=2)
    lab.run("init")
    planted = lab.queue / "002-00000000000000000090-x.json.claimed.json"
    planted.write_text('{"missionId": "x.json.claimed", "priority": 2, "seq": 90}')
    lab.enqueue("good", "true")
    lab.run("drain")

    assert lab.outcomes("good") == ["succeeded"]
    assert not planted.exists()


def test_times_beyond_every_calendar_are_shown_and_break_no_verb(lab: Laboratory) -> None:
    """An entry that is due in the year 33658 is listed like any other."""
    lab.run("init")
    (lab.queue / "waiting").mkdir(exist_ok=True)
    planted = lab.queue / "waiting" / "999999999999999.002-00000000000000000001-w1.json"
    planted.write_text('{"missionId": "w1", "priority": 2, "seq": 1}')

    for verb in (["list"], ["list", "--json"], ["status"], ["why", "w1"]):
        lab.run(*verb)
    lab.run("enqueue", "b2", "--not-before", "9999-12-31T23:59:59-14:00", "--", "true", code=2)


def test_an_ended_mission_is_told_at_once_also_with_no_time_to_wait(lab: Laboratory) -> None:
    """Programs that poll with a time-out of 0 are told the truth."""
    lab.enqueue("m1", "true")
    lab.run("drain")

    lab.run("wait", "m1", "--timeout", "0")


def test_a_dispatcher_with_closed_streams_runs_what_is_due(lab: Laboratory) -> None:
    """A closed terminal is no terminal, and no file of ours takes its number."""
    lab.enqueue("m1", "true")
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", *lab.command("drain")], check=False, timeout=60, cwd=REPO
    )

    assert closed.returncode == 0
    assert lab.outcomes("m1") == ["succeeded"]


def test_an_output_that_cannot_be_written_is_not_taken_for_the_disk(lab: Laboratory) -> None:
    """What was asked for is done, and that is said."""
    with open("/dev/full", "w", encoding="ascii") as full:
        told = subprocess.run(
            lab.command("enqueue", "m1", "--", "true"),
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
            cwd=REPO,
        )

    assert told.returncode == 1
    assert b"What was asked for is done" in told.stderr
    assert len(lab.entries()) == 1


def test_a_folder_with_an_entrys_name_stops_no_cancelling(lab: Laboratory) -> None:
    """It is no entry; the others are cancelled all the same."""
    lab.enqueue("ax", "true")
    (lab.queue / "000-00000000000000000077-x6.json").mkdir()
    lab.run("cancel", "*x*", "--yes", code=None)

    assert [name for name in lab.entries() if "ax" in name] == []


def test_a_daemon_that_a_rename_left_behind_is_named(lab: Laboratory) -> None:
    """Whoever asks why nothing runs in the renamed checkout is told which daemon looks elsewhere."""
    daemon = lab.daemon()
    lab.enqueue("m1", "true")
    wait_for(lambda: lab.outcomes("m1") and not lab.entries(), "m1 is settled")
    moved = lab.root.with_name("moved")
    lab.root.rename(moved)
    try:
        lab.run("-C", str(moved), "enqueue", "m2", "--", "true")
        told = lab.run("-C", str(moved), "why", "m2").stdout
    finally:
        moved.rename(lab.root)

    assert f"kill {daemon.pid}" in told
