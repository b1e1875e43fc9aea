"""Items come, are shown and go. Each function is one act of one transaction."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from kranzq.backend import Accepted
from kranzq.backend.items import AcceptedItem
from kranzq.backends.sql import rows
from kranzq.backends.sql.database import Row, Transaction
from kranzq.errors import Conflict, NoSuchItem, UsageFault
from kranzq.model.work import (
    MOST_BATCH,
    MOST_NAME,
    MOST_PAGE,
    Attempt,
    ItemState,
    NewItem,
    Page,
    WorkItem,
    check_number,
    check_text,
)

_FIRST = (2**62, 2**62)
_ANY = 2**63
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})")
_ALSO_OPEN = (ItemState.OPEN, ItemState.DELAYED, ItemState.LAPSED)


def enqueue(transaction: Transaction, new: NewItem, name: str) -> AcceptedItem:
    """Keep one item as `name`, or find the one that is there under its key or id. Raises Conflict."""
    if new.key and (kept := transaction.one("key_find", **_key(new))) is not None:
        return _same(transaction, new, name, kept)
    made = transaction.one("enqueue", **rows.new_values(new, name))
    if made is None:
        return _there(transaction, new, name)
    if new.key and transaction.one("key_add", **_key(new), seq=made["seq"]) is None:
        raise KeyRace(new.key)
    return Accepted(rows.made(new, name, made), created=True, state=ItemState(made["state"]))


def enqueue_many(transaction: Transaction, named: Sequence[tuple[NewItem, str]]) -> list[AcceptedItem]:
    """Keep all of them under the names beside them; a refusal of one undoes the transaction and so all."""
    if len(named) > MOST_BATCH:
        raise UsageFault(f"At most {MOST_BATCH} items are taken at once, not {len(named)}.", "Send them in parts.")
    if len(named) == 1:
        return [enqueue(transaction, *named[0])]
    places, twice = _first_of_each_key(named)
    answers: dict[int, AcceptedItem] = {}
    keyed = [place for place in places if named[place][0].key]
    for place, kept in zip(keyed, transaction.each("key_find", [_key(named[one][0]) for one in keyed]), strict=True):
        if kept is not None:
            answers[place] = _same(transaction, *named[place], kept)
    places = [place for place in places if place not in answers]
    found = transaction.each("enqueue", [rows.new_values(*named[place]) for place in places])
    made = {place: row for place, row in zip(places, found, strict=True) if row is not None}
    keys = [_key(named[place][0]) | {"seq": row["seq"]} for place, row in made.items() if named[place][0].key]
    if None in transaction.each("key_add", keys):
        raise KeyRace
    for place in places:
        if (row := made.get(place)) is None:
            answers[place] = _there(transaction, *named[place])
        else:
            answers[place] = Accepted(rows.made(*named[place], row), created=True, state=ItemState(row["state"]))
    for place in twice:
        answers[place] = enqueue(transaction, *named[place])
    return [answers[place] for place in range(len(named))]


class KeyRace(Exception):
    """Another transaction used the same idempotency key in the same moment; look again and find its item."""


def show(transaction: Transaction, name: str) -> WorkItem:
    """One item. Raises NoSuchItem."""
    check_text("id", name, MOST_NAME)
    row = transaction.one("show", id=name)
    if row is None:
        raise NoSuchItem(name)
    return rows.item(row)


def attempts(transaction: Transaction, name: str) -> list[Attempt]:
    """The history of one item. Raises NoSuchItem."""
    check_text("id", name, MOST_NAME)
    found = transaction.all("attempts", id=name)
    if not found:
        show(transaction, name)
    return [rows.attempt(row) for row in found]


def entries(transaction: Transaction, state: ItemState, most: int) -> list[WorkItem]:
    """The items in one state, in the order in which they would be claimed where they may be."""
    if state.may_be_claimed:
        return [rows.item(row) for row in transaction.all("ready", state=state.value, most=most)]
    return [rows.item(row) for row in transaction.all("newest", state=state.value, most=most)]


def page(transaction: Transaction, state: str, limit: int, cursor: str | None) -> Page:
    """Items, newest change first, from behind the cursor on. Raises UsageFault for a cursor that is none."""
    check_number("limit", limit, -_ANY, _ANY)
    limit = max(1, min(limit, MOST_PAGE))
    before, before_seq = _position(cursor)
    asked = {"before": before, "before_seq": before_seq, "most": limit + 1}
    found = transaction.several([("page_keys", {"state": each.value, **asked}) for each in _states(state)])
    keys = sorted(((row["updated_at"], row["seq"]) for each in found for row in each), reverse=True)
    shown = keys[:limit]
    # Payloads are read of those that are shown only: they may have a megabyte each, and each state has its own list.
    read = transaction.all("page_rows", seqs=json.dumps([seq for _, seq in shown])) if shown else []
    more = f"{shown[-1][0]}.{shown[-1][1]}" if len(keys) > limit else None
    return Page(tuple(rows.item(row) for row in read), more)


def unseen(transaction: Transaction, most: int) -> list[WorkItem]:
    """What is addressed to somebody who never asked for work."""
    return [rows.item(row) for row in transaction.all("unseen", most=most)]


def _same(transaction: Transaction, new: NewItem, name: str, kept: Row) -> AcceptedItem:
    """The item of an idempotency key. Raises Conflict when it is another one."""
    return _taken(transaction, new, kept["id"], kept["digest"], f"The idempotency key {new.key!r}", name)


def _there(transaction: Transaction, new: NewItem, name: str) -> AcceptedItem:
    """The item that has the id already. Raises Conflict when it is another one."""
    there = transaction.one("digest", id=name)
    if there is None:  # it was there a moment ago, and was pruned
        raise KeyRace(name)
    return _taken(transaction, new, name, there["digest"], f"The id {name}", name)


def _taken(transaction: Transaction, new: NewItem, found: str, digest: str, what: str, name: str) -> AcceptedItem:
    if digest != rows.digest(new):
        raise Conflict(f"{what} was used for another item ({found}). Nothing was changed.", "Use a new one.")
    entry = show(transaction, found)
    # A name that was made for this call can be there for one reason only: an answer to its first try was lost.
    return Accepted(entry, created=found == name and not new.id, state=entry.state)


def _key(new: NewItem) -> dict[str, object]:
    return {"creator": rows.creator(new), "key": new.key}


def _first_of_each_key(named: Sequence[tuple[NewItem, str]]) -> tuple[list[int], list[int]]:
    """The places of items that are alone with their key or first with it, and those of its repetitions."""
    seen: set[tuple[str, str]] = set()
    first: list[int] = []
    later: list[int] = []
    for place, (new, _) in enumerate(named):
        key = (rows.creator(new), new.key)
        (later if new.key and key in seen else first).append(place)
        seen.add(key)
    return first, later


def _states(state: str) -> Sequence[ItemState]:
    if not state:
        return tuple(ItemState)
    if state == ItemState.OPEN.value:
        return _ALSO_OPEN
    return tuple(one for one in ItemState if one.value == state)


def _position(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return _FIRST
    check_text("cursor", cursor, MOST_NAME)
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise UsageFault(f"{cursor[:60]!r} is no cursor.", "Take the one that the last page gave, or none.")
    return int(found[1]), int(found[2])
