"""Steps 4 to 7: record, claim, prepare, start. Each writes down what it is about to do before it does it.

A crash after *record* leaves a try that never began; after *claim* a claim whose keeper sees end-of-file and goes;
after *go* a keeper that goes on alone and is adopted.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kranzq import __version__
from kranzq.backend import Candidate
from kranzq.dispatch.choose import Chosen, identity_of_candidate
from kranzq.dispatch.evidence import MISSION
from kranzq.dispatch.hold import Holding
from kranzq.dispatch.parts import OpenQueue, Parts
from kranzq.errors import KranzqError
from kranzq.events import Claimed as ClaimedEvent
from kranzq.events import emit
from kranzq.liveness import suffix_k4, token_of
from kranzq.model.claim import Claimed
from kranzq.model.clock import rfc3339
from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.outcome import Ending, NotStarted, Outcome
from kranzq.runner import Prepared
from kranzq.runs.folder import LOG, OUTPUT, RunFolder
from kranzq.runs.folders import Runs
from kranzq.runs.keepers import Keeper, Order
from kranzq.runs.preflight import why_not_the_same
from kranzq.runs.record import RunRecord, render

if TYPE_CHECKING:
    from kranzq.dispatch.item_launch import ItemTry


@dataclass(slots=True)
class Try:
    """One try at a mission, from its record to its end."""

    keeper: Keeper
    folder: RunFolder
    record: RunRecord
    suffix: str
    timeout_s: float | None = None
    claimed: Claimed | None = None
    item: ItemTry | None = None
    """What is known of the item that it runs, if it is one's."""

    def close(self) -> None:
        """Close what is open; nothing is ended by it."""
        if self.item is not None:
            self.item.close()
        self.folder.close()
        self.keeper.close()


def record(parts: Parts, queue: OpenQueue, holding: Holding, chosen: Chosen) -> Try:
    """Step 4: a keeper that waits, a run folder, and records that name both."""
    keeper = parts.keepers.take()
    folder = None
    try:
        suffix = suffix_k4(token_of(keeper.identity) or f"{keeper.pid}")
        runs = Runs(parts.checkout, queue.kranz_fd)
        folder = runs.new(chosen.candidate.place.mission)
        written = _record_of(parts, holding, chosen, keeper, folder, suffix)
        folder.write(written, sync=False)
        holding.name_keeper(keeper.identity, str(written.mission), written.run, written.nonce)
    except BaseException:
        keeper.dismiss()
        if folder is not None:
            folder.discard()
            folder.close()
        raise
    own = chosen.entry.own
    return Try(keeper, folder, written, suffix, own.timeout_seconds if own is not None else None)


def claim(queue: OpenQueue, one: Try, candidate: Candidate) -> bool:
    """Step 5: take the entry for the keeper. False when another was faster; then nothing of the try is left."""
    one.claimed = queue.claim(candidate, one.keeper.pid, one.suffix)
    if one.claimed is None:
        undo(one)
        return False
    one.folder.keep_entry(queue.fd, one.claimed.place.name)
    emit(ClaimedEvent(str(one.record.mission), one.record.run, one.claimed.place.name))
    return True


def undo(one: Try) -> None:
    """Send the keeper away; the folder of a try that claimed nothing goes with it. Only before *go*."""
    one.keeper.dismiss()
    if one.claimed is None:
        one.folder.discard()
    one.close()


def prepare(parts: Parts, queue: OpenQueue, holding: Holding, one: Try, entry: Entry) -> Prepared | Ending:
    """Step 6: what to start, or why not."""
    if (why := why_not_the_same(parts.checkout, queue.kranz_fd, holding.hold.keys[0])) is not None:
        return _not_started(why)
    runner = parts.runner if one.item is None else one.item.runner
    return runner.prepare(parts.checkout, entry, marks(parts, one))


def start(parts: Parts, queue: OpenQueue, holding: Holding, one: Try, prepared: Prepared) -> Ending | None:
    """Step 7: state *starting*, then *go*. None once the keeper has its order.

    What needs room on the disk comes before *starting*: an end that nobody can record there counts as interrupted.
    """
    with contextlib.ExitStack() as stack:
        try:
            cwd = os.open(prepared.cwd, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, cwd)
            output = one.folder.open_for_writing(OUTPUT)
            stack.callback(os.close, output)
            log = one.folder.open_for_writing(LOG)
            stack.callback(os.close, log)
        except (OSError, KranzqError) as fault:
            return _not_started(fault)
        if not advance(queue, one, replace(one.record, state="starting", command=prepared.argv)):
            return _not_started("its keeper was killed before it was told to go, and somebody put the entry back")
        try:
            one.keeper.go(
                _order(parts, one, prepared),
                locks=holding.hold.fds,
                run=one.folder.fd,
                queue=queue.fd,
                cwd=cwd,
                output=output,
                log=log,
            )
        except (OSError, KranzqError) as fault:
            return _not_started(fault)
    return None


def _not_started(why: str | OSError | KranzqError) -> Ending:
    if isinstance(why, KranzqError):
        why = why.sentence
    elif isinstance(why, OSError):
        why = f"{why.filename}: {why.strerror}"
    return Ending(Outcome.NOT_STARTED, why, not_started=NotStarted.ENVIRONMENT, counted=False)


def advance(queue: OpenQueue, one: Try, record: RunRecord) -> bool:
    """Record how far the run has come; False, and nothing written, when its end is recorded.

    Whoever found the keeper gone may have settled the run while this process was held up. A state written over that
    end would be decided anew, perhaps to retire an entry that went back to its place.
    """
    with queue.change():
        current = one.folder.read()
        if current is not None and current.state == "ended":
            return False
        one.record = one.folder.write(record, sync=False)
        return True


def marks(parts: Parts, one: Try) -> dict[str, str]:
    """What a mission is told about itself, and by which its processes are found again."""
    return {
        "KRANZ_MISSION_ID": str(one.record.mission),
        "KRANZ_MISSION_DIR": f"{parts.checkout.missions}/{one.record.mission}",
        "KRANZ_REPO": parts.checkout.root,
        "KRANZ_RUN_DIR": one.folder.path,
        "KRANZ_RUN_NUMBER": str(one.record.run),
        "KRANZ_CLAIM": f"{one.record.nonce}:{one.record.lock}",
        **(one.item.marks if one.item is not None else {}),
    }


def _record_of(
    parts: Parts, holding: Holding, chosen: Chosen, keeper: Keeper, folder: RunFolder, suffix: str
) -> RunRecord:
    place, own = chosen.candidate.place, chosen.entry.own
    return RunRecord(
        kind=MISSION,
        mission=MissionId(place.mission),
        run=folder.run,
        state="claiming",
        nonce=secrets.token_hex(16),
        entry=identity_of_candidate(chosen.candidate),
        claim=f"{place.name}.claimed.{keeper.pid}.{suffix}",
        number=place.number,
        keeper=keeper.identity,
        lock=holding.hold.mark,
        created_at=rfc3339(parts.clock.now()),
        retries=own.retries if own is not None else 0,
    )


def _order(parts: Parts, one: Try, prepared: Prepared) -> Order:
    return Order(
        kranzq=__version__,
        mission=str(one.record.mission),
        run=one.record.run,
        nonce=one.record.nonce,
        executable=prepared.executable,
        argv=prepared.argv,
        env=prepared.env,
        claim=one.record.claim,
        run_path=one.folder.path,
        timeout_seconds=one.timeout_s if one.timeout_s is not None else parts.settings.timeout_s,
        grace_seconds=parts.settings.grace_s,
        on_survivors=parts.settings.on_survivors,
        lease_ends_boottime=one.item.lease_ends if one.item is not None else None,
        sync_parents=one.folder.above,
        record=render(replace(one.record, state="running")).decode(),
        output_cap=parts.settings.output_cap,
    )
