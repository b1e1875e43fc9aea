"""How items are shown to people: one line in a table, one screen alone. Times are local."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kranzq.cli.say import clean, clean_output, duration, local_time, say, say_styled, shade
from kranzq.cli.tables import fitted
from kranzq.model.work import ItemState

if TYPE_CHECKING:
    from kranzq.model.work import Attempt, ItemClaim, Stats, WorkItem

LOG_WARNS_AT = 256 * 1024 * 1024
"""Four times what the log may keep between two checkpoints: only a reader that does not end lets it grow so far."""
_OLD_S = 86400.0
_COUNTED = (ItemState.OPEN, ItemState.DELAYED, ItemState.CLAIMED, ItemState.LAPSED)


def items_text(items: Sequence[WorkItem], nothing: str) -> None:
    """The table of items, newest change first."""
    if not items:
        say(nothing)
        return
    rows = [(one.id, one.state.value, str(one.priority), tries(one), who(one), one.title) for one in items]
    fitted(("ID", "STATE", "PRIO", "TRIES", "WHO", "TITLE"), rows, cut=(4, 5))


def item_text(item: WorkItem, attempts: Sequence[Attempt]) -> None:
    """One item, its history and its payload."""
    say_styled(f"{shade(item.title, bold=True)}  {clean(item.id)}")
    lines = [
        ("state", f"{item.state.value}{_since(item)}"),
        ("for", whom(item)),
        ("kind", item.kind),
        ("priority", f"{item.priority} (higher first)"),
        ("tries", tries(item) + (f", {item.declined} declined" if item.declined else "")),
        ("made", f"{local_time(item.created_at / 1000)} by {item.created_by or 'somebody'}"),
        ("due", local_time(item.not_before / 1000) if item.not_before is not None else ""),
    ]
    for name, text in lines:
        if text:
            say(f"  {name:9}{text}")
    if item.result:
        _block("result", item.result)
    if attempts:
        rows = [
            (
                str(one.attempt),
                one.holder,
                local_time(one.claimed_at / 1000),
                local_time(one.ended_at / 1000 if one.ended_at is not None else None),
                one.ended or "at work",
                one.why,
            )
            for one in attempts
        ]
        say()
        fitted(("TRY", "HOLDER", "CLAIMED", "ENDED", "HOW", "WHY"), rows, cut=(1, 5))
    say()
    say_styled(clean_output(item.payload))


def claimed_line(claim: ItemClaim) -> str:
    """One line: which item was claimed, under which attempt; declined ones make that more than the tries."""
    return f"{claim.id}: attempt {claim.attempt}, tries {tries(claim.item)}: {claim.item.title}"


def claim_text(claim: ItemClaim) -> None:
    """What a claimer got: what it must show later, then what it works with."""
    item = claim.item
    ends = local_time(item.claim_expires / 1000 if item.claim_expires is not None else None)
    say(f"{item.id}  attempt {claim.attempt}  lease until {ends}", item.title)
    if claim.attempt > 1 and item.result:
        _block("last time", item.result)
    say()
    say_styled(clean_output(item.payload))


def stats_text(stats: Stats) -> None:
    """What there is, and what a person should look at."""
    counts = ", ".join(f"{number} {state}" for state, number in stats.by_state.items() if number)
    say(f"items     {counts or 'none'}")
    if stats.oldest_open_ms is not None:
        ago = duration(time.time() - stats.oldest_open_ms / 1000)
        say(f"oldest    the oldest open item was enqueued {ago} ago ({local_time(stats.oldest_open_ms / 1000)})")
    say(f"size      {_bytes(stats.size)}" + (f", log {_bytes(stats.log_size)}" if stats.log_size else ""))
    for text, advice in warnings(stats):
        say_styled(shade("! ", fg="yellow") + clean(text))
        say(f"    {advice}")


def warnings(stats: Stats) -> list[tuple[str, str]]:
    """What needs a person: each with what to type."""
    found = []
    if stats.overdue:
        found.append((f"{stats.overdue} leases are over and not yet swept.", "Let them lapse: kranzq work recover"))
    if stats.unseen:
        many = f"{stats.unseen} open items are" if stats.unseen > 1 else "One open item is"
        text = f"{many} for an agent that never asked for work here."
        found.append((text, "Look for mistyped names: kranzq work list --unseen"))
    if stats.log_size > max(LOG_WARNS_AT, stats.size):
        text = f"The database's log has grown to {_bytes(stats.log_size)}: some program keeps a reader open."
        found.append((text, "Find and end it; who has it open says: fuser -v FILE"))
    if stats.oldest_open_ms is not None and time.time() - stats.oldest_open_ms / 1000 > _OLD_S:
        found.append(
            ("An item has waited for more than a day.", "Does anybody claim? See: kranzq work list --state open")
        )
    return found


def tries(item: WorkItem) -> str:
    """How often it was tried, of how often it may be; declined ones use none up."""
    return f"{item.attempts - item.declined}/{item.max_attempts}"


def who(item: WorkItem) -> str:
    """Who has it, else whom it is for."""
    return f"by {item.claimed_by}" if item.claimed_by else whom(item)


def whom(item: WorkItem) -> str:
    """Whom it is for."""
    target = item.target
    if target.group:
        return f"group {target.group}"
    return target.agent or target.uid or "anybody"


def _since(item: WorkItem) -> str:
    if item.state in {ItemState.CLAIMED, ItemState.LAPSED} and item.claim_expires is not None:
        word = "until" if item.state is ItemState.CLAIMED else "since"
        return f" by {item.claimed_by}, attempt {item.attempts}, {word} {local_time(item.claim_expires / 1000)}"
    return f" since {local_time(item.updated_at / 1000)}"


def _block(name: str, text: str) -> None:
    first, *rest = clean_output(text.rstrip()).split("\n")
    say_styled(f"  {name:9}{first}")
    for line in rest:
        say_styled(f"  {'':9}{line}")


def _bytes(number: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} bytes"
