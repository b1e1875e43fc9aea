"""Promises of a look at the queue: everything in it is shown, in order, and nothing is changed by looking."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from kranzq.dispatch.listed import Listed, Listing
from kranzq.dispatch.look import listing
from kranzq.dispatch.status import status
from kranzq.model.checkout import Checkout
from kranzq.model.entry import render
from kranzq.model.outcome import Park, Wait
from kranzq.model.state import State
from kranzq.trust.mac import sign
from kranzq.wiring import looking, trusting
from tests.factories import enqueue, gone_pid, kranz_entry, kranz_name, make_entry, make_queue

ALL = (State.CLAIMED, State.QUEUED, State.WAITING, State.INBOX, State.PARKED)


def signed(root: Path, mission: str, *, at: Path | None = None, **own: object) -> str:
    """Queue a mission that this user has signed, for the checkout or for another path; the name of its file."""
    entry = make_entry(mission, 2, "true")
    assert entry.own is not None
    entry = replace(entry, own=replace(entry.own, **own))  # type: ignore[arg-type]
    entry = sign(entry, str(at or root), trusting.keyring(os.environ).current())
    with make_queue(root) as queue:
        made = queue.enqueue(entry, lambda _: None).entry
    return f"{made.priority:03d}-{made.number:020d}-{made.mission}.json"


def look(root: Path, *states: State) -> Listing:
    """What `list` would show."""
    with looking.open_sight(Checkout(str(root), has_git=False), os.environ) as sight:
        assert sight is not None
        return listing(sight, states or ALL)


def missions(found: Listing) -> list[str]:
    """The missions in the order shown."""
    return [one.mission for one in found.entries]


def only(found: Listing) -> Listed:
    """The one entry that was found."""
    (entry,) = found.entries
    return entry


def test_entries_are_shown_in_the_order_in_which_they_would_run(tmp_path: Path) -> None:
    """Claimed first, then by priority and number, then what is not due, then the inbox and what is parked."""
    with make_queue(tmp_path) as queue:
        for mission, priority in (("late", 3), ("first", 1), ("second", 1), ("waits", 0), ("parked", 0), ("taken", 5)):
            enqueue(queue, mission, priority)
        with queue.change():
            for place in queue.places():
                if place.mission == "waits":
                    queue.carry_out(place, Wait(2_000_000_000_000))
                if place.mission == "parked":
                    queue.carry_out(place, Park("a reason"))
        taken = queue.front({one.name for one in queue.places() if one.mission != "taken"})
        assert taken is not None
        queue.claim(taken, os.getpid(), "0" * 16)
    inbox = tmp_path / ".kranz/queue/inbox"
    inbox.mkdir(exist_ok=True)
    (inbox / "x").write_bytes(kranz_entry("dropped"))

    found = look(tmp_path)

    assert missions(found) == ["taken", "first", "second", "late", "waits", "dropped", "parked"]
    assert [one.state for one in found.entries[-3:]] == [State.WAITING, State.INBOX, State.PARKED]
    assert found.entries[-1].note == "a reason"
    assert found.entries[-3].to_json()["due"] == "2033-05-18T03:33:20.000Z"


def test_each_state_of_a_signature_has_its_word(tmp_path: Path) -> None:
    """`signed` says whether this user signed it for this checkout, and if not what is wrong."""
    signed(tmp_path, "good")
    signed(tmp_path, "moved", at=tmp_path / "elsewhere")
    name = signed(tmp_path, "changed")
    with make_queue(tmp_path) as queue:
        enqueue(queue, "unsigned")
        place = next(one for one in queue.places() if one.mission == "changed")
        entry = queue.read(place)
        assert entry is not None
        assert entry.own is not None
        (tmp_path / ".kranz/queue" / name).write_bytes(render(replace(entry, own=replace(entry.own, command=("rm",)))))
        stranger = replace(entry, mission=make_entry("other").mission, own=replace(entry.own, key="0" * 16))
        (tmp_path / ".kranz/queue" / kranz_name("other", 2, 9)).write_bytes(render(stranger))

    found = {one.mission: one.signed for one in look(tmp_path).entries}

    assert found == {
        "good": True,
        "moved": "moved",
        "changed": "wrong",
        "unsigned": False,
        "other": "unknown key",
    }


def test_what_waits_for_trust_says_what_to_type(tmp_path: Path) -> None:
    """An unsigned entry never just sits there: the command that lets it run stands beside it."""
    with make_queue(tmp_path) as queue:
        enqueue(queue, "unsigned")

    entry = only(look(tmp_path))

    assert entry.note == "unsigned"
    assert "kranzq trust --unsigned" in entry.advice


def test_files_that_are_no_entries_are_named_with_the_reason(tmp_path: Path) -> None:
    """A link, a FIFO, a directory, a huge file and damaged content are shown, not read into memory, not moved."""
    queue = tmp_path / ".kranz/queue"
    make_queue(tmp_path).close()
    (queue / kranz_name("damaged")).write_text("{")
    os.utime(queue / kranz_name("damaged"), (1, 1))
    (queue / kranz_name("link")).symlink_to("/nowhere")
    os.mkfifo(queue / kranz_name("fifo"))
    (queue / kranz_name("folder")).mkdir()
    with (queue / kranz_name("huge")).open("wb") as file:
        file.truncate(4 << 30)
    (queue / "x.json").write_text("{}")
    (queue / kranz_name("good")).write_bytes(kranz_entry("good"))
    before = sorted(os.listdir(queue))

    found = look(tmp_path)

    assert missions(found) == ["good"]
    assert [name for name, _ in found.bad] == sorted(
        [*(kranz_name(one) for one in ("damaged", "fifo", "folder", "huge", "link")), "x.json"]
    )
    assert (
        dict(found.bad)[kranz_name("fifo")]
        == "it is a FIFO, not a regular file; it will be quarantined at the next turn"
    )
    assert sorted(os.listdir(queue)) == before


def test_an_entry_with_two_names_is_shown_once(tmp_path: Path) -> None:
    """Where a rename cannot refuse to replace, a file has two names for an instant."""
    with make_queue(tmp_path) as queue:
        name = enqueue(queue, "twice")
    folder = tmp_path / ".kranz/queue"
    os.link(folder / name, folder / f"{name}.claimed.{os.getpid()}.{'0' * 16}")

    assert only(look(tmp_path)).state is State.CLAIMED


def test_five_thousand_entries_are_listed_in_an_instant(tmp_path: Path) -> None:
    """A long queue does not make the list slow, although every signature is looked at."""
    first = signed(tmp_path, "m-0")
    folder = tmp_path / ".kranz/queue"
    content = (folder / first).read_bytes()
    for number in range(1, 5000):
        mission = f"m-{number}"
        (folder / kranz_name(mission, 2, number)).write_bytes(content.replace(b'"m-0"', f'"{mission}"'.encode()))

    began = time.process_time()
    found = look(tmp_path, State.QUEUED)

    assert len(found.entries) == 5000
    assert time.process_time() - began < 5


def test_status_counts_where_everything_is(tmp_path: Path) -> None:
    """The numbers are those of the folders; a file that is no entry is not counted as queued."""
    signed(tmp_path, "good")
    with make_queue(tmp_path) as queue:
        enqueue(queue, "unsigned")
    folder = tmp_path / ".kranz/queue"
    (folder / kranz_name("damaged", 2, 7)).write_text("{")
    for name in ("inbox", "quarantine"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "inbox/x").write_bytes(kranz_entry("dropped"))
    (folder / "quarantine/y.json").write_text("?")

    with looking.open_sight(Checkout(str(tmp_path), has_git=False), os.environ) as sight:
        assert sight is not None
        shown = status(sight).to_json()

    counts = {key: shown[key] for key in ("queued", "waiting", "parked", "quarantined", "inbox", "unsigned")}
    assert counts == {"queued": 2, "waiting": 0, "parked": 0, "quarantined": 1, "inbox": 1, "unsigned": 1}
    assert list(shown) == [
        *("repo", "version", "daemon", "busy"),
        *counts,
        *("paused", "claims", "next", "due", "waits", "warnings", "daemonHidden"),
    ]
    assert (shown["daemon"], shown["busy"], shown["paused"], shown["claims"]) == (None, None, None, [])


@pytest.mark.parametrize(("gone", "verdict"), [(True, "gone"), (False, "alive")])
def test_status_judges_each_claim_with_evidence(tmp_path: Path, gone: bool, verdict: str) -> None:  # noqa: FBT001
    """A claim is shown with the verdict on its holder and the sentence that a person can check."""
    pid = gone_pid() if gone else os.getpid()
    with make_queue(tmp_path) as queue:
        name = enqueue(queue, "taken")
    folder = tmp_path / ".kranz/queue"
    os.rename(folder / name, folder / f"{name}.claimed.{pid}")

    with looking.open_sight(Checkout(str(tmp_path), has_git=False), os.environ) as sight:
        assert sight is not None
        (claim,) = status(sight).claims

    assert claim.to_json()["verdict"] == verdict
    assert str(pid) in str(claim.to_json()["evidence"])


def test_a_daemon_counts_only_while_it_lives_and_holds_its_lock(tmp_path: Path) -> None:
    """A record that a killed daemon left, or one that somebody planted, is no daemon."""
    make_queue(tmp_path).close()
    folder = tmp_path / ".kranz/queue"
    (folder / ".daemon.flock").touch()
    (folder / ".daemon.json").write_text(
        '{"process": {"pid": 1, "startTicks": 1, "bootId": "x", "machineId": "y", "pidNs": "", "timeNs": ""}}'
    )

    with looking.open_sight(Checkout(str(tmp_path), has_git=False), os.environ) as sight:
        assert sight is not None

        assert status(sight).to_json()["daemon"] is None


@pytest.mark.parametrize("where", ["", "waiting/1.", "waiting/4000000000000.", "parked/", "waiting/after.", "parked/x"])
def test_a_thousand_bad_files_are_listed_in_an_instant(tmp_path: Path, where: str) -> None:
    """However many files are no entries, each is looked at a fixed number of times."""
    make_queue(tmp_path).close()
    (tmp_path / ".kranz/queue" / where).parent.mkdir(exist_ok=True)
    (tmp_path / ".kranz/queue/waiting").mkdir(exist_ok=True)
    (tmp_path / ".kranz/queue/parked").mkdir(exist_ok=True)
    for number in range(1000):
        path = tmp_path / f".kranz/queue/{where}{kranz_name(f'm-{number}', 2, number)}"
        path.write_text('{"missionId": 1}')

    began = time.process_time()
    found = look(tmp_path)
    took = time.process_time() - began

    assert len(found.bad) == 1000
    assert found.entries == ()
    assert took < 1
