"""Stored examples of every generation of kranz load for ever, and kranz's own rules accept what we write."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from kranzq import queue as library
from kranzq.backends.file.backend import FileQueue
from kranzq.busy.foreign import Engines, KranzLock
from kranzq.liveness import kranz_token
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Wait
from kranzq.model.state import State
from kranzq.wiring import trusting
from tests.factories import NO_PID, gone_pid, kranz_entry, kranz_name, make_queue, names

GOLDEN = Path(__file__).parents[3] / "golden"
GENERATIONS = ("k1", "k2", "k3", "k4")
CLAIMED = ("k2", "k3", "k4")


@pytest.fixture
def stored(checkout: Path, request: pytest.FixtureRequest) -> Path:
    """A checkout with the stored files of one generation; unsigned entries may run in it."""
    copy_stored(request.param, checkout)
    trusting.approvals(os.environ).allow_unsigned(str(checkout))
    return checkout


def copy_stored(generation: str, checkout: Path) -> None:
    """Copy stored files; the pid in them becomes one that is gone here, for theirs may be too large to judge."""
    gone = gone_pid()
    for path in (GOLDEN / generation).rglob("*"):
        if path.is_file():
            name = str(path.relative_to(GOLDEN / generation)).replace(str(NO_PID), str(gone))
            (checkout / ".kranz" / name).parent.mkdir(parents=True, exist_ok=True)
            content = path.read_bytes().replace(str(NO_PID).encode(), str(gone).encode())
            (checkout / ".kranz" / name).write_bytes(content)


def files(root: Path) -> dict[str, bytes]:
    """Every file below `.kranz`, by its path there."""
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("stored", GENERATIONS, indirect=True)
def test_looking_at_kranzs_files_changes_none(stored: Path) -> None:
    """Entries, claims, the busy lock and bindings are read, byte for byte as they were before."""
    before = files(stored / ".kranz")
    waiting = library.entries(stored)
    library.is_repo_busy(stored)
    library.read_enqueue_source(stored, "m-1a2b3c")

    assert "m-1a2b3c" in {str(entry.mission) for entry in waiting}
    assert [(entry.priority, entry.number) for entry in waiting] == sorted(
        (entry.priority, entry.number) for entry in waiting
    )
    assert files(stored / ".kranz") == before


@pytest.mark.parametrize("stored", CLAIMED, indirect=True)
def test_a_gone_kranzs_claim_goes_back_byte_for_byte(stored: Path) -> None:
    """A bare pid, a SipHash suffix, a SHA-256 suffix: the entry has its old name and content again, once."""
    (claim,) = [name for name in names(stored) if ".claimed." in name]
    content = (stored / ".kranz/queue" / claim).read_bytes()

    assert library.recover_dead_claims(stored) == 1
    assert library.recover_dead_claims(stored) == 0
    assert (stored / ".kranz/queue" / claim.partition(".claimed.")[0]).read_bytes() == content
    assert [name for name in names(stored) if ".claimed." in name] == []


@pytest.mark.parametrize("stored", GENERATIONS, indirect=True)
def test_kranzs_entries_are_claimed_and_finished_in_order(stored: Path) -> None:
    """With a dead kranz's lock, claim and leftovers in the way, every mission is claimed once, then nothing is left."""
    order = []
    while isinstance(taken := library.claim_front_when_repo_free(stored), library.Claimed):
        order.append((taken.claim.entry.priority, taken.claim.entry.number))
        library.finish_claim(taken.claim)

    assert isinstance(taken, library.Empty)
    assert len(order) == 2
    assert order == sorted(order)
    assert [name for name in names(stored) if name[0].isdigit()] == []


@pytest.mark.parametrize("stored", GENERATIONS, indirect=True)
def test_the_numbers_go_on_where_kranz_was(stored: Path) -> None:
    """The next number is one more than kranz's last, past a dead kranz's lock, and kranz reads it as its own."""
    last = int((stored / ".kranz/queue/.seq").read_text())
    accepted = library.enqueue(stored, "m-new")

    assert accepted.entry.number == last + 1
    assert (stored / ".kranz/queue/.seq").read_bytes() == str(last + 1).encode()
    assert not (stored / ".kranz/queue/.mutate.lock").exists()


@pytest.mark.parametrize("stored", CLAIMED, indirect=True)
def test_a_mission_that_kranz_runs_is_not_queued_again(stored: Path) -> None:
    """A claim of kranz's counts as queued: a repeated approval makes no second run."""
    accepted = library.enqueue(stored, "m-4d5e6f")

    assert (accepted.created, accepted.state) == (False, State.CLAIMED)


@pytest.mark.parametrize("suffix", ["", ".{k3}", ".{k4}"])
def test_a_living_kranzs_claim_is_left_alone(checkout: Path, suffix: str) -> None:
    """A claim of a living process is nobody else's, in each generation of the suffix."""
    library.enqueue(checkout, "m-0")
    token = kranz_token(os.getppid())
    assert token is not None
    from kranzq.liveness import suffix_k3

    k4 = hashlib.sha256(token.encode()).hexdigest()[:16]
    name = f"{kranz_name('m-1', 2, 7)}.claimed.{os.getppid()}" + suffix.format(k3=suffix_k3(token), k4=k4)
    (checkout / ".kranz/queue" / name).write_bytes(kranz_entry("m-1", 2, 7))

    assert library.recover_dead_claims(checkout) == 0
    assert name in names(checkout)


def test_kranzs_bindings_are_read(checkout: Path) -> None:
    """Bindings as a producer wrote them are found by what became of them."""
    copy_stored("k4", checkout)
    with make_queue(checkout) as queue:
        assert queue.binding(MissionId("m-1a2b3c")) == ("gascity", "bead-17")
        assert queue.bindings(MissionId("m-4d5e6f"))["returned"].reference == "bead-18"
        assert queue.bindings(MissionId("m-777777"))["cancelled"].created_at == 1767225600
        assert Engines().alive(queue.kranz_fd) is None
        lock = KranzLock(queue.fd)
        assert lock.take() is None
        lock.let_go()


# What follows reads our files by kranz's own rules, written down here once more and without our code.


def kranz_lists(queue: Path) -> list[tuple[int, int, str]]:
    """The entries as kranz lists and orders them: by content, files that end in `.json` only."""
    found = []
    for name in os.listdir(queue):
        if name.endswith(".json") and (queue / name).is_file():
            value = json.loads((queue / name).read_text())
            assert isinstance(value.get("ticketSlug", ""), str)
            assert name == f"{value['priority']:03d}-{value['seq']:020d}-{value['missionId']}.json", "never claimable"
            found.append((value["priority"], value["seq"], value["missionId"]))
    return sorted(found)


def kranz_claims(queue: Path) -> list[tuple[str, int, str]]:
    """Entry name, pid and token hash of each claim as kranz takes names apart."""
    found = []
    for name in os.listdir(queue):
        if ".claimed." in name:
            entry, _, rest = name.partition(".claimed.")
            pid, _, token = rest.partition(".")
            found.append((entry, int(pid), token))
    return found


def test_kranz_lists_what_we_queue(checkout: Path) -> None:
    """All that may run is seen by kranz in our order, signed or not; what waits or is parked is not."""
    library.enqueue(checkout, "m-1", priority=5)
    library.enqueue(checkout, "m-2", priority=0)
    library.enqueue(checkout, "m-3", priority=5)
    with make_queue(checkout) as queue, queue.change():
        queue.carry_out(queue.places(MissionId("m-3"))[0], Wait(4_000_000_000_000))

    assert kranz_lists(checkout / ".kranz/queue") == [(0, 1, "m-2"), (5, 0, "m-1")]
    assert (checkout / ".kranz/queue/.seq").read_text() == "2"


def test_kranz_leaves_our_claims_alone(checkout: Path) -> None:
    """Kranz takes our claim for one of its own living ones: our pid, and the hash of the token that it would read."""
    library.enqueue(checkout, "m-1")
    claim = library.claim_front(checkout)
    stat = Path(f"/proc/{os.getpid()}/stat").read_text()
    ticks = stat.rpartition(")")[2].split()[19]
    token = f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}:{ticks}"

    assert kranz_claims(checkout / ".kranz/queue") == [
        (kranz_name("m-1"), os.getpid(), hashlib.sha256(token.encode()).hexdigest()[:16])
    ]
    assert kranz_lists(checkout / ".kranz/queue") == []
    assert claim is not None
    library.release_claim(claim)
    assert kranz_lists(checkout / ".kranz/queue") == [(2, 0, "m-1")]


def test_kranz_finds_a_busy_checkout_busy(checkout: Path) -> None:
    """While we hold the checkout kranz's own lock names a living process with its token, and the mission."""
    with library.acquire_repo_busy(checkout, "m-1"):
        record = (checkout / ".kranz/queue/.repo.busy.lock").read_text()
        assert re.fullmatch(rf"{os.getpid()}\n[0-9]+\n[0-9a-f\-]+:[0-9]+\n0\n", record)
        assert (checkout / ".kranz/queue/.repo.busy.mission").read_bytes() == b"m-1"

    assert not (checkout / ".kranz/queue/.repo.busy.lock").exists()
    assert not (checkout / ".kranz/queue/.repo.busy.mission").exists()


def test_kranz_ignores_all_our_other_names(checkout: Path) -> None:
    """Whatever else we put into the queue is neither an entry nor a claim to kranz."""
    library.enqueue(checkout, "m-1")
    with make_queue(checkout) as queue:
        assert isinstance(queue, FileQueue)
        queue.pause("x")
        queue.admit_due()
    with library.acquire_repo_busy(checkout, "m-1"):
        others = [name for name in os.listdir(checkout / ".kranz/queue") if name != kranz_name("m-1")]

    assert others
    assert all(not name.endswith(".json") or name.startswith(".") for name in others)
    assert all(".claimed." not in name for name in others)


def test_a_pid_that_cannot_be_here_is_not_taken_for_gone(checkout: Path) -> None:
    """A number beyond what this system gives out comes from elsewhere: the claim stays until its hour is over."""
    library.enqueue(checkout, "m-0")
    name = f"{kranz_name('m-1', 2, 7)}.claimed.{10**9}.{'0' * 16}"
    (checkout / ".kranz/queue" / name).write_bytes(kranz_entry("m-1", 2, 7))

    assert library.recover_dead_claims(checkout) == 0
    assert name in names(checkout)
