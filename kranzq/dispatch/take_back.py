"""Approvals taken back before a run: the entries go, and each mission keeps its last end, *cancelled*.

The end is a record in a run folder like that of any other end, so `why`, `history`, `retry`, `--once` and whoever waits
for the mission find it where they look anyway. It is written first and names the entry: killed before the entry is
gone, a repeat takes the entry out, and a turn that meets it carries the recorded fate out instead of running it.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Container, Iterable, Sequence
from typing import Protocol

from kranzq.backend import Unclaimed
from kranzq.disk import atomic
from kranzq.dispatch.tally import is_same_entry
from kranzq.liveness import me
from kranzq.model.claim import Claimed
from kranzq.model.clock import rfc3339
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Outcome, Retire
from kranzq.model.state import State
from kranzq.runs.folder import RunFolder
from kranzq.runs.folders import Runs
from kranzq.runs.record import EntryIdentity, RunRecord

KIND = "cancel"
"""The kind of a record of which nothing ran."""
_HALF = "Its end is recorded, so it does not run; the same command once more takes it out."
_ALONE = 3
"""So many records are synced one by one; more of them by one sync of the file system."""


class WithdrawQueue(Protocol):
    """What taking back asks of an open queue."""

    @property
    def fd(self) -> int:
        """The descriptor of `.kranz/queue`."""
        ...

    def claims(self) -> Sequence[Claimed]:
        """All claims that lie in the queue."""
        ...

    def unclaimed(self, missions: Container[str]) -> list[Unclaimed]:
        """What lies in the queue and the inbox for these missions and is no claim."""
        ...

    def take_out(self, files: Iterable[Unclaimed]) -> list[Unclaimed]:
        """Remove files, durably; those that were still there."""
        ...


def take_back(queue: WithdrawQueue, runs: Runs, missions: Container[str], who: str, why: str) -> set[MissionId]:
    """Take out, durably, what nobody has claimed of these missions; `change` must be held. Those that had something.

    A mission that is claimed gets no end here: that of its run is to come. Raises what a full disk raises, before
    anything was removed.
    """
    claimed = {one.place.mission for one in queue.claims()}
    files = queue.unclaimed(missions)
    try:
        _keep_ends(queue, runs, [one for one in files if one.mission not in claimed], who, why)
    except OSError as fault:
        raise atomic.store_fault(fault.filename or runs.checkout.kranz, fault) from fault
    try:
        return {one.mission for one in queue.take_out(files)}
    except OSError as fault:
        raise atomic.store_fault(fault.filename or runs.checkout.queue, fault, _HALF) from fault


def _keep_ends(queue: WithdrawQueue, runs: Runs, files: Sequence[Unclaimed], who: str, why: str) -> None:
    """Record the end of each, durably, or of none: what stays must not be taken for cancelled by the next turn."""
    made: list[RunFolder] = []
    try:
        for one in files:
            folder = _record(queue, runs, one, who, why)
            if folder is not None:
                made.append(folder)
        if len(made) > _ALONE:
            for fd in {os.fstat(folder.fd).st_dev: folder.fd for folder in made}.values():
                atomic.sync_file_system(fd)
        else:
            for folder in made:
                folder.sync()
    except BaseException:
        for folder in made:
            folder.discard()
        raise
    finally:
        for folder in made:
            folder.close()


def ends_it(record: RunRecord, one: Unclaimed) -> bool:
    """Whether a record tells that this very entry is cancelled, so that it only has to go.

    A name in the inbox may be used again, and with it an inode: without an id or a birth nothing tells two drops apart.
    """
    is_end = record.outcome is Outcome.CANCELLED and isinstance(record.fate, Retire)
    is_known = one.folder != State.INBOX.value or one.entry_id is not None or one.born_ns is not None
    return is_end and is_known and is_same_entry(record.entry, _identity(one))


def _identity(one: Unclaimed) -> EntryIdentity:
    return EntryIdentity(one.entry_id, one.entry_name, one.inode, one.born_ns)


def _record(queue: WithdrawQueue, runs: Runs, one: Unclaimed, who: str, why: str) -> RunFolder | None:
    """The folder with the recorded end; None when an earlier call that was killed has recorded it."""
    entry = _identity(one)
    earlier = [record for record in runs.records(one.mission) if is_same_entry(record.entry, entry)]
    if any(ends_it(record, one) for record in earlier):
        return None
    again = any(record.outcome is not None and record.outcome.ran for record in earlier)
    now = rfc3339(time.time())
    folder = runs.new(one.mission)
    try:
        folder.keep_entry(queue.fd, f"{one.folder}/{one.name}" if one.folder else one.name)
        folder.write(
            RunRecord(
                kind=KIND,
                mission=one.mission,
                run=folder.run,
                state="ended",
                nonce=secrets.token_hex(16),
                entry=entry,
                claim="",
                number=one.number,
                keeper=me(),
                created_at=now,
                ended_at=now,
                outcome=Outcome.CANCELLED,
                fate=Retire(),
                reason=f"before it began{' again' if again else ''}, by {who}" + (f": {why}" if why else ""),
                counted=False,
            ),
            sync=False,
        )
    except BaseException:
        folder.discard()
        folder.close()
        raise
    return folder
