"""Claims of items: taken, kept by heartbeats, ended, given back, lapsed. Each function is one act of one transaction.

A holder is believed under its attempt while the item is claimed or lapsed, and from then on refused: by the statement
itself, so that nothing can come between the look and the change. Why it was refused is found out afterwards.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence

from kranzq.backend import Wanted
from kranzq.backends.sql import rows
from kranzq.backends.sql.database import Row, StatementCall, Transaction
from kranzq.errors import ItemLost, KranzqError, NoSuchItem, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import (
    MOST_BATCH,
    MOST_DELAY_MS,
    MOST_GROUPS,
    MOST_NAME,
    MOST_TEXT,
    Finish,
    Held,
    ItemClaim,
    ItemState,
    Recovered,
    Target,
    check_number,
    check_text,
    lease_ms,
    same_holder,
)

SWEEP_MOST = 100
"""So many leases lapse, and so many items come due, in one transaction: a claim stays short whatever piled up."""
_MOST_ATTEMPT = 2**31 - 1


@functools.lru_cache(maxsize=256)
def targets(name: str, uid: str, wanted: Wanted) -> tuple[str, ...]:
    """The keys of all targets that a claimer may take: the same ones at each of its claims. Raises UsageFault."""
    check_text("agent", name, MOST_NAME)
    if not name.strip():
        raise UsageFault("A claim needs the name of its holder.", "Name the agent.")
    check_text("agent uid", uid, MOST_NAME)
    check_text("kind", wanted.kind, MOST_NAME)
    if len(wanted.missions) > MOST_BATCH:
        raise UsageFault(f"At most {MOST_BATCH} ids are taken, not {len(wanted.missions)}.")
    for mission in wanted.missions:
        check_text("id", mission, MOST_NAME)
    if len(wanted.groups) > MOST_GROUPS:
        raise UsageFault(f"At most {MOST_GROUPS} groups are taken, not {len(wanted.groups)}.")
    mine = [Target(), Target(agent=name), *([Target(uid=uid)] if uid else [])]
    for group in sorted(wanted.groups):
        check_text("group", group, MOST_NAME)
        if group:
            mine.append(Target(group=group))
    return tuple(sorted({one.key for one in mine}))


def is_due(transaction: Transaction) -> bool:
    """Whether there is anything to sweep: a look that costs a twentieth of a sweep that finds nothing."""
    row = transaction.one("is_due")
    return row is not None and bool(row["due"])


def sweeping() -> list[StatementCall]:
    """What lapses a hundred overdue leases and opens a hundred items that are due."""
    return [("lapse", {"most": SWEEP_MOST}), ("open_due", {"most": SWEEP_MOST})]


def swept(over: Sequence[Row], due: Sequence[Row]) -> Recovered:
    """What the rows of a sweep tell."""
    failed = [row["id"] for row in over if row["state"] == ItemState.FAILED.value]
    lapsed = [row["id"] for row in over if row["state"] != ItemState.FAILED.value]
    return Recovered(tuple(lapsed), tuple(failed), len(due))


def sweep(transaction: Transaction) -> Recovered:
    """One short sweep."""
    return swept(*transaction.several(sweeping()))


def claiming(holder: Holder, wanted: Wanted, lease: int | None, request: str, most: int) -> StatementCall:
    """What claims the first items that the holder may have. An engine may give fewer: ask until none comes."""
    values: dict[str, object] = {
        "holder": holder.name,
        "holder_uid": holder.uid,
        "lease": lease_ms(lease),
        "request_id": request,
        "targets": json.dumps(targets(holder.name, holder.uid, wanted)),
        "kind": wanted.kind,
        "most": most,
    }
    if wanted.missions:
        return "claim_named", {"ids": json.dumps(sorted(wanted.missions)), **values}
    return "claim_kind" if wanted.kind else "claim", values


def claimed_before(transaction: Transaction, holder: Holder, lease: int | None, request: str) -> list[Row]:
    """What this request was given before and still holds; its lease begins anew."""
    return transaction.all(
        "claimed_before", request_id=request, holder=holder.name, holder_uid=holder.uid, lease=lease_ms(lease)
    )


def waited_ms(row: Row) -> int | None:
    """For how long an item could have been claimed before it was for the first time; None at a later time."""
    if row["attempts"] != 1:
        return None
    claimed: int = row["updated_at"]
    could_be: int = max(row["created_at"], row["not_before"] or 0)
    return max(0, claimed - could_be)


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
    end = Finish(held, outcome, result)
    row = transaction.one("finish", **_ending(end))
    if row is None:
        _ended_so(transaction, end)
    return row


def finish_many(
    transaction: Transaction, ends: Sequence[Finish], told: Callable[[Held, Row], None]
) -> list[KranzqError | None]:
    """End many; what is refused leaves the others alone."""
    if len(ends) > MOST_BATCH:
        raise UsageFault(f"At most {MOST_BATCH} claims are ended at once, not {len(ends)}.", "Send them in parts.")
    answers: list[KranzqError | None] = [None] * len(ends)
    values: dict[int, dict[str, object]] = {}
    for place, end in enumerate(ends):
        try:
            values[place] = _ending(end)
        except KranzqError as fault:
            answers[place] = fault
    for place, row in zip(values, transaction.each("finish", list(values.values())), strict=True):
        if row is not None:
            told(ends[place].held, row)
            continue
        try:
            _ended_so(transaction, ends[place])
        except KranzqError as fault:
            answers[place] = fault
    return answers


def release(transaction: Transaction, held: Held, why: str, *, declined: bool, delay_ms: int = 0) -> ItemState:
    """Give it back; where it is now. The same release again gives the same answer. Raises ItemLost."""
    check_text("reason", why, MOST_TEXT)
    check_number("delay_ms", delay_ms, 0, MOST_DELAY_MS)
    row = transaction.one("release", why=why, declined=int(declined), delay=delay_ms, **_shown(held))
    if row is not None:
        return ItemState(row["state"])
    standing = _standing(transaction, held)
    if standing["ended"] == ("declined" if declined else "released") and standing["why"] == why:
        return ItemState(standing["state"])
    raise _lost(held, standing)


def cancel(transaction: Transaction, name: str, why: str, *, repeated: bool = False) -> bool:
    """End what is not terminal. False when it had ended, unless a first run of this very call did it. NoSuchItem."""
    check_text("id", name, MOST_NAME)
    check_text("reason", why, MOST_TEXT)
    if transaction.one("cancel", id=name, why=why) is not None:
        return True
    there = transaction.one("show", id=name)
    if there is None:
        raise NoSuchItem(name)
    return repeated and there["state"] == ItemState.CANCELLED.value and there["result"] == why


def _ending(end: Finish) -> dict[str, object]:
    """The parameters of `finish`. Raises UsageFault."""
    check_text("result", end.result, MOST_TEXT)
    return {"state": _state(end.outcome), "result": end.result, **_shown(end.held)}


def _ended_so(transaction: Transaction, end: Finish) -> None:
    """Accept an end that was recorded in the same way before. Raises ItemLost for any other."""
    standing = _standing(transaction, end.held)
    if not (standing["ended"] == standing["state"] == _state(end.outcome) and standing["result"] == end.result):
        raise _lost(end.held, standing)


def _state(outcome: Outcome) -> str:
    state = ItemState.DONE if outcome is Outcome.SUCCEEDED else ItemState.FAILED
    return state.value


def _shown(held: Held) -> dict[str, object]:
    """What a holder shows, as parameters. An attempt that no claim ever had is none. Raises UsageFault."""
    if type(held.attempt) is not int or not 0 <= held.attempt <= _MOST_ATTEMPT:
        raise UsageFault(
            f"attempt must be the whole number that the claim gave, not {str(held.attempt)[:40]!r}.",
            "See which attempt it is: kranzq work show ID",
        )
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
