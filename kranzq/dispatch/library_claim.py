"""A claim of a program that runs missions itself: taken and ended with a record that names its process.

The record is written before the claim and says *running* once it is there; the end is recorded, durably, before the
claim moves. Both happen in one change of names, so nobody sees a claim without its record.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from kranzq.backend import Candidate, Unclaimed
from kranzq.disk import atomic
from kranzq.dispatch.approve import ApprovalQueue
from kranzq.dispatch.choose import Chosen, identity_of_candidate
from kranzq.dispatch.evidence import LIBRARY
from kranzq.dispatch.parts import OpenQueue, Parts
from kranzq.errors import ClaimLost, NotFound
from kranzq.events import Claimed as ClaimedEvent
from kranzq.events import Ended, emit
from kranzq.liveness import me, suffix_k4, token_of
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claim, Claimed, Holder, Place
from kranzq.model.clock import rfc3339
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Ending, Fate, Outcome, Retire, Return, fate_name
from kranzq.runs.folder import CANCEL, RunFolder
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord


class LibraryQueue(OpenQueue, ApprovalQueue, Protocol):
    """An open queue, as the library needs it."""

    def in_order(self, missions: Container[str] | None = None) -> Iterator[Candidate]:
        """The entries in order; with `missions`, entries of others are not even read."""
        ...

    def take(self, candidate: Candidate, pid: int, suffix: str) -> Claimed | None:
        """As `claim`; `change` must be held."""
        ...

    def claimed(self, name: str) -> Claimed | None:
        """The claim of this name, if it lies there."""
        ...

    def places(self, mission: MissionId | None = None) -> Sequence[Place]:
        """Where entries are, all or one mission's, in order."""
        ...

    def unclaimed(self, missions: Container[str]) -> list[Unclaimed]:
        """What lies in the queue and the inbox for these missions and is no claim."""
        ...

    def take_out(self, files: Iterable[Unclaimed]) -> list[Unclaimed]:
        """Remove files, durably; those that were still there."""
        ...

    def sync(self) -> None:
        """Make all that was moved so far survive a power cut."""
        ...


Opener = Callable[[bool], AbstractContextManager[LibraryQueue]]
"""Opens the queue; with True, what is missing is made. Raises NotFound where there is none."""


def take(parts: Parts, queue: LibraryQueue, holder: Holder, chosen: Chosen) -> Claim | None:
    """Record and claim in one change of names; None when another was faster."""
    process = holder.process or me()
    suffix = suffix_k4(token_of(process) or f"{process.pid}")
    place = chosen.candidate.place
    with contextlib.ExitStack() as stack:
        stack.enter_context(queue.change())
        folder = stack.enter_context(_new_folder(parts, queue, place.mission))
        record = RunRecord(
            kind=LIBRARY,
            mission=place.mission,
            run=folder.run,
            state="claiming",
            nonce=secrets.token_hex(16),
            entry=identity_of_candidate(chosen.candidate),
            claim=f"{place.name}.claimed.{process.pid}.{suffix}",
            number=place.number,
            keeper=process,
            created_at=rfc3339(parts.clock.now()),
        )
        _write(folder, record)
        claimed = queue.take(chosen.candidate, process.pid, suffix)
        if claimed is None:
            folder.discard()
            return None
        try:
            _write(folder, replace(record, state="running", started_at=record.created_at))
        except BaseException:
            queue.carry_out(claimed.place, Return())
            raise
        folder.keep_entry(queue.fd, claimed.place.name)
    emit(ClaimedEvent(str(place.mission), record.run, record.claim))
    return Claim(chosen.entry, f"{record.claim}/{record.run}/{record.nonce}", holder, claimed.inode)


def _new_folder(parts: Parts, queue: LibraryQueue, mission: MissionId) -> RunFolder:
    try:
        return Runs(parts.checkout, queue.kranz_fd).new(mission)
    except OSError as fault:
        raise atomic.store_fault(f"{parts.checkout.missions}/{mission}", fault) from fault


def _write(folder: RunFolder, record: RunRecord) -> None:
    try:
        folder.write(record, sync=False)
    except OSError as fault:
        folder.discard()
        raise atomic.store_fault(folder.path, fault) from fault


def marks(checkout: Checkout, claim: Claim) -> dict[str, str]:
    """What every process of the mission should have in its environment: by it the orphans of a holder are found."""
    _, run, nonce = claim.token.split("/")
    first = checkout.git if checkout.has_git else checkout.busy_flock
    try:
        seen = os.stat(first)
        lock = f"{seen.st_dev}:{seen.st_ino}"
    except FileNotFoundError:
        lock = "0:0"
    folder = f"{checkout.missions}/{claim.entry.mission}"
    return {
        "KRANZ_MISSION_ID": str(claim.entry.mission),
        "KRANZ_MISSION_DIR": folder,
        "KRANZ_REPO": checkout.root,
        "KRANZ_RUN_DIR": f"{folder}/dispatch/{int(run):03d}",
        "KRANZ_RUN_NUMBER": run,
        "KRANZ_CLAIM": f"{nonce}:{lock}",
    }


def end(parts: Parts, opener: Opener, claim: Claim, ending: Ending, fate: Fate) -> Fate:
    """Record the end and carry the fate out, if the claim is still this holder's; the fate that was done."""
    try:
        opened = opener(False)
    except NotFound as fault:
        raise ClaimLost(claim.token.partition("/")[0]) from fault
    with opened as queue, queue.change():
        return _end_recorded(parts, queue, *_still_ours(parts, queue, claim), ending, fate)


def _still_ours(parts: Parts, queue: LibraryQueue, claim: Claim) -> tuple[Claimed, RunRecord | None]:
    """The claim as it lies there: same name, same inode, same entry id, and no later claim of the same name."""
    name, _, rest = claim.token.partition("/")
    claimed = queue.claimed(name)
    if (
        claimed is None
        or claimed.inode != claim.inode
        or (entry := queue.read(claimed.place)) is None
        or entry.id != claim.entry.id
    ):
        raise ClaimLost(name)
    record = Runs(parts.checkout, queue.kranz_fd).of_claim(claimed.place.mission, name)
    if record is not None and f"{record.run}/{record.nonce}" != rest:
        raise ClaimLost(name)
    return claimed, record


def _end_recorded(
    parts: Parts, queue: LibraryQueue, claimed: Claimed, record: RunRecord | None, ending: Ending, fate: Fate
) -> Fate:
    place, runs = claimed.place, Runs(parts.checkout, queue.kranz_fd)
    folder = runs.open(place.mission, record.run) if record is not None else None
    if record is None or folder is None:  # its folder was removed: the move itself must last
        done = _carry_out(queue, place, fate)
        queue.sync()
        return done
    with folder:
        if record.state != "ended":
            record = _record_end(parts, folder, record, ending, fate)
    assert record.fate is not None
    done = _carry_out(queue, place, record.fate)
    outcome = record.outcome or ending.outcome
    emit(Ended(str(place.mission), record.run, outcome.value, fate_name(done), record.reason))
    if type(record.fate) is not type(fate) and isinstance(fate, Retire):
        raise ClaimLost(place.name)  # an earlier call had decided otherwise and could not carry it out
    return done


def _record_end(parts: Parts, folder: RunFolder, record: RunRecord, ending: Ending, fate: Fate) -> RunRecord:
    if isinstance(fate, Return) and folder.wished(CANCEL) is not None:
        ending, fate = replace(ending, outcome=Outcome.CANCELLED), Retire()
    ended = replace(
        record,
        state="ended",
        outcome=ending.outcome,
        fate=fate,
        reason=ending.reason,
        counted=ending.counted,
        ended_at=rfc3339(parts.clock.now()),
    )
    try:
        folder.write(ended, sync=True)
    except OSError as fault:
        raise atomic.store_fault(folder.path, fault) from fault
    return ended


def _carry_out(queue: LibraryQueue, place: Place, fate: Fate) -> Fate:
    try:
        return queue.carry_out(place, fate)
    except FileNotFoundError as fault:
        raise ClaimLost(place.name) from fault
    except OSError as fault:
        raise atomic.store_fault(place.name, fault) from fault
