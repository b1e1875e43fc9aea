"""What an agent is told of a queue item in words, and items cut short for lists.

Reasons and names are other agents' words: one line of bounded size, in quotes that they cannot end.
"""

from __future__ import annotations

from kranzq.backend.items import WorkStore
from kranzq.errors import KranzqError
from kranzq.model.clock import rfc3339
from kranzq.model.presence import one_line
from kranzq.model.who import quoted
from kranzq.model.work import Attempt, ItemClaim, WorkItem
from kranzq.model.work_json import claim_json, item_json

MOST_SHOWN = 300
"""Characters of a payload or result in a list: an agent's context is not filled by what others wrote."""
_MOST_REASON = 1000


def brief_json(item: WorkItem) -> dict[str, object]:
    """An item for a list: as everywhere, with long texts cut."""
    return item_json(item) | {"payload": _cut(item.payload), "result": _cut(item.result)}


def claimed_json(claim: ItemClaim) -> dict[str, object]:
    """A claim as everywhere; the payload is whole, what the one before it left is cut."""
    told = claim_json(claim)
    return told | {"item": item_json(claim.item) | {"result": _cut(claim.item.result)}}


def reason_of_last(store: WorkStore, claim: ItemClaim) -> Attempt | None:
    """How the attempt before this one ended; None for a first one, and where it cannot be read: the claim counts."""
    if claim.attempt <= 1:
        return None
    try:
        earlier = [one for one in store.attempts(claim.id) if one.attempt < claim.attempt]
    except KranzqError:
        return None
    return earlier[-1] if earlier else None


def claim_note(claim: ItemClaim, before: Attempt | None) -> str:
    """What whoever has just claimed must know."""
    said = f"It is yours{_until(claim)}; call WorkHeartbeat before that."
    if before is None:
        return said
    how = "lost its lease" if before.ended == "lapsed" else f"ended as {before.ended}"
    why = f", and said {quoted(one_line(before.why, _MOST_REASON))}" if before.why.strip() else ""
    holder = quoted(one_line(before.holder, MOST_SHOWN))
    return f"This is attempt {claim.attempt}: the one before it, of {holder}, {how}{why}. {said}"


def heartbeat_note(claim: ItemClaim) -> str:
    """What whoever has just sent a heartbeat must know."""
    return f"It is yours{_until(claim)}."


def _until(claim: ItemClaim) -> str:
    expires, now = claim.item.claim_expires, claim.item.updated_at
    return f" for {(expires - now) / 1000:.0f} s, until {rfc3339(expires / 1000)}" if expires is not None else ""


def _cut(text: str) -> str:
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 1] + "…"
