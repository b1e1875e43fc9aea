"""The work queue's verbs as requests to `/v1/work…`. An enqueue or claim without an id of its own gets one here.

By that id the server knows a request that is sent again, because its answer was lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from kranzq.backend import Accepted, Wanted
from kranzq.backend.items import AcceptedItem
from kranzq.client import values
from kranzq.client.asking import Ask
from kranzq.client.faults import fault_of
from kranzq.errors import KranzqError
from kranzq.model.outcome import Outcome
from kranzq.model.work import (
    Attempt,
    Finish,
    Held,
    ItemClaim,
    ItemState,
    NewItem,
    Page,
    Recovered,
    Stats,
    WorkItem,
)

WORK = "/v1/work"
_DOTS = {".": "%2E", "..": "%2E%2E"}
"""Names that would be taken for a way through the address."""


def enqueue(new: NewItem) -> Ask[AcceptedItem]:
    """Keep an item."""
    named = new if new.id or new.key else replace(new, id=str(uuid.uuid4()))
    ask = Ask("POST", WORK, values.accepted_of, _item(named))
    return ask if named is new else ask.then(_made)


def enqueue_many(new: Sequence[NewItem]) -> Ask[list[AcceptedItem]]:
    """Keep all of them, or none."""
    named = [one if one.id or one.key else replace(one, id=str(uuid.uuid4())) for one in new]

    def read(told: Any) -> list[AcceptedItem]:
        found = [values.accepted_of(one) for one in told["items"]]
        return [one if asked is own else _made(one) for one, asked, own in zip(found, new, named, strict=True)]

    return Ask("POST", f"{WORK}/batch", read, {"items": [_item(one) for one in named]})


def claim(wanted: Wanted | None, lease_ms: int | None, request_id: str, wait_s: float = 0.0) -> Ask[ItemClaim | None]:
    """Take the first item that the caller may have; the server waits so long for one."""
    body = _wanted(wanted) | {"lease_ms": lease_ms, "request_id": request_id or str(uuid.uuid4())}
    if wait_s > 0:
        body["wait_ms"] = round(wait_s * 1000)
    return Ask("POST", f"{WORK}/claim", values.claim_or_none, body, waits_s=wait_s)


def claim_many(wanted: Wanted | None, limit: int, lease_ms: int | None) -> Ask[list[ItemClaim]]:
    """Take up to so many. Never sent twice: what a lost answer gave is free again when its lease is over."""
    body = _wanted(wanted) | {"limit": limit, "lease_ms": lease_ms}
    return Ask("POST", f"{WORK}/claim/batch", values.claims_of, body, is_repeatable=False)


def heartbeat(held: Held, lease_ms: int | None) -> Ask[int | None]:
    """Count the lease anew; when it will be over."""
    body = {"attempt": held.attempt, "lease_ms": lease_ms}
    return Ask("POST", _of(held.id, "heartbeat"), lambda told: told["claim_expires"], body, item=held.id)


def finish(held: Held, outcome: Outcome, result: str) -> Ask[None]:
    """End a claim for good."""
    body = {"attempt": held.attempt, "result": result, "outcome": _outcome(outcome)}
    return Ask("POST", _of(held.id, "complete"), _nothing, body, item=held.id)


def finish_many(ends: Sequence[Finish], where: str) -> Ask[list[KranzqError | None]]:
    """End many claims; for each None, or why it was refused."""
    body = {
        "ends": [
            {"id": one.held.id, "attempt": one.held.attempt, "result": one.result, "outcome": _outcome(one.outcome)}
            for one in ends
        ]
    }

    def read(told: Any) -> list[KranzqError | None]:
        return [
            None if one["ok"] else fault_of(where, 0, one, Ask("POST", "", _nothing, item=asked.held.id))
            for one, asked in zip(told["ends"], ends, strict=True)
        ]

    return Ask("POST", f"{WORK}/complete/batch", read, body)


def release(held: Held, why: str, *, declined: bool, delay_ms: int) -> Ask[ItemState]:
    """Give an item back."""
    body = {"attempt": held.attempt, "reason": why, "declined": declined, "delay_ms": delay_ms}
    return Ask("POST", _of(held.id, "release"), lambda told: ItemState(told["state"]), body, item=held.id)


def cancel(item: str, why: str) -> Ask[bool]:
    """End what is not terminal."""
    return Ask("DELETE", _of(item), lambda told: bool(told["cancelled"]), {"reason": why} if why else None, item=item)


def page(state: str, limit: int, cursor: str | None) -> Ask[Page]:
    """Some items."""
    query = {"limit": limit} | ({"state": state} if state else {}) | ({"cursor": cursor} if cursor else {})
    return Ask("GET", WORK, values.page_of, query=query)


def show(item: str) -> Ask[WorkItem]:
    """One item."""
    return Ask("GET", _of(item), values.item_of, item=item)


def attempts(item: str) -> Ask[list[Attempt]]:
    """Every claim of an item."""
    return Ask("GET", _of(item, "attempts"), values.attempts_of, item=item)


def unseen(limit: int) -> Ask[list[WorkItem]]:
    """Open items whose agent was never seen."""
    return Ask("GET", f"{WORK}/unseen", values.items_of, query={"limit": limit})


def stats() -> Ask[Stats]:
    """What there is, counted."""
    return Ask("GET", f"{WORK}/stats", values.stats_of)


def sweep() -> Ask[Recovered]:
    """Lapse what is overdue."""
    return Ask("POST", f"{WORK}/sweep", values.recovered_of)


def prune(older_than_s: float) -> Ask[int]:
    """Remove what ended long ago."""
    return Ask("POST", f"{WORK}/prune", lambda told: told["removed"], {"older_than_s": older_than_s})


def counters() -> Ask[dict[str, int]]:
    """How often something was known by name only, since the server was started."""
    return Ask("GET", "/v1/identity/fallbacks", lambda told: dict(told["counters"]))


def _item(new: NewItem) -> dict[str, Any]:
    return {
        "title": new.title,
        "payload": new.payload,
        "kind": new.kind,
        "target_agent": new.target.agent,
        "target_agent_uid": new.target.uid,
        "target_group": new.target.group,
        "priority": new.priority,
        "max_attempts": new.max_attempts,
        "not_before": new.not_before,
        "idempotency_key": new.key,
        "id": new.id,
    }


def _wanted(wanted: Wanted | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    said: dict[str, Any] = {"kind": wanted.kind, "groups": sorted(wanted.groups)}
    return said | ({"ids": sorted(wanted.missions)} if wanted.missions else {})


def _of(item: str, verb: str = "") -> str:
    name = _DOTS.get(item) or quote(item, safe="")
    return f"{WORK}/{name}/{verb}" if verb else f"{WORK}/{name}"


def _outcome(outcome: Outcome) -> str:
    return "succeeded" if outcome is Outcome.SUCCEEDED else "failed"


def _made(accepted: AcceptedItem) -> AcceptedItem:
    """Nobody else had the id that was made here, so a repeat met what the same call had made."""
    return Accepted(accepted.entry, True, accepted.state)


def _nothing(told: Any) -> None:
    del told
