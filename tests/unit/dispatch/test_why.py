"""Promises of `why`: every reason is named, in the order in which they bite, with what clears it."""

from __future__ import annotations

import itertools
import os
import time
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.dispatch.why import Reason, Why, why
from kranzq.errors import NoSuchMission
from kranzq.liveness import identity_of, me
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome, Park, Retire, Wait
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.wiring import looking, trusting
from tests.factories import enqueue, gone_pid, kranz_entry, make_queue

NO_COMMAND = Reason("no command", "it has no command", "Give one")


def ask(root: Path, mission: str, no_command: Reason | None = None) -> Why:
    """What `why` would answer."""
    with looking.open_sight(Checkout(str(root), has_git=False), os.environ) as sight:
        assert sight is not None
        return why(sight, MissionId(mission), no_command=no_command)


def codes(answer: Why) -> list[str]:
    """The reasons' codes in their order."""
    return [reason.code for reason in answer.reasons]


def queued(root: Path, *missions: str) -> None:
    """Queue unsigned missions that may run here."""
    with make_queue(root) as queue:
        for mission in missions:
            enqueue(queue, mission)
    trusting.approvals(os.environ).allow_unsigned(str(root))


def record(root: Path, mission: str, number: int = 0, **fields: object) -> RunRecord:
    """Write the record of a run."""
    checkout = Checkout(str(root), has_git=False)
    with make_queue(root) as queue:
        folder = Runs(checkout, queue.kranz_fd).new(MissionId(mission))
        with folder:
            values: dict[str, object] = {
                "kind": "mission",
                "mission": folder.mission,
                "run": folder.run,
                "state": "ended",
                "nonce": "0" * 32,
                "entry": EntryIdentity("0" * 32, "name", 1, None),
                "claim": "claim",
                "number": number,
                "keeper": me(),
                "started_at": "2026-01-01T00:00:00.000Z",
                "ended_at": "2026-01-01T00:01:00.000Z",
            }
            return folder.write(RunRecord(**(values | fields)), sync=False)  # type: ignore[arg-type]


def claim(root: Path, mission: str, pid: int) -> str:
    """Rename a queued mission to the claimed name of a process; the name."""
    folder = root / ".kranz/queue"
    name = next(name for name in os.listdir(folder) if name.endswith(f"-{mission}.json"))
    os.rename(folder / name, folder / f"{name}.claimed.{pid}.{'0' * 16}")
    return f"{name}.claimed.{pid}.{'0' * 16}"


def test_several_reasons_are_named_in_the_order_in_which_they_bite(tmp_path: Path) -> None:
    """No daemon comes before a pause, that before those in front, and the entry's own faults come last."""
    queued(tmp_path, "front", "mine")
    with make_queue(tmp_path) as queue:
        queue.pause("for the release")
    trusting.approvals(os.environ).withdraw_unsigned(str(tmp_path))

    answer = ask(tmp_path, "mine", NO_COMMAND)

    assert answer.state is State.QUEUED
    assert codes(answer) == ["no daemon", "paused", "trust", "no command"]
    assert answer.reasons[1].text == "paused: for the release"
    assert all(reason.clear for reason in answer.reasons)


def test_only_those_in_front_that_may_run_are_in_the_way(tmp_path: Path) -> None:
    """A mission behind two others says so and names the first; one that is held up itself is in nobody's way."""
    queued(tmp_path, "one", "two", "mine")
    (tmp_path / ".kranz/queue/000-00000000000000000000-damaged.json").write_text("{")

    behind = next(reason for reason in ask(tmp_path, "mine").reasons if reason.code == "behind")

    assert behind.text == "behind 2 others; the first is one"


def test_a_waiting_mission_says_until_when_and_because_of_what(tmp_path: Path) -> None:
    """The due time is local, and the end of the run that made it wait stands beside it."""
    queued(tmp_path, "mine")
    with make_queue(tmp_path) as queue, queue.change():
        entry = queue.read(queue.places()[0])
        queue.carry_out(queue.places()[0], Wait(2_000_000_000_000))
    assert entry is not None
    taken = EntryIdentity(entry.id, "name", 1, None)
    fate = Wait(2_000_000_000_000)
    record(tmp_path, "mine", entry=taken, outcome=Outcome.FAILED, fate=fate, reason="exit code 3", retries=2)

    answer = ask(tmp_path, "mine")

    due = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(2_000_000_000))
    assert answer.state is State.WAITING
    assert answer.reasons[0].text == f"not due until {due} (run 1 failed, exit code 3; 1 of 2 retries used)"


def test_an_entry_that_moves_during_the_look_is_not_taken_for_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry on its way from one folder to another is seen in neither; a second look finds it."""
    queued(tmp_path, "mine")
    record(tmp_path, "mine", outcome=Outcome.DEFERRED, fate=Retire(), reason="exit code 75")
    real, looks = FileQueue.places, itertools.count()
    monkeypatch.setattr(FileQueue, "places", lambda *words: real(*words) if next(looks) else ())

    assert ask(tmp_path, "mine").state is State.QUEUED


def test_a_parked_mission_says_why_and_how_to_get_it_back(tmp_path: Path) -> None:
    """What was set aside for a person tells that person what to type."""
    queued(tmp_path, "mine")
    with make_queue(tmp_path) as queue, queue.change():
        queue.carry_out(queue.places()[0], Park("interrupted 3 times"))

    answer = ask(tmp_path, "mine")

    assert (answer.state, codes(answer)) == (State.PARKED, ["parked"])
    assert answer.reasons[0].text == "parked: interrupted 3 times"
    assert "kranzq unpark mine" in answer.reasons[0].clear


def test_a_running_mission_names_run_time_and_process(tmp_path: Path) -> None:
    """Whoever asks learns which run it is, since when, and which processes to look at."""
    queued(tmp_path, "mine")
    name = claim(tmp_path, "mine", os.getpid())
    keeper = identity_of(os.getpid())
    record(tmp_path, "mine", state="running", claim=name, keeper=keeper, process=(os.getpid(), keeper.start_ticks))  # type: ignore[union-attr]

    answer = ask(tmp_path, "mine")

    assert (answer.state, codes(answer)) == (State.CLAIMED, ["running"])
    assert answer.reasons[0].text.startswith("running as run 1 since ")
    assert f"pid {os.getpid()}, keeper {os.getpid()}" in answer.reasons[0].text


def test_others_learn_whom_they_wait_for(tmp_path: Path) -> None:
    """A mission behind a running one names that one."""
    queued(tmp_path, "runs", "mine")
    name = claim(tmp_path, "runs", os.getpid())
    record(tmp_path, "runs", state="running", claim=name)

    busy = next(reason for reason in ask(tmp_path, "mine").reasons if reason.code == "busy")

    assert busy.text.startswith("busy with runs since ")


def test_a_claim_of_a_gone_holder_says_how_it_is_put_right(tmp_path: Path) -> None:
    """After a crash `why` gives the evidence and the command."""
    queued(tmp_path, "mine")
    pid = gone_pid()
    claim(tmp_path, "mine", pid)

    answer = ask(tmp_path, "mine")

    assert codes(answer) == ["holder gone"]
    assert f"process {pid} does not exist" in answer.reasons[0].text
    assert "kranzq recover" in answer.reasons[0].clear


def test_an_ended_mission_says_how_it_ended(tmp_path: Path) -> None:
    """Outcome, reason and fate of the last run are there after the entry is gone."""
    make_queue(tmp_path).close()
    record(tmp_path, "mine", outcome=Outcome.FAILED, fate=Retire(), reason="exit code 2", exit_code=2)

    answer = ask(tmp_path, "mine")

    assert (answer.state, codes(answer)) == (State.GONE, ["ended"])
    assert answer.reasons[0].text.endswith(": failed, exit code 2 (retire)")


@pytest.mark.parametrize(("number", "state"), [(7, State.QUARANTINED), (3, State.GONE)])
def test_of_a_quarantined_file_and_a_run_the_newer_one_tells(tmp_path: Path, number: int, state: State) -> None:
    """An old file in the quarantine does not hide that the mission has run since."""
    make_queue(tmp_path).close()
    record(tmp_path, "mine", 5, outcome=Outcome.SUCCEEDED, fate=Retire())
    folder = tmp_path / ".kranz/queue/quarantine"
    folder.mkdir()
    name = f"002-{number:020d}-mine.json"
    (folder / name).write_text("{")
    (folder / f"{name}.why.json").write_text('{"why": "it is not JSON"}')

    assert ask(tmp_path, "mine").state is state


def test_the_inbox_is_looked_into(tmp_path: Path) -> None:
    """A mission that nobody has admitted yet is known."""
    make_queue(tmp_path).close()
    folder = tmp_path / ".kranz/queue/inbox"
    folder.mkdir(exist_ok=True)
    (folder / "dropped").write_bytes(kranz_entry("mine"))

    answer = ask(tmp_path, "mine")

    assert (answer.state, codes(answer)[0]) == (State.INBOX, "inbox")


def test_a_second_entry_of_a_running_mission_is_called_a_duplicate(tmp_path: Path) -> None:
    """Two entries of one mission never both run unasked, and `why` says which one will not."""
    queued(tmp_path, "mine")
    claim(tmp_path, "mine", os.getpid())
    (tmp_path / ".kranz/queue/002-00000000000000000009-mine.json").write_bytes(kranz_entry("mine", 2, 9))

    assert "duplicate" in codes(ask(tmp_path, "mine"))


def test_a_mission_that_was_never_seen_is_an_error(tmp_path: Path) -> None:
    """A mistyped id is not answered with an empty list of reasons."""
    make_queue(tmp_path).close()

    with pytest.raises(NoSuchMission):
        ask(tmp_path, "never")


def test_nothing_but_the_daemon_is_missing(tmp_path: Path) -> None:
    """The first in a quiet queue has exactly one reason."""
    queued(tmp_path, "mine")

    assert ask(tmp_path, "mine").to_json() == {
        "mission": "mine",
        "state": "queued",
        "reasons": [
            {
                "reason": "no daemon",
                "text": "no daemon runs here",
                "clear": "Type: kranzq daemon (or once: kranzq drain)",
            }
        ],
    }
