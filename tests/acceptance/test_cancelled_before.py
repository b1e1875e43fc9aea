"""A mission that is cancelled before it ran has ended: whoever asks is told, and whoever waits for it is parked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.factories import kranz_entry
from tests.laboratory import PATIENCE, Laboratory, laboratory, wait_for


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A laboratory in a checkout with git."""
    with laboratory(checkout) as one:
        yield one


def queued(lab: Laboratory) -> None:
    """One that may run."""
    lab.enqueue("m1")


def waiting(lab: Laboratory) -> None:
    """One that waits for its time."""
    lab.run("enqueue", "m1", "--not-before", "+5h", "--", *lab.alone("m1"))


def parked(lab: Laboratory) -> None:
    """One that is parked."""
    lab.enqueue("m1")
    lab.run("park", "m1")


def dropped(lab: Laboratory) -> None:
    """One that lies in the inbox."""
    lab.run("init")
    (lab.queue / "inbox/x").write_bytes(kranz_entry("m1"))


def bad(lab: Laboratory) -> None:
    """One whose file is damaged."""
    lab.enqueue("m1")
    (lab.queue / lab.entries()[0]).write_text("torn")


@pytest.mark.parametrize("pattern", ["m1", "m?"])
@pytest.mark.parametrize("before", [queued, waiting, parked, dropped, bad], ids=lambda one: str(one.__name__))
def test_its_end_is_told_and_spoils_whoever_waits(
    lab: Laboratory, before: Callable[[Laboratory], None], pattern: str
) -> None:
    """Who, when and why stand in `why` and `history`; the one that waited is parked with that reason."""
    before(lab)
    lab.run("enqueue", "after", "--after", "m1", "--future", "--", *lab.alone("after"))
    if before is dropped:
        lab.run("cancel", "m1")  # the enqueue has admitted it
        (lab.queue / "inbox/x").write_bytes(kranz_entry("m1"))
    lab.run("cancel", pattern, "--yes", "--why", "changed our mind")
    lab.run("drain", code=None)

    said = lab.run("why", "m1").stdout
    assert "m1 has ended" in said
    assert "cancelled, before it began, by " in said
    assert "changed our mind" in said
    assert "kranzq retry m1" in said
    (last,) = json.loads(lab.run("history", "m1", "--json", "--last", "1").stdout)["runs"]
    assert (last["outcome"], last["fate"], last["startedAt"]) == ("cancelled", "retire", None)
    assert last["endedAt"]
    assert "changed our mind" in lab.run("history", "m1").stdout
    assert "parked: it waited for another mission, and m1 was cancelled" in lab.run("why", "after").stdout
    assert lab.told() == []


def test_it_has_ended_for_whoever_asks_once(lab: Laboratory) -> None:
    """A hook that repeats its approval with `--once` does not bring back what a person has cancelled."""
    lab.enqueue("m1")
    lab.run("cancel", "m1")
    again = json.loads(lab.run("enqueue", "m1", "--once", "--json", "--", "true").stdout)
    repeated = lab.run("cancel", "m1").stdout

    assert (again["created"], again["outcome"]) == (False, "cancelled")
    assert "had ended already (run 1: cancelled)" in repeated
    assert lab.entries() == []


def test_it_can_be_tried_after_all(lab: Laboratory) -> None:
    """The entry was kept with the end, so `retry` knows the command; an enqueue begins anew."""
    lab.enqueue("m1")
    lab.run("cancel", "m1")
    lab.run("retry", "m1")
    lab.run("drain")

    assert lab.told() == ["start m1", "end m1"]
    assert lab.outcomes("m1") == ["cancelled", "succeeded"]


def test_whoever_waits_is_told_at_once(lab: Laboratory) -> None:
    """`wait` and `enqueue --wait` return when the mission is cancelled, and say how it ended."""
    lab.run("init")
    lab.run("pause")
    lab.start(lab.command("enqueue", "m1", "--wait", "--", "true"), log="waits")
    wait_for(lab.entries, "it is enqueued")
    lab.run("cancel", "m1", "--why", "not now")

    assert lab.started[-1].wait(PATIENCE) == 1
    assert "run 1 cancelled, before it began" in lab.log("waits")


def test_a_run_that_goes_on_keeps_the_last_word(lab: Laboratory) -> None:
    """One more run behind a running one is taken out without an end of its own: the running one's is to come."""
    lab.enqueue("m1", *lab.alone("m1", 60))
    drain = lab.start(lab.command("drain"))
    lab.keeper("m1")
    lab.run("enqueue", "m1", "--again", "--", *lab.alone("m1"))
    lab.run("cancel", "m1", "--wait")
    drain.wait(PATIENCE)

    assert lab.outcomes("m1") == ["cancelled"]
    assert lab.records("m1")[0].process is not None


def test_one_that_waited_for_its_next_try_began_before(lab: Laboratory) -> None:
    """Its last end is *cancelled*, and says that it had run."""
    lab.run("enqueue", "m1", "--retries", "3", "--", "false")
    lab.run("drain", "--once", code=None)
    lab.run("cancel", "m1")

    assert lab.outcomes("m1") == ["failed", "cancelled"]
    assert lab.records("m1")[-1].reason.startswith("before it began again, by ")
