"""Claims of items: taken, kept by heartbeats, ended, given back, lapsed. Each function is one act of one transaction.

A holder is believed under its attempt while the item is claimed or lapsed, and from then on refused: by the statement
itself, so that nothing can come between the look and the change. Why it was refused is found out afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from kranzq.backend import Wanted
from kranzq.backends.sql import rows
from kranzq.backends.sql.database import Row, Transaction
from kranzq.errors import ItemLost, KranzqError, NoSuchItem, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import (
    MOST_BATCH,
    MOST_GROUPS,
    MOST_NAME,
    MOST_TEXT,
    Finish,
    Held,
    ItemClaim,
    ItemState,
    Recovered,
    Target,
    check_text,
    lease_ms,
    same_holder,
)

SWEEP_MOST = 100
"""So many leases lapse, and so many items come due, in one transaction: a claim stays short whatever piled up."""
MOST_DELAY_MS = 30 * 86_400_000
_MOST_ATTEMPT = 2**31 - 1


def targets(holder: Holder, wanted: Wanted) -> list[str]:
    """The keys of all targets that a claimer may take. Raises UsageFault."""
    if not holder.name.strip():
        raise UsageFault("A claim needs the name of its holder.", "Name the agent.")
    check_text("agent", holder.name, MOST_NAME)
    check_text("agent uid", holder.uid, MOST_NAME)
    check_text("kind", wanted.kind, MOST_NAME)
    if len(wanted.groups) > MOST_GROUPS:
        raise UsageFault(f"At most {MOST_GROUPS} groups are taken, not {len(wanted.groups)}.")
    mine = [Target(), Target(agent=holder.name), *([Target(uid=holder.uid)] if holder.uid else [])]
    for group in sorted(wanted.groups):
        check_text("group", group, MOST_NAME)
        if group:
            mine.append(Target(group=group))
    return sorted({one.key for one in mine})


def sweep(transaction: Transaction) -> Recovered:
    """Lapse a hundred overdue leases, and open a hundred items that are due."""
    over = transaction.all("lapse", most=SWEEP_MOST)
    due = transaction.all("open_due", most=SWEEP_MOST)
    failed = [row["id"] for row in over if row["state"] == ItemState.FAILED.value]
    lapsed = [row["id"] for row in over if row["state"] != ItemState.FAILED.value]
    return Recovered(tuple(lapsed), tuple(failed), len(due))


def claim(transaction: Transaction, holder: Holder, wanted: Wanted, lease: int | None, request: str) -> Row | None:
    """The first item that the holder may have, or the one that this request was given before."""
    values: dict[str, object] = {"holder": holder.name, "holder_uid": holder.uid, "lease": lease_ms(lease)}
    if request and (again := transaction.one("claimed_before", request_id=request, **values)) is not None:
        return again
    values |= {"request_id": request, "targets": json.dumps(targets(holder, wanted)), "kind": wanted.kind}
    if wanted.missions:
        return transaction.one("claim_named", ids=json.dumps(sorted(wanted.missions)), **values)
    return transaction.one("claim_kind" if wanted.kind else "claim", **values)


def given(row: Row, holder: Holder) -> ItemClaim:
    """The claim that a row tells of."""
    entry = rows.item(row)
    return ItemClaim(entry.id, entry.attempts, holder, entry)


def heartbeat(transaction: Transaction, held: Held, lease: int | None) -> Row:
    """A lease of that length from now on. Raises ItemLost, NoSuchItem."""
    row = transaction.one("heartbeat", lease=lease_ms(lease), **_shown(held))
    if row is None:
        raise _why_not(transaction, held)
    return row


def finish(transaction: Transaction, held: Held, outcome: Outcome, result: str) -> Row | None:
    """End it for good. None when the same end was recorded under the same attempt before. Raises ItemLost."""
    check_text("result", result, MOST_TEXT)
    state = ItemState.DONE if outcome is Outcome.SUCCEEDED else ItemState.FAILED
    row = transaction.one("finish", state=state.value, result=result, **_shown(held))
    if row is None:
        standing = _standing(transaction, held)
        if standing["ended"] == standing["state"] == state.value and standing["result"] == result:
            return None
        raise _lost(held, standing)
    return row


def finish_many(
    transaction: Transaction, ends: Sequence[Finish], told: Callable[[Held, Row], None]
) -> list[KranzqError | None]:
    """End many; what is refused leaves the others alone."""
    if len(ends) > MOST_BATCH:
        raise UsageFault(f"At most {MOST_BATCH} claims are ended at once, not {len(ends)}.", "Send them in parts.")
    answers: list[KranzqError | None] = []
    for one in ends:
        try:
            row = finish(transaction, one.held, one.outcome, one.result)
        except KranzqError as fault:
            answers.append(fault)
        else:
            answers.append(None)
            if row is not None:
                told(one.held, row)
    return answers


def release(transaction: Transaction, held: Held, why: str, *, declined: bool, delay_ms: int = 0) -> ItemState:
    """Give it back; where it is now. The same release again gives the same answer. Raises ItemLost."""
    check_text("reason", why, MOST_TEXT)
    if not 0 <= delay_ms <= MOST_DELAY_MS:
        raise UsageFault(f"delay must be from 0 to {MOST_DELAY_MS} ms, not {delay_ms}.")
    row = transaction.one("release", why=why, declined=int(declined), delay=delay_ms, **_shown(held))
    if row is not None:
        return ItemState(row["state"])
    standing = _standing(transaction, held)
    if standing["ended"] == ("declined" if declined else "released") and standing["why"] == why:
        return ItemState(standing["state"])
    raise _lost(held, standing)


def cancel(transaction: Transaction, name: str, why: str) -> bool:
    """End what is not terminal. False when it had ended. Raises NoSuchItem."""
    check_text("reason", why, MOST_TEXT)
    if transaction.one("cancel", id=name, why=why) is not None:
        return True
    if transaction.one("digest", id=name) is None:
        raise NoSuchItem(name)
    return False


def _shown(held: Held) -> dict[str, object]:
    """What a holder shows, as parameters. An attempt that no claim ever had is none. Raises UsageFault."""
    if type(held.attempt) is not int or not 0 <= held.attempt <= _MOST_ATTEMPT:
        raise UsageFault(f"attempt must be the whole number that the claim gave, not {str(held.attempt)[:40]!r}.")
    check_text("id", held.id, MOST_NAME)
    check_text("agent", held.holder.name, MOST_NAME)
    check_text("agent uid", held.holder.uid, MOST_NAME)
    return {"id": held.id, "attempt": held.attempt, "holder": held.holder.name, "holder_uid": held.holder.uid}


def _standing(transaction: Transaction, held: Held) -> Row:
    """What is known of the item and of the attempt that is shown. Raises NoSuchItem; ItemLost for another's attempt."""
    row = transaction.one("standing", id=held.id, attempt=held.attempt)
    if row is None:
        raise NoSuchItem(held.id)
    if row["holder"] is None or not same_holder(row["holder"], row["holder_uid"], held.holder.name, held.holder.uid):
        raise ItemLost(held.id, held.attempt, _told(row))
    return row


def _why_not(transaction: Transaction, held: Held) -> ItemLost:
    return _lost(held, _standing(transaction, held))


def _lost(held: Held, standing: Row) -> ItemLost:
    cancelled = standing["why"] if standing["ended"] == "cancelled" else None
    return ItemLost(held.id, held.attempt, _told(standing), cancelled)


def _told(standing: Row) -> str:
    return str(standing["state"])
