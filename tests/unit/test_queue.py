"""The library: kranz's functions with kranz's traps removed, each by the promise that removes it."""

from __future__ import annotations

import errno
import json
import os
import select
from pathlib import Path

import pytest

from kranzq import queue as q
from kranzq.backend import Backend
from kranzq.errors import (
    BadMissionId,
    ClaimLost,
    Conflict,
    KranzqError,
    NoCheckout,
    RepoBusy,
    StoreUnavailable,
    UnsafePath,
    UsageFault,
)
from kranzq.liveness import kranz_token
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claim
from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.runs.folder import CANCEL
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord
from kranzq.testing.store import claim_as_gone
from kranzq.wiring import library, trusting
from tests.factories import kranz_entry, kranz_name, make_queue, names, run_python

PRELUDE = "import os, sys\nfrom kranzq import queue as q\nroot = sys.argv[1]\n"
MARKED_CHILD = (
    "import subprocess\nclaim = q.claim_front(root)\n"
    "child = subprocess.Popen(['sleep', '60'], env=os.environ | claim.environment, start_new_session=True,\n"
    "                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n"
    "print(child.pid, flush=True); sys.stdin.read()\n"
)
"""After the prelude: a holder whose child bears the mark of its claim."""


def claim(root: Path) -> q.QueueClaim:
    """Claim the front with the busy lock; it must be there and free."""
    taken = q.claim_front_when_repo_free(root)
    assert isinstance(taken, q.Claimed)
    return taken.claim


def last_record(root: Path, mission: str) -> RunRecord:
    """The newest record of a mission."""
    with make_queue(root) as queue:
        record = Runs(queue.folders.checkout, queue.kranz_fd).last(MissionId(mission))
    assert record is not None
    return record


def tree(root: Path) -> dict[str, bytes]:
    """Everything below a directory."""
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_the_library_needs_no_daemon_and_no_init(checkout: Path) -> None:
    """From nothing to a finished mission, from any directory inside the checkout and by path or value."""
    (checkout / "src").mkdir()
    accepted = q.enqueue(checkout / "src", "m-1")
    value = Checkout(str(checkout), has_git=True)

    assert (accepted.created, accepted.entry.number) == (True, 0)
    assert q.queue_dir(value) == f"{checkout}/.kranz/queue"
    assert q.peek(value) == accepted.entry
    mine = claim(checkout)
    assert (mine.mission, q.is_repo_busy(checkout), q.entries(checkout)) == ("m-1", "m-1", [])
    q.finish_claim(mine)
    assert (q.is_repo_busy(checkout), q.peek(checkout)) == (None, None)


def test_the_library_is_a_backend(checkout: Path) -> None:
    """The type checker holds the mission queue against the contract."""
    backend: Backend[Entry, Entry, State, Claim] = library.mission_backend(
        Checkout(str(checkout), has_git=True), os.environ
    )

    assert backend.entries() == []


def test_looking_makes_nothing(checkout: Path) -> None:
    """Every function that only looks leaves a checkout without a queue without one."""
    assert (q.entries(checkout), q.peek(checkout), q.contains(checkout, "m-1")) == ([], None, False)
    assert (q.is_repo_busy(checkout), q.read_enqueue_source(checkout, "m-1")) == (None, None)
    assert (q.remove(checkout, "m-1"), q.recover_dead_claims(checkout)) == (False, 0)
    assert (q.remove_enqueue_source(checkout, "m-1"), q.return_enqueue_source(checkout, "m-1")) == (False, False)
    assert not (checkout / ".kranz").exists()


def test_without_a_checkout_there_is_a_sentence(tmp_path: Path) -> None:
    """Outside of any checkout each function says so, also those that else answer with nothing."""
    for act in (q.entries, q.is_repo_busy, q.claim_front, q.recover_dead_claims):
        with pytest.raises(NoCheckout):
            act(tmp_path)
    with pytest.raises(NoCheckout):
        q.cancel_enqueue_source(tmp_path, "m-1")


def test_a_claimed_mission_counts_as_queued(checkout: Path) -> None:
    """While a mission is claimed it is contained, is not queued again, and removing leaves it alone."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    again = q.enqueue(checkout, "m-1")

    assert (again.created, again.state, q.contains(checkout, "m-1")) == (False, q.State.CLAIMED, True)
    assert not q.remove(checkout, "m-1")
    q.finish_claim(mine)
    assert not q.contains(checkout, "m-1")


def test_b48_the_answer_tells_what_was_taken_of_a_second_approval(checkout: Path) -> None:
    """A new priority is not taken silently: the entry that is there is the answer; another command is refused."""
    q.enqueue(checkout, "m-1", priority=5)
    second = q.enqueue(checkout, "m-1", priority=0)

    assert (second.created, second.entry.priority) == (False, 5)
    own = Own(id="0" * 32, command=("true",))
    with pytest.raises(Conflict, match="another command"):
        q.enqueue(checkout, Entry(MissionId("m-1"), own=own))
    with pytest.raises(Conflict, match="case"):
        q.enqueue(checkout, "M-1")
    with pytest.raises(BadMissionId):
        q.enqueue(checkout, "m-1 ")
    assert [entry.priority for entry in q.entries(checkout)] == [5]


def test_b48_after_its_end_a_mission_is_a_new_entry(checkout: Path) -> None:
    """A mission that has ended can be approved anew; it is another entry with a number of its own."""
    first = q.enqueue(checkout, "m-1").entry
    q.finish_claim(claim(checkout))
    second = q.enqueue(checkout, "m-1")

    assert second.created
    assert second.entry.id != first.id
    assert second.entry.number > first.number


def test_a_busy_checkout_is_found_out_before_claiming(checkout: Path) -> None:
    """While somebody holds the checkout not even a name changes in the queue, and the holder's mission is told."""
    q.enqueue(checkout, "m-1")
    with q.acquire_repo_busy(checkout, "m-0"):
        before = {name: (checkout / ".kranz/queue" / name).stat().st_mtime_ns for name in names(checkout)}
        taken = q.claim_front_when_repo_free(checkout)
        after = {name: (checkout / ".kranz/queue" / name).stat().st_mtime_ns for name in names(checkout)}

    assert isinstance(taken, q.Busy)
    assert (taken.mission, after) == ("m-0", before)
    assert q.claim_front_when_repo_free(checkout) != taken


def test_an_empty_queue_says_why_others_wait(checkout: Path) -> None:
    """An entry that may not run is passed over with the reason; the busy lock is free again."""
    assert q.claim_front_when_repo_free(checkout) == q.Empty()
    (checkout / ".kranz/queue" / kranz_name("m-1")).write_bytes(kranz_entry("m-1"))
    taken = q.claim_front_when_repo_free(checkout)

    assert isinstance(taken, q.Empty)
    assert "unsigned" in taken.passed_over["m-1"]
    assert q.is_repo_busy(checkout) is None


def test_a_planted_entry_is_not_handed_out(checkout: Path) -> None:
    """An entry that was changed after it was signed is set aside; an unsigned one is handed out without its command."""
    q.enqueue(checkout, Entry(MissionId("m-1"), own=Own(id="0" * 32, command=("true",))))
    path = checkout / ".kranz/queue" / kranz_name("m-1")
    value = json.loads(path.read_text())
    value["kranzq"]["command"] = ["rm", "-rf", "/"]
    path.write_text(json.dumps(value))
    assert q.claim_front(checkout) is None
    assert kranz_name("m-1") in names(checkout, "quarantine")

    del value["kranzq"]["mac"], value["kranzq"]["key"]
    path.write_text(json.dumps(value))
    assert q.claim_front(checkout) is None
    trusting.approvals(os.environ).allow_unsigned(str(checkout))
    mine = q.claim_front(checkout)
    assert mine is not None
    assert mine.entry.own is not None
    assert mine.entry.own.command == ()


def test_one_mission_can_be_asked_for(checkout: Path) -> None:
    """Who waits for one mission takes that and leaves the front to the others."""
    for count in range(3):
        q.enqueue(checkout, f"m-{count}")
    mine = q.claim_front(checkout, mission="m-2")

    assert mine is not None
    assert mine.mission == "m-2"
    assert q.claim_front(checkout, mission="m-9") is None
    assert [str(entry.mission) for entry in q.entries(checkout)] == ["m-0", "m-1"]


def test_a_claim_leaves_a_record_that_names_its_process(checkout: Path) -> None:
    """From claim to end the record tells whose it is, how it ended, and that nothing was put back."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    running = last_record(checkout, "m-1")
    q.finish_claim(mine, q.Outcome.FAILED)
    ended = last_record(checkout, "m-1")

    assert (running.kind, running.state, running.keeper.pid) == ("library", "running", os.getpid())
    assert running.claim.endswith(f".claimed.{os.getpid()}.{running.claim[-16:]}")
    assert (ended.state, ended.outcome, ended.run) == ("ended", q.Outcome.FAILED, running.run)


def test_a_release_is_no_interruption(checkout: Path) -> None:
    """A released entry has its old name and bytes, and its record says by whom and that nothing had begun."""
    q.enqueue(checkout, "m-1")
    before = tree(checkout / ".kranz/queue")[q.queue_dir(checkout) + "/" + kranz_name("m-1")]
    mine = claim(checkout)

    assert q.release_claim(mine, "not mine") is q.State.QUEUED
    record = last_record(checkout, "m-1")
    assert (record.outcome, record.counted, record.reason) == (q.Outcome.NEVER_BEGAN, False, "released: not mine")
    assert (checkout / ".kranz/queue" / kranz_name("m-1")).read_bytes() == before


def test_a_release_never_replaces_a_newer_entry(checkout: Path) -> None:
    """If the old place is taken the file there stays, and the released one is parked and said to be."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    (checkout / ".kranz/queue" / kranz_name("m-1")).write_bytes(b"newer")

    assert q.release_claim(mine) is q.State.PARKED
    assert (checkout / ".kranz/queue" / kranz_name("m-1")).read_bytes() == b"newer"
    assert kranz_name("m-1") in names(checkout, "parked")


def test_a_cancelled_mission_does_not_come_back_by_a_release(checkout: Path) -> None:
    """Whoever cancels while it is claimed gets what was asked for: a release retires the entry."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    with make_queue(checkout) as queue:
        folder = Runs(queue.folders.checkout, queue.kranz_fd).open(mine.mission, 1)
        assert folder is not None
        with folder:
            folder.wish(CANCEL, "a person", "not needed")

    assert q.release_claim(mine) is q.State.GONE
    assert q.entries(checkout) == []
    assert last_record(checkout, "m-1").outcome is q.Outcome.CANCELLED


def test_a_lost_claim_changes_nothing_and_frees_the_checkout(checkout: Path) -> None:
    """When the claimed file is gone the holder is told, the record of another is untouched, and the lock is free."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    (name,) = names(checkout)
    (checkout / ".kranz/queue" / name).rename(checkout / ".kranz/queue" / kranz_name("m-1"))
    before = tree(checkout / ".kranz/missions")
    with pytest.raises(ClaimLost):
        q.finish_claim(mine)

    assert tree(checkout / ".kranz/missions") == before
    assert [str(entry.mission) for entry in q.entries(checkout)] == ["m-1"]
    assert q.is_repo_busy(checkout) is None


def test_a_claim_of_another_file_under_the_same_name_is_lost(checkout: Path) -> None:
    """Name, inode and entry id must all be those that were claimed."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    (name,) = names(checkout)
    path = checkout / ".kranz/queue" / name
    content = path.read_bytes()
    path.rename(checkout / "kept")
    path.write_bytes(content)
    with pytest.raises(ClaimLost):
        q.release_claim(mine)

    (checkout / "kept").rename(path)
    value = json.loads(content)
    value["kranzq"]["id"] = "f" * 32
    path.write_text(json.dumps(value))
    with pytest.raises(ClaimLost):
        q.finish_claim(mine)
    assert names(checkout) == [name]


def test_a_forgotten_claim_changes_nothing_on_disk(checkout: Path) -> None:
    """An object that is collected, as of a cancelled task, puts nothing back while its work may go on."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    before = names(checkout)
    del mine

    assert names(checkout) == before
    assert q.recover_dead_claims(checkout) == 0
    assert isinstance(q.claim_front_when_repo_free(checkout), q.Busy)


def test_a_claim_survives_without_its_record(checkout: Path) -> None:
    """If the run's folder was removed under it, a claim can still be finished by its holder."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    for path in sorted((checkout / ".kranz/missions").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    q.finish_claim(mine)

    assert names(checkout) == []


@pytest.mark.parametrize("end", ["finish", "release"])
def test_b36_an_end_that_the_disk_refuses_can_be_repeated(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """On a full disk claim and busy lock stay as they are; with room again the same call succeeds."""
    q.enqueue(checkout, "m-1")
    mine = claim(checkout)
    before = names(checkout)

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fails)
        with pytest.raises(StoreUnavailable):
            _ = q.finish_claim(mine) if end == "finish" else q.release_claim(mine)  # type: ignore[func-returns-value]

    assert (names(checkout), q.is_repo_busy(checkout)) == (before, "m-1")
    _ = q.finish_claim(mine) if end == "finish" else q.release_claim(mine)  # type: ignore[func-returns-value]
    assert q.is_repo_busy(checkout) is None
    assert len(q.entries(checkout)) == (0 if end == "finish" else 1)


def test_b36_no_claim_is_taken_whose_record_cannot_be_written(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk nothing is claimed, the entry stays where it is, and no half run remains."""
    q.enqueue(checkout, "m-1")

    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fails)
        for act in (q.claim_front, q.claim_front_when_repo_free):
            with pytest.raises((KranzqError, OSError)):
                act(checkout)

    assert names(checkout) == [kranz_name("m-1")]
    assert q.is_repo_busy(checkout) is None
    q.finish_claim(claim(checkout))


def test_an_end_that_was_recorded_is_carried_out_and_not_run_again(checkout: Path) -> None:
    """A holder that dies between record and move has ended its mission: recovery retires it."""
    q.enqueue(checkout, "m-1")
    code = PRELUDE + (
        "from kranzq.dispatch import library_claim\n"
        "library_claim._carry_out = lambda *_: os._exit(9)\n"
        "q.finish_claim(q.claim_front(root))\n"
    )
    with run_python(code, str(checkout)) as holder:
        assert holder.wait() == 9
    assert len([name for name in names(checkout) if ".claimed." in name]) == 1

    assert q.recover_dead_claims(checkout) == 1
    assert q.entries(checkout) == []
    assert last_record(checkout, "m-1").outcome is q.Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("point", "counted"), [("queue.take(", False), ('state="running"', False), ("emit(ClaimedEvent", True)]
)
def test_b01_a_holder_that_dies_anywhere_in_claiming_leaves_the_entry(
    checkout: Path, point: str, *, counted: bool
) -> None:
    """Killed before, at or after the rename: the entry is queued or goes back at once, counted only if it had begun."""
    q.enqueue(checkout, "m-1")
    code = PRELUDE + (
        "import inspect\nfrom kranzq.dispatch import library_claim\n"
        "text, first = inspect.getsourcelines(library_claim.take)\n"
        f"line = first + next(at for at, one in enumerate(text) if {point!r} in one)\n"
        "def trace(frame, event, arg):\n"
        "    if event == 'line' and frame.f_code.co_name == 'take' and frame.f_lineno == line: os._exit(9)\n"
        "    return trace\n"
        "sys.settrace(trace)\nq.claim_front(root)\n"
    )
    with run_python(code, str(checkout)) as holder:
        assert holder.wait() == 9
    q.recover_dead_claims(checkout)

    assert names(checkout) == [kranz_name("m-1")]
    mine = claim(checkout)
    records = last_record(checkout, "m-1").run
    assert records == 2
    with make_queue(checkout) as queue:
        first = list(Runs(queue.folders.checkout, queue.kranz_fd).records(mine.mission))[-1]
    assert first.outcome is (q.Outcome.INTERRUPTED if counted else q.Outcome.NEVER_BEGAN)
    q.finish_claim(mine)


def test_b01_a_killed_holder_frees_everything_at_once(checkout: Path) -> None:
    """After a kill the next one recovers claim and lock without waiting and without a hand, in the old order."""
    for count in range(3):
        q.enqueue(checkout, f"m-{count}")
    code = PRELUDE + "print(q.claim_front_when_repo_free(root).claim.mission, flush=True); sys.stdin.read()\n"
    with run_python(code, str(checkout)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "m-0\n"
        assert q.recover_dead_claims(checkout) == 0
        assert q.is_repo_busy(checkout) == "m-0"
        holder.kill()
    mine = claim(checkout)

    assert mine.mission == "m-0"
    assert [str(entry.mission) for entry in q.entries(checkout)] == ["m-1", "m-2"]
    q.finish_claim(mine)


def test_a_record_that_a_holder_wrote_as_its_last_act_names_its_leftovers(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was not there when the claim was judged: what bears its mark is ended all the same before the claim moves."""
    q.enqueue(checkout, "m-1")
    with run_python(PRELUDE + MARKED_CHILD, str(checkout)) as holder:
        assert holder.stdout is not None
        child = os.pidfd_open(int(holder.stdout.readline()))
        holder.kill()
    whole, looks = Runs.of_claim, iter([False])
    monkeypatch.setattr(Runs, "of_claim", lambda *asked: whole(*asked) if next(looks, True) else None)

    assert q.recover_dead_claims(checkout) == 1
    assert select.select([child], [], [], 20)[0] == [child]
    os.close(child)


@pytest.mark.parametrize("git", [True, False], ids=["git", "no-git"])
def test_b15_what_a_killed_holder_started_is_ended_before_the_mission_runs_again(
    checkout: Path, tmp_path: Path, *, git: bool
) -> None:
    """A process that bears the claim's environment outlives its holder: the claim stays until that process is gone."""
    root = checkout if git else tmp_path / "plain"
    (root / ".kranz/queue").mkdir(parents=True)
    q.enqueue(root, "m-1")
    with run_python(PRELUDE + MARKED_CHILD, str(root)) as holder:
        assert holder.stdout is not None
        child = os.pidfd_open(int(holder.stdout.readline()))
        holder.kill()
    assert q.recover_dead_claims(root, end_leftovers=False) == 0
    assert select.select([child], [], [], 0)[0] == []

    assert q.recover_dead_claims(root) == 1
    assert select.select([child], [], [], 20)[0] == [child]
    assert [str(entry.mission) for entry in q.entries(root)] == ["m-1"]
    os.close(child)


def test_b09_a_zombie_has_no_claim(checkout: Path) -> None:
    """A holder that is dead and not yet reaped by its parent holds nothing."""
    q.enqueue(checkout, "m-1")
    with run_python(PRELUDE + "q.claim_front(root); os._exit(0)\n", str(checkout)) as holder:
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)

        assert q.recover_dead_claims(checkout) == 1
    assert len(q.entries(checkout)) == 1


def test_only_a_proven_death_frees_at_once(checkout: Path) -> None:
    """Foreign marks, and what is alive or cannot be judged, stay; a number that was given out again is no holder."""
    q.enqueue(checkout, "m-0")
    token = kranz_token(os.getppid())
    assert token is not None
    stay = [
        f"{kranz_name('m-1', 2, 1)}.claimed.host7-4711",
        f"{kranz_name('m-2', 2, 2)}.claimed.{os.getppid()}",
        f"{kranz_name('m-3', 2, 3)}.claimed.999999999.{'0' * 16}",
    ]
    goes = f"{kranz_name('m-4', 2, 4)}.claimed.{os.getppid()}.{'0' * 16}"
    for count, name in enumerate([*stay, goes], start=1):
        (checkout / ".kranz/queue" / name).write_bytes(kranz_entry(f"m-{count}", 2, count))

    assert q.recover_dead_claims(checkout) == 1
    assert set(stay) < set(names(checkout))
    assert kranz_name("m-4", 2, 4) in names(checkout)


def test_the_busy_question_removes_no_dead_lock(checkout: Path) -> None:
    """Asking whether the checkout is busy leaves even a dead lock where it is, so it can take part in no take-over."""
    q.enqueue(checkout, "m-1")
    (checkout / ".kranz/queue/.repo.busy.lock").write_text("1\n0\nanother:1\n0\n")
    (checkout / ".kranz/queue/.repo.busy.mission").write_text("m-9")
    before = tree(checkout / ".kranz/queue")

    assert q.is_repo_busy(checkout) is None
    assert tree(checkout / ".kranz/queue") == before


def test_a_kranz_at_work_makes_busy(checkout: Path) -> None:
    """A living kranz's lock, or its engine in a mission, names its mission and stops us from taking the checkout."""
    q.enqueue(checkout, "m-1")
    record = f"{os.getppid()}\n0\n{kranz_token(os.getppid())}\n0\n"
    lock = checkout / ".kranz/queue/.repo.busy.lock"
    lock.write_text(record)
    (checkout / ".kranz/queue/.repo.busy.mission").write_text("m-9")
    assert q.is_repo_busy(checkout) == "m-9"
    with pytest.raises(RepoBusy), q.acquire_repo_busy(checkout, "m-2"):
        pass
    lock.unlink()
    (checkout / ".kranz/queue/.repo.busy.mission").unlink()
    (checkout / ".kranz/missions/m-8").mkdir(parents=True)
    (checkout / ".kranz/missions/m-8/events.jsonl").touch()
    (checkout / ".kranz/missions/m-8/events.jsonl.lock").write_text(record)

    assert q.is_repo_busy(checkout) == "m-8"
    assert isinstance(q.claim_front_when_repo_free(checkout), q.Busy)


def test_the_busy_lock_excludes_and_is_let_go(checkout: Path) -> None:
    """Work outside the queue holds the checkout like a mission, also when it fails, and leaves nothing behind."""
    q.enqueue(checkout, "m-1")

    def work() -> None:
        with q.acquire_repo_busy(checkout, "m-0"):
            with pytest.raises(RepoBusy), q.acquire_repo_busy(checkout, "m-2"):
                pass
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    left = {name for name in os.listdir(checkout / ".kranz/queue") if "busy" in name}

    assert left == {".busy.flock"}
    assert q.is_repo_busy(checkout) is None


def test_a_producers_binding_lives_beside_its_mission(checkout: Path) -> None:
    """Written before the entry, read by anybody, returned once; a failed enqueue takes it back."""
    source = q.write_enqueue_source(checkout, "m-1", "tracker", "TICKET-7")

    assert q.read_enqueue_source(checkout, "m-1") == source
    assert (source.producer, source.reference) == ("tracker", "TICKET-7")
    assert q.remove_enqueue_source(checkout, "m-1")
    q.write_enqueue_source(checkout, "m-1", "tracker", "TICKET-7")
    assert q.return_enqueue_source(checkout, "m-1")
    assert not q.return_enqueue_source(checkout, "m-1")
    q.write_enqueue_source(checkout, "m-1", "tracker", "TICKET-8")
    assert q.cancel_enqueue_source(checkout, "m-1")
    assert q.read_enqueue_source(checkout, "m-1") is None
    with pytest.raises(UsageFault):
        q.write_enqueue_source(checkout, "m-1", "", "TICKET-7")


@pytest.mark.parametrize("text", ["../../x", "/abs", "a/b", ".", "..", "", " ", "a.claimed.1", "x.json", "\n", "a\0b"])
def test_b49_no_function_takes_an_id_that_is_none(checkout: Path, text: str) -> None:
    """Every function that is given an id refuses one that is none, and nothing is made or removed anywhere."""
    before = tree(checkout)
    for act in (
        lambda: q.enqueue(checkout, text),
        lambda: q.contains(checkout, text),
        lambda: q.remove(checkout, text),
        lambda: q.claim_front(checkout, mission=text),
        lambda: q.claim_front_when_repo_free(checkout, mission=text),
        lambda: q.write_enqueue_source(checkout, text, "p", "r"),
        lambda: q.read_enqueue_source(checkout, text),
        lambda: q.remove_enqueue_source(checkout, text),
        lambda: q.return_enqueue_source(checkout, text),
        lambda: q.cancel_enqueue_source(checkout, text),
        lambda: q.acquire_repo_busy(checkout, text).__enter__(),
    ):
        with pytest.raises(BadMissionId):
            act()

    assert tree(checkout) == before


def test_b49_a_mission_folder_that_is_a_link_is_not_written_through(checkout: Path, tmp_path: Path) -> None:
    """A planted link in the place of a mission's folder is refused; nothing appears behind it, the entry stays."""
    q.enqueue(checkout, "m-1")
    (tmp_path / "elsewhere").mkdir()
    (checkout / ".kranz/missions").mkdir(exist_ok=True)
    (checkout / ".kranz/missions/m-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafePath):
        q.write_enqueue_source(checkout, "m-1", "p", "r")
    with pytest.raises(KranzqError):
        q.claim_front(checkout)

    assert os.listdir(tmp_path / "elsewhere") == []
    assert names(checkout) == [kranz_name("m-1")]


def test_b57_two_worktrees_are_two_checkouts(checkout: Path, tmp_path: Path) -> None:
    """Each working tree has its own queue and its own busy lock, and none shows in git's status."""
    import subprocess

    git = ("git", "-c", "user.name=A Person", "-c", "user.email=person@example.org")
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "two"), "-b", "two"], cwd=checkout, check=True)
    q.enqueue(checkout, "m-1")
    q.enqueue(tmp_path / "two", "m-1")
    with q.acquire_repo_busy(checkout, "m-0"):
        q.finish_claim(claim(tmp_path / "two"))
    status = subprocess.run([*git, "status", "--porcelain"], cwd=checkout, check=True, capture_output=True)

    assert status.stdout == b""
    assert len(q.entries(checkout)) == 1


def test_an_entry_that_should_wait_waits(checkout: Path) -> None:
    """A due time is kept: the entry is there, and nobody gets it before."""
    own = Own(id="0" * 32, not_before="2126-01-01T00:00:00Z")
    accepted = q.enqueue(checkout, Entry(MissionId("m-1"), own=own))

    assert accepted.state is q.State.WAITING
    assert q.entries(checkout) == []
    assert [entry.mission for entry in q.entries(checkout, q.State.WAITING)] == ["m-1"]
    assert q.claim_front(checkout) is None


def test_claims_for_other_processes_are_judged_by_them(checkout: Path) -> None:
    """A supervisor may claim for a worker: the claim is the worker's and ends with it."""
    q.enqueue(checkout, "m-1")
    backend = library.mission_backend(Checkout(str(checkout), has_git=True), os.environ)
    claim_as_gone(backend)

    assert q.recover_dead_claims(checkout) == 1
