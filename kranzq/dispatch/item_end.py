"""The end of an item's run reaches the work queue: exactly what was decided and recorded, however often it is told.

Never under the lock around a change of names. The claim's file goes only after the work queue has said yes, or that the
item is not ours any more; while it does not answer the file stays, and whoever comes by tells it again.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from kranzq.dispatch.item_leases import held_of
from kranzq.errors import ClaimLost, ItemLost, KranzqError, NotFound
from kranzq.events import Warned, emit
from kranzq.model.item_run import ItemOfRun
from kranzq.model.json_object import json_object
from kranzq.model.outcome import Ending, Fate, Outcome, Park, Retire, Wait
from kranzq.model.work import MOST_DELAY_MS
from kranzq.runs.folder import CANCEL, OUTPUT
from kranzq.runs.folders import Runs

if TYPE_CHECKING:
    from kranzq.backend import MissionQueue
    from kranzq.backend.items import WorkStore
    from kranzq.dispatch.items import Items
    from kranzq.dispatch.parts import Parts
    from kranzq.model.claim import Claimed
    from kranzq.model.work import Held
    from kranzq.runs.record import RunRecord

TAIL_BYTES = 16 * 1024
"""So much of the end of its output becomes the result."""
_MOST_REASON = 1000


def hand_in(
    parts: Parts,
    queue: MissionQueue,
    runs: Runs,
    claimed: Claimed | None,
    record: RunRecord,
    ending: Ending,
    fate: Fate,
) -> str | None:
    """Tell the work queue how the run of an item ended, then remove its claim; None when that is done.

    Else why it waits, half a sentence. `claimed` is None when the claim's file was removed from outside.
    """
    item = record.item
    assert item is not None
    assert parts.items is not None
    items = parts.items()
    if item.holder_uid != items.settings.holder.uid:
        # another checkout's, which was moved or copied here: its lease runs out by itself
        emit(Warned(f"{record.mission} was claimed by another checkout, which alone may hand it in; it is left to it"))
    elif (why := _tell(items, runs, record, ending, fate)) is not None:
        items.say(
            f"end of {record.claim}", f"the end of run {record.run} of {record.mission} is not handed in yet: {why}"
        )
        return why
    if claimed is not None:
        items.leases.drop(claimed.place.name)
        queue.end_item(claimed)
    return None


def give_back_unrecorded(parts: Parts, queue: MissionQueue, claimed: Claimed) -> str | None:
    """Give an item back whose run has no record any more, by what its claim's file says. As `hand_in`."""
    assert parts.items is not None
    items = parts.items()
    item = ItemOfRun.from_json(json_object(queue.item_content(claimed) or b""))
    if item is not None and items.is_ours(item):
        try:
            items.ask(lambda store: store.release(held_of(item), "the record of its run is gone"))
        except (ClaimLost, NotFound) as fault:
            emit(Warned(fault.sentence))
        except KranzqError as fault:
            return fault.sentence.rstrip(".")
    items.leases.drop(claimed.place.name)
    queue.end_item(claimed)
    return None


def _tell(items: Items, runs: Runs, record: RunRecord, ending: Ending, fate: Fate) -> str | None:
    item = record.item
    assert item is not None
    if item.url != items.settings.url:
        return f"it belongs to the work queue {item.url}, and work.url names {items.settings.url}"
    tail, wish = _tail(runs, record), _wish(runs, record)
    try:
        items.ask(lambda store: _settle(store, item, ending, fate, tail, wish))
    except (ClaimLost, NotFound) as fault:
        emit(Warned(f"the end of run {record.run} of {record.mission} does not count: {fault.sentence}"))
    except KranzqError as fault:
        return fault.sentence.rstrip(".")
    return None


def _settle(store: WorkStore, item: ItemOfRun, ending: Ending, fate: Fate, tail: str, wish: str) -> None:
    """The one call that the end comes to. Repeated with the same end it is a success that changes nothing."""
    held, reason = held_of(item), _plain(ending.reason)[:_MOST_REASON]
    match ending.outcome, fate:
        case Outcome.SUCCEEDED, Retire():
            store.finish(held, Outcome.SUCCEEDED, tail)
        case Outcome.CANCELLED, _:
            _cancel(store, held, wish or reason or "it was cancelled where it ran")
        case _, Park(why):
            store.finish(held, Outcome.FAILED, _plain(f"{why}\n\n{tail}").strip())
        case _, Retire():
            store.finish(held, Outcome.FAILED, f"{ending.outcome.value}: {reason}\n\n{tail}".strip())
        case _, Wait(until_ms):
            store.release(held, reason, declined=True, delay_ms=_delay_ms(until_ms))
        case Outcome.INTERRUPTED, _ if ending.counted:
            store.release(held, reason or "it was interrupted")
        case _:
            store.release(held, reason or ending.outcome.value, declined=True)


def _cancel(store: WorkStore, held: Held, why: str) -> None:
    """Cancel an item, as its holder."""
    try:
        store.heartbeat(held)  # only its holder may end it: cancelling asks for no attempt
    except ItemLost as fault:
        if fault.cancelled is None:
            raise
        return  # so it is already: by this very end, told before, or by whoever wanted it no more
    store.cancel(held.id, why)


def _delay_ms(until_ms: int) -> int:
    return max(0, min(until_ms - int(time.time() * 1000), MOST_DELAY_MS))


def _tail(runs: Runs, record: RunRecord) -> str:
    """The end of its output, as a text that every database keeps."""
    folder = runs.open(record.mission, record.run)
    if folder is None:
        return ""
    with folder:
        try:
            fd = os.open(OUTPUT, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder.fd)
        except OSError:
            return ""
        try:
            size = os.fstat(fd).st_size
            data = os.pread(fd, TAIL_BYTES, max(0, size - TAIL_BYTES))
        except OSError:
            return ""
        finally:
            os.close(fd)
    return _plain(data.decode("utf-8", "replace"))


def _wish(runs: Runs, record: RunRecord) -> str:
    """Why somebody wished its end, if somebody did."""
    folder = runs.open(record.mission, record.run)
    if folder is None:
        return ""
    with folder:
        wish = folder.wished(CANCEL) or {}
    why = wish.get("why") or f"cancelled by {wish.get('who') or 'somebody'}"
    return _plain(str(why))[:_MOST_REASON]


def _plain(text: str) -> str:
    """A text without what no database keeps: NULs, and halves of characters."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
