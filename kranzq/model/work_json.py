"""Items and what is told of them as JSON: one form for the command line, HTTP and MCP.

Keys and their order are the seed's table; what is new comes behind them. Times are wall milliseconds since 1970, as
there; a time that there is none of is null.
"""

from __future__ import annotations

from kranzq.model.work import Attempt, ItemClaim, Page, Recovered, Stats, WorkItem


def item_json(item: WorkItem) -> dict[str, object]:
    """One item."""
    return {
        "id": item.id,
        "title": item.title,
        "payload": item.payload,
        "kind": item.kind,
        "target_agent": item.target.agent,
        "target_group": item.target.group,
        "priority": item.priority,
        "state": item.state.value,
        "claimed_by": item.claimed_by,
        "target_agent_uid": item.target.uid,
        "claimed_by_uid": item.claimed_by_uid,
        "claim_expires": item.claim_expires,
        "attempts": item.attempts,
        "max_attempts": item.max_attempts,
        "created_by": item.created_by,
        "created_by_uid": item.created_by_uid,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "not_before": item.not_before,
        "result": item.result,
        "declined": item.declined,
        "seq": item.seq,
    }


def told_json(item: WorkItem) -> dict[str, object]:
    """One item without its payload and result, which may have a megabyte each: for whoever is told of a change."""
    return {name: value for name, value in item_json(item).items() if name not in {"payload", "result"}}


def claim_json(claim: ItemClaim) -> dict[str, object]:
    """What a claimer got; `attempt` is what every later call must show."""
    return {"attempt": claim.attempt, "item": item_json(claim.item)}


def attempt_json(one: Attempt) -> dict[str, object]:
    """One line of an item's history."""
    return {
        "attempt": one.attempt,
        "holder": one.holder,
        "holder_uid": one.holder_uid,
        "claimed_at": one.claimed_at,
        "ended_at": one.ended_at,
        "ended": one.ended,
        "why": one.why,
    }


def page_json(page: Page) -> dict[str, object]:
    """Some items, and where the next page begins (null: this was the last)."""
    return {"items": [item_json(one) for one in page.items], "cursor": page.cursor}


def recovered_json(done: Recovered) -> dict[str, object]:
    """What a sweep did."""
    return {"lapsed": list(done.lapsed), "failed": list(done.failed), "opened": done.opened}


def stats_json(stats: Stats) -> dict[str, object]:
    """What there is, counted."""
    return {
        "states": dict(stats.by_state),
        "unseen": stats.unseen,
        "overdue": stats.overdue,
        "oldest_open": stats.oldest_open_ms,
        "size": stats.size,
        "log_size": stats.log_size,
    }
