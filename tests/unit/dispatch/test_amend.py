"""Changing one's mind on a real queue: each state of an entry, each worth of a signature, what a retry brings back."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.disk import atomic
from kranzq.dispatch.amend import Amender, park, unpark
from kranzq.dispatch.approve import approve
from kranzq.dispatch.edit import Edits, Now, edit
from kranzq.dispatch.request import Request
from kranzq.dispatch.retry import retry
from kranzq.errors import Conflict, NoSuchMission, NotFound, Refused, StoreUnavailable, UsageFault
from kranzq.events import Edited, Event, Parked, Unparked, subscribe
from kranzq.liveness import me
from kranzq.model.checkout import Checkout
from kranzq.model.clock import rfc3339
from kranzq.model.entry import Entry, parse, render
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome, Retire, Wait
from kranzq.model.state import State
from kranzq.runs.record import EntryIdentity, RunRecord
from kranzq.trust.mac import Signature, verify
from kranzq.wiring import approving, dispatchers
from tests.factories import kranz_entry, kranz_name, names, remove

M1 = MissionId("m1")
LATE = 4_000_000_000.0


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Amender]:
    """Who changes his mind in a checkout without git."""
    root = tmp_path / "r"
    root.mkdir()
    checkout = Checkout(str(root), has_git=False)
    with FileQueue.make(checkout) as queue:
        yield approving.amender(checkout, queue, os.environ)


def queue_of(one: Amender) -> FileQueue:
    """The open queue."""
    assert isinstance(one.queue, FileQueue)
    return one.queue


def enqueue(one: Amender, mission: str = "m1", **fields: object) -> Entry:
    """Approve a signed mission."""
    request = Request(MissionId(mission), command=("true",), **fields)  # type: ignore[arg-type]
    approver = approving.approver(one.checkout, queue_of(one), os.environ)
    return approve(approver, request).entry


def plant(one: Amender, mission: str = "m1") -> None:
    """Put an entry there as kranz writes it."""
    Path(one.checkout.queue, kranz_name(mission)).write_bytes(kranz_entry(mission))


def entry_at(one: Amender) -> Entry:
    """The one entry of m1 as its file has it."""
    place = queue_of(one).places(M1)[0]
    folder = {State.QUEUED: "", State.WAITING: "waiting", State.PARKED: "parked"}[place.state]
    return parse(Path(one.checkout.queue, folder, place.name).read_bytes())


def ended(one: Amender, entry: bytes | None, outcome: Outcome = Outcome.FAILED, entry_id: str | None = None) -> None:
    """Write the record of an ended run that took an entry."""
    folder = one.runs.new(M1)
    with folder:
        taken = EntryIdentity(entry_id, "007-00000000000000000003-m1.json", 1, None)
        record = RunRecord("mission", M1, folder.run, "ended", "ab" * 16, taken, "claim", 3, me())
        folder.write(replace(record, outcome=outcome, fate=Retire()), sync=False)
    if entry is not None:
        Path(folder.path, "entry.json").write_bytes(entry)


def heard(*acts: Callable[[], object]) -> list[Event]:
    """The events of some acts."""
    events: list[Event] = []
    forget = subscribe(events.append)
    for act in acts:
        act()
    forget()
    return events


@pytest.mark.parametrize("due", [None, LATE])
def test_parking_and_unparking_bring_an_entry_back_to_its_place(one: Amender, due: float | None) -> None:
    """What is set aside comes back under its name, with a new id that is signed anew, and one event tells of each."""
    before = enqueue(one, not_before=due)
    name = queue_of(one).places(M1)[0].name
    events = heard(lambda: park(one, M1, "not today"), lambda: unpark(one, M1))
    after = entry_at(one)

    state = "queued" if due is None else "waiting"
    assert events == [Parked("m1", "not today"), Unparked("m1", state)]
    assert queue_of(one).places(M1)[0].name == name
    assert after.id != before.id
    assert verify(after, one.checkout.root, one.keys) is Signature.VALID
    assert after.own is not None
    assert after.own.command == ("true",)
    assert names(Path(one.checkout.root), "parked") == []


def test_parking_what_is_parked_and_unparking_what_is_not_changes_nothing(one: Amender) -> None:
    """Both can be repeated, and say so."""
    enqueue(one)

    assert not unpark(one, M1).changed
    assert park(one, M1, "a").changed
    assert not park(one, M1, "b").changed
    assert queue_of(one).why_parked(queue_of(one).places(M1)[0]) == "a"


def test_an_unsigned_entry_stays_unsigned(one: Amender) -> None:
    """Neither unparking nor editing makes an approval of what nobody has approved."""
    plant(one)
    park(one, M1, "a")
    unpark(one, M1)
    edit(one, M1, Edits(priority=9, not_before=LATE, timeout_s=60.0))
    entry = entry_at(one)

    assert verify(entry, one.checkout.root, one.keys) is Signature.UNSIGNED
    assert (entry.own is not None and entry.own.timeout_seconds, entry.priority) == (60.0, 9)
    assert queue_of(one).places(M1)[0].due_ms == LATE * 1000


@pytest.mark.parametrize("act", ["unpark", "timeout"])
def test_a_signature_that_is_not_ours_is_never_replaced(one: Amender, act: str) -> None:
    """An entry that was changed after it was signed, or that is another user's, is left as it is."""
    entry = enqueue(one)
    assert entry.own is not None
    park(one, M1, "a")
    file = next(Path(one.checkout.queue, "parked").glob("*m1.json"))
    for own in (replace(entry.own, command=("false",)), replace(entry.own, key="0" * 16)):
        file.write_bytes(render(replace(entry, own=own)))
        with pytest.raises(Refused, match="not a valid one of yours"):
            _ = unpark(one, M1) if act == "unpark" else edit(one, M1, Edits(timeout_s=1.0))
        assert parse(file.read_bytes()).own == own


def test_an_edited_priority_goes_behind_those_that_have_it(one: Amender) -> None:
    """The number is new, everything else stays, the signature too; the old name is gone."""
    before = enqueue(one)
    enqueue(one, "m2", priority=5)
    done = edit(one, M1, Edits(priority=5))

    assert (done.place.priority, done.place.number, done.place.state) == (5, 2, State.QUEUED)
    after = entry_at(one)
    assert (after.priority, after.number, after.id) == (5, 2, before.id)
    assert verify(after, one.checkout.root, one.keys) is Signature.VALID
    assert [name[-7:] for name in names(Path(one.checkout.root)) if name.endswith("json")] == ["m2.json", "m1.json"]


def test_a_due_time_can_be_set_moved_and_taken_away(one: Amender) -> None:
    """Name and content say the same, and what has become due is queued under the number that it had."""
    enqueue(one)
    events = heard(lambda: edit(one, M1, Edits(not_before=LATE)))
    assert queue_of(one).places(M1)[0].due_ms == LATE * 1000
    edit(one, M1, Edits(not_before=LATE + 60))
    own = entry_at(one).own
    assert own is not None
    assert own.not_before == rfc3339(LATE + 60)
    assert edit(one, M1, Edits(not_before=time.time() - 5)).place.state is State.QUEUED
    edit(one, M1, Edits(not_before=LATE))
    done = edit(one, M1, Edits(not_before=Now.NOW))

    assert events == [Edited("m1", f"not before {rfc3339(LATE)}")]
    assert (done.place.state, done.place.number) == (State.QUEUED, 0)
    assert names(Path(one.checkout.root), "waiting") == []


def test_an_edited_limit_is_signed(one: Amender) -> None:
    """A signature covers how long a mission may take, so it is made anew; none is a limit that is taken away."""
    enqueue(one, timeout_s=5.0)
    edit(one, M1, Edits(timeout_s=60.0))
    first = entry_at(one)
    edit(one, M1, Edits(timeout_s=0.0))
    second = entry_at(one)

    assert [one_.own.timeout_seconds for one_ in (first, second) if one_.own is not None] == [60.0, None]
    assert {verify(entry, one.checkout.root, one.keys) for entry in (first, second)} == {Signature.VALID}


def test_what_is_parked_stays_parked_when_it_is_edited(one: Amender) -> None:
    """It gets its new name with its reason, and unparking brings it to its new place."""
    enqueue(one)
    park(one, M1, "because")
    done = edit(one, M1, Edits(priority=9, not_before=LATE))
    assert (done.place.state, done.place.priority) == (State.PARKED, 9)
    assert queue_of(one).why_parked(queue_of(one).places(M1)[0]) == "because"
    assert len(names(Path(one.checkout.root), "parked")) == 2
    place = unpark(one, M1).place

    assert (place.state, place.priority, place.due_ms) == (State.WAITING, 9, LATE * 1000)


def test_a_taken_place_leaves_the_entry_parked(one: Amender) -> None:
    """Where the name to go back to is in use nothing is replaced, and the answer says so."""
    enqueue(one)
    name = queue_of(one).places(M1)[0].name
    park(one, M1, "a")
    Path(one.checkout.queue, name).write_bytes(b"another")

    with pytest.raises(Conflict, match="taken by another entry; it stays parked"):
        unpark(one, M1)
    assert Path(one.checkout.queue, name).read_bytes() == b"another"
    assert [place.state for place in queue_of(one).places(M1)] == [State.QUEUED, State.PARKED]


def test_a_running_mission_is_not_changed(one: Amender) -> None:
    """What a keeper has is the keeper's; each verb says what to do instead."""
    enqueue(one)
    candidate = next(queue_of(one).in_order())
    claimed = queue_of(one).claim(candidate, os.getpid(), "0" * 16)
    one = replace(one, parts=lambda: dispatchers.parts_of_a_verb(one.checkout, {}))
    acts: tuple[Callable[[], object], ...] = (
        lambda: park(one, M1, ""),
        lambda: edit(one, M1, Edits(priority=1)),
        lambda: retry(one, queue_of(one), M1),
    )
    for act in acts:
        with pytest.raises(Conflict, match=r"running. Nothing was changed.\n.*kranzq"):
            act()
    assert claimed is not None
    assert queue_of(one).still_there(claimed)


def test_unknown_and_ended_missions_are_told_apart(one: Amender) -> None:
    """Both leave with the code for not found; an ended one can be retried, and that is said."""
    acts: tuple[Callable[[], object], ...] = (
        lambda: park(one, M1, ""),
        lambda: unpark(one, M1),
        lambda: edit(one, M1, Edits(priority=1)),
    )
    for act in acts:
        with pytest.raises(NoSuchMission):
            act()
    with pytest.raises(NoSuchMission):
        retry(one, queue_of(one), M1)
    ended(one, None)
    with pytest.raises(NotFound, match=r"run 1 ended: failed.\n.*kranzq retry m1"):
        park(one, M1, "")


def test_an_edit_without_a_change_is_a_mistake(one: Amender) -> None:
    """Nothing to change, or a priority out of range, is refused before anything is touched."""
    enqueue(one)
    for edits in (Edits(), Edits(priority=256)):
        with pytest.raises(UsageFault):
            edit(one, M1, edits)


def test_a_retry_brings_back_what_was_signed(one: Amender) -> None:
    """The ended mission is queued with its command and limits, a new id, signature and number."""
    before = enqueue(one, timeout_s=5.0, retries=3, env={"A": "b"}, again=True, not_before=None)
    data = Path(one.checkout.queue, queue_of(one).places(M1)[0].name).read_bytes()
    remove(queue_of(one), M1)
    ended(one, data, entry_id=before.id)
    done = retry(one, queue_of(one), M1)
    entry = entry_at(one)

    assert done.changed
    assert not done.note
    assert verify(entry, one.checkout.root, one.keys) is Signature.VALID
    assert entry.own is not None
    assert before.own is not None
    assert (entry.own.command, entry.own.timeout_seconds, entry.own.retries) == (("true",), 5.0, 3)
    assert (entry.own.again, entry.own.id == before.own.id) == (False, False)
    assert (entry.priority, entry.number) == (7, 4)
    assert not retry(one, queue_of(one), M1).changed


@pytest.mark.parametrize("kept", ["changed", "foreign", "another mission", "no entry", "none"])
def test_a_retry_believes_no_command_without_a_signature(one: Amender, kept: str) -> None:
    """The kept entry lies where anybody may have written: then only the mission's name is queued, and that is said."""
    entry = enqueue(one)
    remove(queue_of(one), M1)
    assert entry.own is not None
    planted = {
        "changed": render(replace(entry, own=replace(entry.own, command=("evil",)))),
        "foreign": render(replace(entry, own=replace(entry.own, key="0" * 16))),
        "another mission": render(replace(entry, mission=MissionId("m2"))),
        "no entry": b"{",
        "none": None,
    }
    ended(one, planted[kept], entry_id=entry.id)
    done = retry(one, queue_of(one), M1)
    queued = entry_at(one).own

    assert "without one" in done.note
    assert queued is not None
    assert (queued.command, dict(queued.env), queued.cwd) == ((), {}, "")


def test_a_retry_of_an_unsigned_mission_names_it_once_more(one: Amender) -> None:
    """What never had a command has none to miss."""
    ended(one, kranz_entry("m1", ticket="T-1"))
    done = retry(one, queue_of(one), M1)

    assert (done.changed, done.note, entry_at(one).ticket) == (True, "", "T-1")


def test_a_retry_ends_a_backoff(one: Amender) -> None:
    """What waits after a failed run is due now, as a new life of the entry: nobody sends it back to wait."""
    before = enqueue(one, retries=5)
    place = queue_of(one).places(M1)[0]
    with queue_of(one).change():
        queue_of(one).carry_out(place, Wait(int(LATE * 1000)))
    ended(one, None, entry_id=before.id)
    with one.runs.open(M1, 1) as folder:  # type: ignore[union-attr]
        record = folder.read()
        assert record is not None
        folder.write(replace(record, fate=Wait(int(LATE * 1000))), sync=False)
    done = retry(one, queue_of(one), M1)

    assert (done.changed, done.place.state) == (True, State.QUEUED)
    assert entry_at(one).id != before.id


def test_a_retry_of_what_has_not_run_is_refused(one: Amender) -> None:
    """A mission that waits for its time or for others has no run to repeat; the answer says what to type."""
    enqueue(one, not_before=LATE)
    with pytest.raises(Conflict, match="edit m1 --not-before now"):
        retry(one, queue_of(one), M1)
    remove(queue_of(one), M1)
    enqueue(one, after=(MissionId("m2"),), future=True)
    with pytest.raises(Conflict, match="it waits for m2"):
        retry(one, queue_of(one), M1)


def test_a_retry_of_a_parked_mission_unparks_it(one: Amender) -> None:
    """Both words do the same there."""
    enqueue(one)
    park(one, M1, "a")

    assert retry(one, queue_of(one), M1).place.state is State.QUEUED


def test_a_second_entry_can_be_unparked_beside_the_first(one: Amender) -> None:
    """It is marked as one more run, or the next turn would park it again as a duplicate."""
    enqueue(one)
    park(one, M1, "a")
    data = json.loads(next(Path(one.checkout.queue, "parked").glob("*m1.json")).read_bytes())
    data["kranzq"]["id"] = "f" * 32
    data["kranzq"].pop("mac")
    Path(one.checkout.queue, "002-00000000000000000009-m1.json").write_text(json.dumps(data))
    unpark(one, M1)
    again = [queue_of(one).read(place) for place in queue_of(one).places(M1)]

    assert [entry.own.again for entry in again if entry is not None and entry.own is not None] == [True, False]


@pytest.mark.parametrize(("space", "told"), [(0, "Nothing was changed."), (1, "1 of 2 entries of m1 are parked.")])
def test_a_full_disk_says_how_many_are_parked(
    one: Amender, monkeypatch: pytest.MonkeyPatch, space: int, told: str
) -> None:
    """Whoever reads that nothing was changed looks no further."""
    enqueue(one)
    Path(one.checkout.queue, kranz_name("m1", 3, 7)).write_bytes(kranz_entry("m1", 3, 7))
    real, calls = atomic.replace, 0

    def replace_(*args: object, **options: object) -> None:
        nonlocal calls
        calls += 1
        if calls > space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(atomic, "replace", replace_)
    with pytest.raises(StoreUnavailable) as caught:
        park(one, M1, "not now")

    assert told in str(caught.value)
    assert len([place for place in queue_of(one).places() if place.state is State.PARKED]) == space
