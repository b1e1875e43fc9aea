"""Verbs that change one's mind are killed before each change of the disk, and typed again."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.trust.mac import Signature, verify
from kranzq.wiring import queues, trusting
from tests.factories import remove
from tests.laboratory import Laboratory
from tests.scenes import kill_points

pytestmark = [pytest.mark.crash, pytest.mark.slow]
MOST_CHANGES = 60


@dataclass(frozen=True)
class Verb:
    """A verb, what is there before it, and where the entry is afterwards."""

    words: tuple[str, ...]
    before: Callable[[Laboratory, str], None]
    between: frozenset[State]
    after: State


def queued(lab: Laboratory, mission: str) -> None:
    """A mission that is queued."""
    lab.enqueue(mission)


def parked(lab: Laboratory, mission: str) -> None:
    """A mission that is parked."""
    lab.enqueue(mission)
    lab.run("park", mission, "to begin with")


def over(lab: Laboratory, mission: str) -> None:
    """A mission that has failed."""
    lab.enqueue(mission, *lab.alone(mission, code=3))
    lab.run("drain", "--once", code=1)


def nothing(lab: Laboratory, mission: str) -> None:
    """No mission at all."""
    lab.run("init")


HERE = State.QUEUED, State.PARKED
VERBS = {
    "park": Verb(("park", "{}", "now"), queued, frozenset(HERE), State.PARKED),
    "unpark": Verb(("unpark", "{}"), parked, frozenset(HERE), State.QUEUED),
    "edit the priority": Verb(("edit", "{}", "--priority", "0"), queued, frozenset({State.QUEUED}), State.QUEUED),
    "edit what is parked": Verb(("edit", "{}", "--priority", "9"), parked, frozenset({State.PARKED}), State.PARKED),
    "edit all": Verb(
        ("edit", "{}", "--priority", "7", "--timeout", "50s", "--not-before", "+5h"),
        queued,
        frozenset({State.QUEUED, State.WAITING}),
        State.WAITING,
    ),
    "retry": Verb(("retry", "{}"), over, frozenset({State.QUEUED}), State.QUEUED),
    "publish into waiting": Verb(
        ("enqueue", "{}", "--not-before", "+5h", "--", "true"), nothing, frozenset({State.WAITING}), State.WAITING
    ),
}


def entries_of(lab: Laboratory, mission: str) -> list[tuple[State, Entry | None]]:
    """Where entries of a mission are, each with its content."""
    with queues.make_queue(lab.checkout) as queue:
        return [(place.state, queue.read(place)) for place in queue.places(MissionId(mission))]


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_killed_before_every_change_of_the_disk_can_be_repeated(lab: Laboratory, name: str) -> None:
    """Whatever it was killed at, one whole signed entry is in one place; typed again, the verb does what it says."""
    verb = VERBS[name]
    may_be_absent = verb.before in {over, nothing}
    for number in kill_points(1, MOST_CHANGES):
        mission = f"m{number}"
        verb.before(lab, mission)
        words = [word.format(mission) for word in verb.words]
        code = lab.killed(f"change:{number}", *words)
        left = entries_of(lab, mission)
        assert code in {0, -signal.SIGKILL}, lab.log()
        assert len(left) == 1 or (may_be_absent and not left)
        for state, entry in left:
            assert state in verb.between
            assert entry is not None
            assert verify(entry, lab.checkout.root, trusting.keyring(os.environ)) is Signature.VALID
        lab.run(*words)
        done = entries_of(lab, mission)
        assert [state for state, _ in done] == [verb.after]
        with queues.make_queue(lab.checkout) as queue:
            remove(queue, mission)
        if code == 0:
            break

    assert 3 < number < MOST_CHANGES
    assert entries_of(lab, f"m{number}") == []
    assert lab.entries() == []


def test_what_a_killed_edit_left_is_completed_by_the_same_edit(lab: Laboratory) -> None:
    """Killed between content and name: until somebody looks the name wins; a repeat ends it, with the number it had."""
    lab.enqueue("m1")
    words = ["edit", "m1", "--priority", "9", "--timeout", "50s"]
    point = "after:kranzq.disk.atomic:exchange_content:1"
    code = lab.killed(point, *words)
    state, entry = entries_of(lab, "m1")[0]
    lab.run(*words)
    _, edited = entries_of(lab, "m1")[0]

    assert code == -signal.SIGKILL
    assert entry is not None
    assert entry.own is not None
    assert (state, entry.priority, entry.own.timeout_seconds) == (State.QUEUED, 2, 50.0)
    assert edited is not None
    assert (edited.priority, edited.number) == (9, 1)
    lab.enqueue("m2")  # whoever takes the next number moves kranz's lock of the killed one aside
    lab.run("drain")
    assert lab.told() == ["start m2", "end m2", "start m1", "end m1"]
    lab.assert_nothing_left()
