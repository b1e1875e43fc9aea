"""The leases of the items that run in this checkout: each renewed from a thread of its own, told to its keeper.

A confirmed renewal becomes `lease.json` in the run folder; a loss becomes a wish to cancel. If neither can be written,
or nothing is confirmed in time, the keeper ends the mission before the lease is over: it needs nobody for that.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kranzq.dispatch.evidence import Backstop, judge_holder
from kranzq.errors import KranzqError, StoreUnavailable
from kranzq.leases.asleep import boot_clock
from kranzq.leases.kept import KeptLease, grace_in
from kranzq.model.claim import Holder
from kranzq.model.process import Liveness
from kranzq.model.work import Held
from kranzq.runs.folder import CANCEL, RunFolder
from kranzq.runs.folders import Runs

if TYPE_CHECKING:
    from kranzq.dispatch.items import Items
    from kranzq.dispatch.parts import OpenQueue, Parts
    from kranzq.model.item_run import ItemOfRun

RENEW_WITHIN_S = 60.0
"""A lease is renewed at a third of it, and at least that often."""
_WHO = "the work queue"


class Leases:
    """All leases that this process renews, by the names of their claims. Used from the dispatching thread."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._kept: dict[str, _Kept] = {}

    def keep(self, claim: str, item: ItemOfRun, folder: RunFolder, won_at: float, grace_s: float) -> None:
        """Renew from now on. `won_at` is the boot clock before the claim was asked for."""
        self.drop(claim)
        self._kept[claim] = _Kept(self._items, item, folder, won_at, grace_s)

    def drop(self, claim: str) -> None:
        """Renew no more: it has ended, or is another's to renew."""
        if (kept := self._kept.pop(claim, None)) is not None:
            kept.close()

    def drop_all(self) -> None:
        """Renew none any more."""
        for claim in list(self._kept):
            self.drop(claim)

    def adopt(self, parts: Parts, queue: OpenQueue) -> None:
        """Renew what runs here by an earlier dispatcher's start, and let go of what runs no more."""
        runs, alive = Runs(parts.checkout, queue.kranz_fd), set()
        backstop = Backstop(parts.clock, remembers=False)
        for claimed in queue.claims():
            if not claimed.place.is_item:
                continue
            record = runs.of_claim(claimed.place.mission, claimed.place.name)
            if record is None or record.item is None or record.state == "ended" or not self._items.is_ours(record.item):
                continue
            if judge_holder(claimed, record, backstop, in_hand=False).verdict is not Liveness.ALIVE:
                continue
            alive.add(claimed.place.name)
            folder = runs.open(record.mission, record.run) if claimed.place.name not in self._kept else None
            if folder is not None:
                with folder:
                    lease_s = self._items.settings.lease_s
                    # due at once: how much of the lease is left is not known here
                    self.keep(claimed.place.name, record.item, folder, boot_clock() - lease_s, parts.settings.grace_s)
        for claim in self._kept.keys() - alive:
            self.drop(claim)


def held_of(item: ItemOfRun) -> Held:
    """What the work queue is shown with every call about it."""
    return Held(item.id, item.attempt, Holder(item.holder, uid=item.holder_uid))


class _Kept:
    """One lease with the folder in which its keeper looks."""

    def __init__(self, items: Items, item: ItemOfRun, folder: RunFolder, won_at: float, grace_s: float) -> None:
        lease_s = items.settings.lease_s
        self._items, self._grace = items, grace_in(lease_s, grace_s)
        self._folder = RunFolder(os.dup(folder.fd), folder.path, folder.mission, folder.run, folder.above)
        self._mutex, self._closed = threading.Lock(), False
        self._lease = KeptLease(
            items, held_of(item), lease_s, won_at, confirmed=self._confirmed, lost=self._lost, longest_s=RENEW_WITHIN_S
        )
        self._lease.begin()

    def close(self) -> None:
        """Renew no more; a renewal that is under way is not waited for, and then tells nobody."""
        self._lease.close()
        with self._mutex:
            self._closed = True
            self._folder.close()

    def _confirmed(self, ends: float) -> None:
        self._write(lambda: self._folder.confirm_lease(ends - self._grace))

    def _lost(self, fault: KranzqError) -> None:
        self._write(lambda: self._folder.wish(CANCEL, _WHO, fault.sentence))
        self._items.tell(f"run {self._folder.run} of {self._folder.mission} is ended: {fault.sentence}")

    def _write(self, act: Callable[[], None]) -> None:
        with self._mutex, contextlib.suppress(OSError, StoreUnavailable):  # then the keeper ends it in time
            if not self._closed:
                act()
