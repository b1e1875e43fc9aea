"""Waiting for other missions: which end counts, which does not, and which requests could never end."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.dispatch.approve import approve
from kranzq.dispatch.choose import admit
from kranzq.dispatch.predecessors import Predecessors, Verdict
from kranzq.dispatch.request import Request
from kranzq.errors import Conflict, NotFound, UsageFault
from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Fate, Outcome, Park, Retire, Return, Rotate, Wait
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.wiring import approving, dispatchers
from tests.factories import kranz_entry, kranz_name

FIRST = MissionId("first")
NUMBER = 10


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[FileQueue]:
    """An open queue in a checkout without git."""
    root = tmp_path / "r"
    root.mkdir()
    with FileQueue.make(Checkout(str(root), has_git=False)) as one:
        yield one


def runs_of(queue: FileQueue) -> Runs:
    """The runs beside a queue."""
    return Runs(queue.folders.checkout, queue.kranz_fd)


def ran(queue: FileQueue, outcome: Outcome, fate: Fate) -> None:
    """A run of the first mission that has ended."""
    with runs_of(queue).new(FIRST) as folder:
        taken = EntryIdentity("0" * 32, "name", 1, None)
        record = RunRecord("mission", FIRST, folder.run, "ended", "ab" * 16, taken, "claim", 3, me())
        folder.write(replace(record, outcome=outcome, fate=fate, reason="a reason"), sync=False)


def there(queue: FileQueue, seq: int, state: State = State.QUEUED) -> None:
    """An entry of the first mission with a number, in a state."""
    name = kranz_name("first", seq=seq)
    texts = {State.WAITING: f"waiting/1.{name}", State.PARKED: f"parked/{name}"}
    texts |= {State.QUEUED: name, State.CLAIMED: f"{name}.claimed.{os.getpid()}.{'0' * 16}"}
    path = Path(queue.folders.checkout.queue, texts[state])
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(kranz_entry("first", seq=seq))


def kranz_says(queue: FileQueue, status: object) -> None:
    """What kranz keeps of the first mission."""
    folder = Path(queue.folders.checkout.missions, "first")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").write_text(json.dumps({"mission": {"status": status}}))


CASES: dict[str, tuple[list[Callable[[FileQueue], None]], Verdict, str]] = {
    "never seen": ([], Verdict.WAITS, "was not seen yet"),
    "succeeded": ([lambda q: ran(q, Outcome.SUCCEEDED, Retire())], Verdict.SATISFIED, ""),
    "failed": ([lambda q: ran(q, Outcome.FAILED, Retire())], Verdict.SPOILED, "first failed (a reason)"),
    "timed out": ([lambda q: ran(q, Outcome.TIMED_OUT, Retire())], Verdict.SPOILED, "timed out"),
    "cancelled": ([lambda q: ran(q, Outcome.CANCELLED, Retire())], Verdict.SPOILED, "was cancelled"),
    "failed, then succeeded": (
        [lambda q: ran(q, Outcome.FAILED, Retire()), lambda q: ran(q, Outcome.SUCCEEDED, Retire())],
        Verdict.SATISFIED,
        "",
    ),
    "succeeded, then failed": (
        [lambda q: ran(q, Outcome.SUCCEEDED, Retire()), lambda q: ran(q, Outcome.FAILED, Retire())],
        Verdict.SPOILED,
        "failed",
    ),
    "failed, with a try left": (
        [lambda q: ran(q, Outcome.FAILED, Wait(1)), lambda q: there(q, 3, State.WAITING)],
        Verdict.WAITS,
        "first is waiting",
    ),
    "deferred behind it": (
        [lambda q: ran(q, Outcome.DEFERRED, Rotate(1, 20)), lambda q: there(q, 20, State.WAITING)],
        Verdict.WAITS,
        "first is waiting",
    ),
    "interrupted and parked": (
        [lambda q: ran(q, Outcome.INTERRUPTED, Park("")), lambda q: there(q, 3, State.PARKED)],
        Verdict.WAITS,
        "first is parked",
    ),
    "taken out before it ran": ([lambda q: ran(q, Outcome.INTERRUPTED, Return())], Verdict.WAITS, "not in the queue"),
    "queued before it, with an old success": (
        [lambda q: ran(q, Outcome.SUCCEEDED, Retire()), lambda q: there(q, 5)],
        Verdict.WAITS,
        "first is queued",
    ),
    "queued after it, with an old success": (
        [lambda q: ran(q, Outcome.SUCCEEDED, Retire()), lambda q: there(q, 15)],
        Verdict.SATISFIED,
        "",
    ),
    "failed and queued anew": (
        [lambda q: ran(q, Outcome.FAILED, Retire()), lambda q: there(q, 15)],
        Verdict.WAITS,
        "first is queued",
    ),
    "running, with an old success": (
        [lambda q: ran(q, Outcome.SUCCEEDED, Retire()), lambda q: there(q, 15, State.CLAIMED)],
        Verdict.WAITS,
        "first is running",
    ),
    "kranz: complete": ([lambda q: kranz_says(q, "complete")], Verdict.SATISFIED, ""),
    "kranz: complete after a failure here": (
        [lambda q: ran(q, Outcome.FAILED, Retire()), lambda q: kranz_says(q, "complete")],
        Verdict.SATISFIED,
        "",
    ),
    "kranz: failed": ([lambda q: kranz_says(q, "failed")], Verdict.SPOILED, "kranz says that first is failed"),
    "kranz: running": ([lambda q: kranz_says(q, "running")], Verdict.WAITS, "was not seen yet"),
    "kranz: nonsense": ([lambda q: kranz_says(q, ["complete"])], Verdict.WAITS, "was not seen yet"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_table_of_predecessors(queue: FileQueue, case: str) -> None:
    """The table of the reference page, row by row."""
    acts, verdict, why = CASES[case]
    for act in acts:
        act(queue)
    judged = Predecessors(runs_of(queue), queue.places()).judge((FIRST,), NUMBER)

    assert judged.verdict is verdict
    assert why in judged.why


def test_the_worst_of_several_counts(queue: FileQueue) -> None:
    """One that ended badly spoils it, however many have yet to end; all must have succeeded."""
    ran(queue, Outcome.FAILED, Retire())
    known = Predecessors(runs_of(queue), queue.places())

    assert known.judge((MissionId("other"), FIRST), NUMBER).verdict is Verdict.SPOILED
    assert known.judge((MissionId("other"), MissionId("third")), NUMBER).why == (
        "other was not seen yet; third was not seen yet"
    )
    assert known.judge((), NUMBER).verdict is Verdict.SATISFIED


def ask(queue: FileQueue, mission: str, *after: str, future: bool = True) -> State:
    """Approve a mission that waits for others."""
    request = Request(MissionId(mission), command=("true",), after=tuple(map(MissionId, after)), future=future)
    return approve(approving.approver(queue.folders.checkout, queue, os.environ), request).state


def test_missions_that_would_wait_for_each_other_are_refused(queue: FileQueue) -> None:
    """A circle is found through any number of waiting missions, and nothing is written for the one that closes it."""
    assert ask(queue, "a", "b") is State.WAITING
    assert ask(queue, "b", "c", "x") is State.WAITING
    with pytest.raises(Conflict, match="c waits for a waits for b waits for c"):
        ask(queue, "c", "y", "a")
    with pytest.raises(UsageFault, match="cannot wait for itself"):
        ask(queue, "d", "d")

    assert [place.mission for place in queue.places()] == ["a", "b"]


def test_a_mission_that_was_never_seen_needs_a_word(queue: FileQueue) -> None:
    """Mostly it is a typing mistake; one that is queued, has run, or is kranz's is known."""
    with pytest.raises(NotFound, match="no mission first to wait for"):
        ask(queue, "later", "first", future=False)
    kranz_says(queue, "running")

    assert ask(queue, "later", "first", future=False) is State.WAITING
    assert ask(queue, "last", "later", future=False) is State.WAITING


def test_a_predecessor_that_moves_during_the_look_is_not_taken_for_gone(
    queue: FileQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It succeeded once and was approved anew: seen in no folder for an instant, it still is to run first."""
    ran(queue, Outcome.SUCCEEDED, Retire())
    there(queue, 3)
    name = kranz_name("second", seq=NUMBER)
    own = {"id": "1" * 32, "after": ["first"]}
    entry = json.dumps({"missionId": "second", "priority": 2, "seq": NUMBER, "kranzq": own})
    waiting = Path(queue.folders.checkout.queue, "waiting", f"after.{name}")
    waiting.parent.mkdir(exist_ok=True)
    waiting.write_text(entry)
    real, looks = FileQueue.places, itertools.count()
    monkeypatch.setattr(FileQueue, "places", lambda *words: real(*words) if next(looks) else ())
    admit(dispatchers.parts_of_a_verb(queue.folders.checkout, os.environ), queue, runs_of(queue))

    assert next(looks) == 2
    assert waiting.exists()
