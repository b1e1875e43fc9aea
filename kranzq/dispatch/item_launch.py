"""Steps 3 to 5 for an item of the work queue: claim it there, record the run, make the claim's file. Then as a mission.

A crash after the work queue's claim leaves an item that is ours by its word alone: whoever holds the busy lock next
finds no claim's file for it and gives it back. After the file it is judged and settled like any claim.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kranzq.disk.atomic import write_new
from kranzq.dispatch import item_end  # noqa: F401 - imported before a mission runs, for the package may be gone after it
from kranzq.dispatch.evidence import MISSION
from kranzq.dispatch.launch import Try
from kranzq.dispatch.settle import is_environment_fault
from kranzq.errors import KranzqError
from kranzq.events import Claimed as ClaimedEvent
from kranzq.events import emit
from kranzq.leases.asleep import boot_clock
from kranzq.leases.kept import grace_in
from kranzq.liveness import suffix_k4, token_of
from kranzq.model.clock import rfc3339
from kranzq.model.item_policy import mission_of_item
from kranzq.model.item_run import ItemOfRun
from kranzq.runs.command import marks_of_item
from kranzq.runs.folder import RunFolder
from kranzq.runs.folders import Runs
from kranzq.runs.item_folder import PAYLOAD
from kranzq.runs.keepers import Keeper
from kranzq.runs.record import EntryIdentity, RunRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kranzq.dispatch.hold import Holding
    from kranzq.dispatch.items import Items
    from kranzq.dispatch.parts import OpenQueue, Parts
    from kranzq.model.outcome import Ending
    from kranzq.model.work import ItemClaim
    from kranzq.runner import Runner

_AGAIN_MS = 5000


@dataclass(slots=True)
class ItemTry:
    """What a try knows of its item: what its mission is told, and when that ends without a renewal of the lease."""

    items: Items
    marks: Mapping[str, str]
    lease_ends: float
    claim: str

    @property
    def runner(self) -> Runner:
        """What makes the command: the configured one, for an item never has its own."""
        return self.items.runner

    def ended(self, ending: Ending, jitter: float) -> None:
        """What its end says of the next item: one that could not be started keeps others from being asked for."""
        if is_environment_fault(ending):
            self.items.pause(ending.reason, jitter)
        elif ending.outcome.ran:
            self.items.resume()

    def close(self) -> None:
        """Renew no more: the next dispatcher does, if the mission goes on."""
        self.items.leases.drop(self.claim)


def begin(parts: Parts, queue: OpenQueue, holding: Holding, items: Items) -> Try | None:
    """Claim an item and everything up to its claim's file; None when there is none. Then `launch.prepare`."""
    asked_at = boot_clock()
    claim = items.claim()
    if claim is None:
        return None
    try:
        keeper = parts.keepers.take()
    except BaseException as fault:
        _give_back(items, claim, fault)
        raise
    folder = None
    try:
        mission, item = mission_of_item(claim.id), items.of_claim(claim)
        suffix = suffix_k4(token_of(keeper.identity) or f"{keeper.pid}")
        folder = Runs(parts.checkout, queue.kranz_fd).new(mission)
        name = queue.item_claim_name(mission, keeper.pid, suffix)
        record = _record_of(parts, holding, keeper, folder, item, name)
        folder.write(record, sync=False)
        write_new(folder.fd, PAYLOAD, claim.item.payload.encode(), sync=False)
        holding.name_keeper(keeper.identity, str(mission), record.run, record.nonce)
        one = Try(keeper, folder, record, suffix)
        one.claimed = queue.claim_item(mission, keeper.pid, suffix, json.dumps(item.to_json()).encode())
    except BaseException as fault:
        keeper.dismiss()
        if folder is not None:
            folder.discard()
            folder.close()
        _give_back(items, claim, fault)
        raise
    emit(ClaimedEvent(str(mission), record.run, name))
    grace_s, lease_s = parts.settings.grace_s, items.settings.lease_s
    items.leases.keep(name, item, folder, asked_at, grace_s)
    ends = asked_at + lease_s - grace_in(lease_s, grace_s)
    one.item = ItemTry(items, marks_of_item(claim, f"{folder.path}/{PAYLOAD}"), ends, name)
    return one


def _record_of(
    parts: Parts, holding: Holding, keeper: Keeper, folder: RunFolder, item: ItemOfRun, name: str
) -> RunRecord:
    return RunRecord(
        kind=MISSION,
        mission=folder.mission,
        run=folder.run,
        state="claiming",
        nonce=secrets.token_hex(16),
        entry=EntryIdentity(item.entry_id, name, 0, None),
        claim=name,
        number=0,
        keeper=keeper.identity,
        lock=holding.hold.mark,
        created_at=rfc3339(parts.clock.now()),
        item=item,
    )


def _give_back(items: Items, claim: ItemClaim, fault: BaseException) -> None:
    """Give back what could not even be recorded; if that fails too, the look for such items does it later."""
    why = f"it could not be begun here: {fault}"[:1000]
    items.compare_again()
    with contextlib.suppress(KranzqError):
        items.ask(lambda store: store.release(claim, why, declined=True, delay_ms=_AGAIN_MS))
