"""Approvals on a real queue: what is made, what is refused, and what is taken back with an entry that is not made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.disk import atomic
from kranzq.dispatch.approve import Approver, approve
from kranzq.dispatch.parts import Parts
from kranzq.dispatch.request import Request
from kranzq.errors import Conflict, StoreUnavailable, UsageFault
from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.model.entry import parse
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Fate, Outcome, Park, Retire
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.trust.key import Keyring
from kranzq.trust.mac import Signature, verify
from tests.factories import remove

M1 = MissionId("m1")


def _no_parts() -> Parts:
    raise AssertionError("nothing had to be settled")


@pytest.fixture
def approver(tmp_path: Path) -> Iterator[Approver]:
    """Who approves in a checkout without git."""
    root = tmp_path / "r"
    root.mkdir()
    checkout = Checkout(str(root), has_git=False)
    with FileQueue.make(checkout) as queue:
        yield Approver(checkout, queue, Keyring(str(tmp_path / "state")), "someone", _no_parts)


def _request(mission: str | None = "m1", *command: str) -> Request:
    return Request(MissionId(mission) if mission is not None else None, command=command or ("true",))


def _entries(approver: Approver) -> list[str]:
    return sorted(name for name in os.listdir(approver.checkout.queue) if not name.startswith(".") and name != "inbox")


def _withdraw(approver: Approver) -> None:
    assert isinstance(approver.queue, FileQueue)
    assert remove(approver.queue, M1) == 1


def _ended(
    approver: Approver,
    fate: Fate,
    outcome: Outcome = Outcome.SUCCEEDED,
    number: int = 0,
    entry_id: str = "0" * 32,
) -> None:
    runs = Runs(approver.checkout, approver.queue.kranz_fd)
    with runs.new(M1) as folder:
        record = RunRecord(
            "mission", M1, folder.run, "ended", "0" * 32, EntryIdentity(entry_id, "n", 1, None), "c", number, me()
        )
        folder.write(replace(record, outcome=outcome, fate=fate), sync=False)


def test_an_approval_makes_one_signed_entry(approver: Approver) -> None:
    """What was asked for stands in the entry, and its signature is good in this checkout and in no other."""
    request = replace(_request("m1", "echo", "hi"), priority=7, ticket="T-1", timeout_s=5.0, retries=2, env={"A": "b"})
    approved = approve(approver, request)
    entry = parse(Path(approver.checkout.queue, _entries(approver)[0]).read_bytes())

    assert (approved.created, approved.state, approved.after_run) == (True, State.QUEUED, 0)
    assert entry.own is not None
    assert (entry.priority, entry.ticket, entry.own.command) == (7, "T-1", ("echo", "hi"))
    assert (entry.own.timeout_seconds, entry.own.retries, entry.own.env) == (5.0, 2, {"A": "b"})
    assert (len(entry.own.id), entry.own.enqueued_by) == (32, "someone")
    keys = approver.keys
    assert isinstance(keys, Keyring)
    assert verify(entry, approver.checkout.root, keys) is Signature.VALID
    assert verify(entry, "/elsewhere", keys) is Signature.MOVED


def test_a_repeat_changes_nothing(approver: Approver) -> None:
    """The same approval twice is one entry; the second answer shows what is there."""
    first = approve(approver, _request())
    second = approve(approver, replace(_request(), priority=0))

    assert (first.created, second.created, second.state) == (True, False, State.QUEUED)
    assert second.entry.priority == first.entry.priority
    assert len(_entries(approver)) == 1


def test_another_command_is_a_conflict(approver: Approver) -> None:
    """A mission that waits with another command is left as it is, and the caller is told."""
    approve(approver, _request())

    with pytest.raises(Conflict, match="another command"):
        approve(approver, _request("m1", "false"))
    assert len(_entries(approver)) == 1


def test_parked_and_look_alike_missions_are_conflicts(approver: Approver) -> None:
    """A parked mission and an id that differs only in case are refused; nothing is changed."""
    approve(approver, _request())
    place = approver.queue.places(M1)[0]
    with approver.queue.change():
        approver.queue.carry_out(place, Park("its command is missing"))

    with pytest.raises(Conflict, match=r"parked: its command is missing.*\n.*kranzq unpark m1"):
        approve(approver, _request())
    with pytest.raises(Conflict, match="only in the case"):
        approve(approver, _request("M1"))


def test_an_id_is_made_where_none_is_given(approver: Approver) -> None:
    """Made ids have kranz's form, and no two missions share one."""
    made = {approve(approver, _request(None)).entry.mission for _ in range(20)}

    assert len(made) == len(_entries(approver)) == 20
    assert all(len(one) == 8 and one.startswith("m-") and set(one[2:]) <= set("0123456789abcdef") for one in made)


def test_once_answers_with_the_end(approver: Approver) -> None:
    """With `once` a mission that has ended is not queued anew; without it, it is, behind its old number."""
    _ended(approver, Retire(), Outcome.FAILED, number=41)
    approved = approve(approver, replace(_request(), once=True))

    assert (approved.created, approved.state) == (False, State.GONE)
    assert approved.to_json()["outcome"] == "failed"
    assert _entries(approver) == []
    anew = approve(approver, _request())
    assert (anew.created, anew.entry.number, anew.after_run) == (True, 42, 1)


def test_once_queues_what_never_ended(approver: Approver) -> None:
    """A run that was only interrupted or parked is no end."""
    _ended(approver, Park("three times"), Outcome.INTERRUPTED)

    assert approve(approver, replace(_request(), once=True)).created


def test_again_queues_one_more_behind_the_running_one(approver: Approver) -> None:
    """With `again` one run is queued behind a running one, and a repeat of that is a repeat."""
    approve(approver, _request())
    candidate = next(approver.queue.in_order(), None)
    assert candidate is not None
    assert approver.queue.claim(candidate, os.getpid(), "0" * 16) is not None
    living = replace(approver, parts=lambda: _parts(approver))

    running = approve(living, _request())
    assert (running.created, running.state) == (False, State.CLAIMED)
    again = replace(_request(), again=True)
    assert [approve(living, again).created for _ in range(2)] == [True, False]
    assert len(_entries(approver)) == 2


def _parts(approver: Approver) -> Parts:
    from kranzq.wiring import dispatchers

    return dispatchers.parts_of_a_verb(approver.checkout, {})


def test_what_belongs_to_an_entry_comes_with_it(approver: Approver) -> None:
    """Input files and the producer's binding lie in the mission folder, for its owner only."""
    approve(approver, replace(_request(), files={"prompt.md": b"do it"}, source=("tracker", "T-7")))
    mission = Path(approver.checkout.missions, "m1")

    assert (mission / "input/prompt.md").read_bytes() == b"do it"
    assert (mission / "input").stat().st_mode & 0o777 == 0o700
    bound = json.loads((mission / "enqueue-source.json").read_bytes())
    assert (bound["producer"], bound["externalRef"], bound["missionId"]) == ("tracker", "T-7", "m1")


def test_a_repeat_leaves_files_and_binding_alone(approver: Approver) -> None:
    """A repeat with the same files is a repeat; with others it is refused; the first binding stays either way."""
    request = replace(_request(), files={"p": b"1"}, source=("tracker", "T-7"))
    approve(approver, request)

    assert not approve(approver, replace(request, source=("tracker", "T-8"))).created
    with pytest.raises(Conflict, match="another input file p"):
        approve(approver, replace(request, files={"p": b"2"}))
    assert Path(approver.checkout.missions, "m1/input/p").read_bytes() == b"1"
    assert approver.queue.binding(M1) == ("tracker", "T-7")


@pytest.mark.parametrize("meanwhile", ["queued", "claimed", "ended"])
def test_what_belongs_to_an_entry_stays_when_its_making_was_interrupted(
    approver: Approver, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """Ctrl-C may come when the entry is there and the call has not returned: it has its files, and is bound."""
    request = replace(_request(), files={"prompt.md": b"do it"}, source=("tracker", "T-7"))
    publish = atomic.publish

    def interrupted(dir_fd: int, name: str, data: bytes, *, mode: int = 0o600) -> os.stat_result:
        done = publish(dir_fd, name, data, mode=mode)
        if name.endswith("m1.json"):
            entry = parse(data)
            assert entry.own is not None
            if meanwhile == "claimed":
                os.rename(name, f"{name}.claimed.1.{'0' * 16}", src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
            elif meanwhile == "ended":
                os.unlink(name, dir_fd=dir_fd)
                _ended(approver, Retire(), entry_id=entry.own.id)
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(atomic, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt):
        approve(approver, request)

    assert Path(approver.checkout.missions, "m1/input/prompt.md").read_bytes() == b"do it"
    assert approver.queue.binding(M1) == ("tracker", "T-7")


def test_what_belongs_to_an_entry_stays_in_a_storm_of_interrupts(
    approver: Approver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second Ctrl-C comes while we look whether the entry is there: then nobody knows, and its files stay."""
    request = replace(_request(), files={"prompt.md": b"do it"}, source=("tracker", "T-7"))
    publish = atomic.publish

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def interrupted_behind(dir_fd: int, name: str, data: bytes, *, mode: int = 0o600) -> os.stat_result:
        done = publish(dir_fd, name, data, mode=mode)
        if name.endswith("m1.json"):
            monkeypatch.setattr(approver.queue, "places", interrupted)
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(atomic, "publish", interrupted_behind)
    with pytest.raises(KeyboardInterrupt):
        approve(approver, request)
    monkeypatch.undo()

    assert _entries(approver) != []
    assert Path(approver.checkout.missions, "m1/input/prompt.md").read_bytes() == b"do it"
    assert approver.queue.binding(M1) == ("tracker", "T-7")


def test_nothing_stays_of_an_entry_that_could_not_be_made(approver: Approver, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the entry cannot be written its files and binding are taken back, and what was there before returns."""
    request = replace(_request(), files={"old": b"2", "new": b"2"}, source=("tracker", "T-8"))
    approve(approver, replace(request, files={"old": b"1"}, source=("tracker", "T-7")))
    _withdraw(approver)
    publish = atomic.publish

    def full(dir_fd: int, name: str, data: bytes, *, mode: int = 0o600) -> os.stat_result:
        if name.endswith("m1.json"):
            raise OSError(28, "No space left on device")
        return publish(dir_fd, name, data, mode=mode)

    monkeypatch.setattr(atomic, "publish", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        approve(approver, request)
    folder = Path(approver.checkout.missions, "m1/input")
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == {"old": b"1"}
    assert approver.queue.binding(M1) == ("tracker", "T-7")
    assert _entries(approver) == []


def test_replaced_files_leave_nothing_behind(approver: Approver) -> None:
    """A later approval's file takes the place of the earlier one's, and no second copy stays."""
    approve(approver, replace(_request(), files={"p": b"1"}))
    _withdraw(approver)
    approve(approver, replace(_request(), files={"p": b"2"}))

    folder = Path(approver.checkout.missions, "m1/input")
    assert {one.name: one.read_bytes() for one in folder.iterdir()} == {"p": b"2"}


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (replace(_request(), priority=256), "range 0 to 255"),
        (replace(_request(), priority=-1), "range 0 to 255"),
        (replace(_request(), retries=-1), "range 0 to 1000"),
        (replace(_request(), command=("",)), "empty text"),
        (replace(_request(), command=("a", "\udcff")), "not UTF-8"),
        (replace(_request(), env={"A": "\udcff"}), "not UTF-8"),
        (replace(_request(), env={"A=B": "c"}), "no name of a variable"),
        (replace(_request(), cwd="/etc"), "not inside the checkout"),
        (replace(_request(), cwd="a/../../b"), "not inside the checkout"),
        (replace(_request(), ticket="../x"), "no ticket slug"),
        (replace(_request(), ticket=".x"), "no ticket slug"),
        (replace(_request(), files={".hidden": b""}), "name of an input file"),
        (replace(_request(), source=("t", "\udcff")), "not UTF-8"),
        (replace(_request(), source=(" ", "x")), "producer and a reference"),
        (replace(_request(), command=("x" * 2**20,)), "too long"),
    ],
)
def test_what_cannot_be_kept_is_refused(approver: Approver, request_: Request, said: str) -> None:
    """A request that an entry cannot hold as it was given is refused with a sentence, and nothing is made."""
    with pytest.raises(UsageFault, match=said):
        approve(approver, request_)
    assert _entries(approver) == []
    assert not os.path.exists(f"{approver.checkout.missions}/m1")
