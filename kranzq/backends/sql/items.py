"""Items come, are shown and go. Each function is one act of one transaction."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from kranzq.backend import Accepted
from kranzq.backend.items import AcceptedItem
from kranzq.backends.sql import rows
from kranzq.backends.sql.database import Transaction
from kranzq.errors import Conflict, NoSuchItem, UsageFault
from kranzq.model.work import (
    MOST_BATCH,
    MOST_PAGE,
    Attempt,
    ItemState,
    NewItem,
    Page,
    WorkItem,
)

_FIRST = (2**62, 2**62)
_MOST_CURSOR = 40
_ALSO_OPEN = (ItemState.OPEN, ItemState.DELAYED, ItemState.LAPSED)


def enqueue(transaction: Transaction, new: NewItem) -> AcceptedItem:
    """Keep one item, or find the one that is there under its key or id. Raises Conflict."""
    creator = rows.creator(new)
    if new.key and (kept := transaction.one("key_find", creator=creator, key=new.key)) is not None:
        return _same(transaction, new, kept["id"], kept["digest"], f"The idempotency key {new.key!r}")
    name = new.id or str(uuid.uuid4())
    made = transaction.one("enqueue", **rows.new_values(new, name))
    if made is None:
        there = transaction.one("digest", id=name)
        assert there is not None, "the id is taken"
        return _same(transaction, new, name, there["digest"], f"The id {name}")
    if new.key and transaction.one("key_add", creator=creator, key=new.key, seq=made["seq"]) is None:
        raise KeyRace(new.key)
    entry = WorkItem(
        id=name,
        seq=made["seq"],
        title=new.title,
        payload=new.payload,
        kind=new.kind,
        target=new.target,
        priority=new.priority,
        state=ItemState(made["state"]),
        claimed_by="",
        claimed_by_uid="",
        claim_expires=None,
        attempts=0,
        declined=0,
        max_attempts=new.max_attempts,
        created_by=new.created_by,
        created_by_uid=new.created_by_uid,
        created_at=made["created_at"],
        updated_at=made["created_at"],
        not_before=new.not_before,
        result="",
    )
    return Accepted(entry, created=True, state=entry.state)


def enqueue_many(transaction: Transaction, new: Sequence[NewItem]) -> list[AcceptedItem]:
    """Keep all of them; a refusal of one undoes the transaction and so all."""
    if len(new) > MOST_BATCH:
        raise UsageFault(f"At most {MOST_BATCH} items are taken at once, not {len(new)}.", "Send them in parts.")
    return [enqueue(transaction, one) for one in new]


class KeyRace(Exception):
    """Another transaction used the same idempotency key in the same moment; look again and find its item."""


def show(transaction: Transaction, name: str) -> WorkItem:
    """One item. Raises NoSuchItem."""
    row = transaction.one("show", id=name)
    if row is None:
        raise NoSuchItem(name)
    return rows.item(row)


def attempts(transaction: Transaction, name: str) -> list[Attempt]:
    """The history of one item. Raises NoSuchItem."""
    found = transaction.all("attempts", id=name)
    if not found:
        show(transaction, name)
    return [rows.attempt(row) for row in found]


def entries(transaction: Transaction, state: ItemState, most: int) -> list[WorkItem]:
    """The items in one state, in the order in which they would be claimed where they may be."""
    if state.may_be_claimed:
        return [one for row in transaction.all("ready", most=most) if (one := rows.item(row)).state is state]
    return list(_listed(transaction, state, _FIRST, most))


def page(transaction: Transaction, state: str, limit: int, cursor: str | None) -> Page:
    """Items, newest change first, from behind the cursor on. Raises UsageFault for a cursor that is none."""
    limit = max(1, min(limit, MOST_PAGE))
    after = _position(cursor)
    wanted = _states(state)
    found = [one for each in wanted for one in _listed(transaction, each, after, limit + 1)]
    found.sort(key=lambda one: (one.updated_at, one.seq), reverse=True)
    shown = found[:limit]
    more = len(found) > limit
    return Page(tuple(shown), f"{shown[-1].updated_at}.{shown[-1].seq}" if more else None)


def unseen(transaction: Transaction, most: int) -> list[WorkItem]:
    """What is addressed to somebody who never asked for work."""
    return [rows.item(row) for row in transaction.all("unseen", most=most)]


def _same(transaction: Transaction, new: NewItem, name: str, digest: str, what: str) -> AcceptedItem:
    if digest != rows.digest(new):
        raise Conflict(f"{what} was used for another item ({name}). Nothing was changed.", "Use a new one.")
    entry = show(transaction, name)
    return Accepted(entry, created=False, state=entry.state)


def _listed(transaction: Transaction, state: ItemState, after: tuple[int, int], most: int) -> Sequence[WorkItem]:
    found = transaction.all("page", state=state.value, before=after[0], before_seq=after[1], most=most)
    return [rows.item(row) for row in found]


def _states(state: str) -> Sequence[ItemState]:
    if not state:
        return tuple(ItemState)
    if state == ItemState.OPEN.value:
        return _ALSO_OPEN
    return tuple(one for one in ItemState if one.value == state)


def _position(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return _FIRST
    updated, _, seq = cursor.partition(".")
    if not (
        updated.isascii() and updated.isdigit() and seq.isascii() and seq.isdigit() and len(cursor) <= _MOST_CURSOR
    ):
        raise UsageFault(f"{cursor[:60]!r} is no cursor.", "Take the one that the last page gave, or none.")
    return int(updated), int(seq)
