"""Several checkouts in words: what runs in one, what waits, and what a person should look at there."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kranzq.cli.say import duration, say
from kranzq.cli.tables import fitted

if TYPE_CHECKING:
    from kranzq.wiring.repos import RepoSeen


def repos_text(found: Sequence[RepoSeen]) -> None:
    """The table, for whoever reads it in a pipe."""
    if not found:
        say("No checkout is known yet. One becomes known by: kranzq init, kranzq daemon, kranzq repos add")
        return
    now = time.time()
    fitted(
        ("CHECKOUT", "RUNS", "WAITS", "NEEDS YOU"),
        [(one.root, what_runs(one, now), what_waits(one), needs(one)) for one in found],
    )


def what_runs(one: RepoSeen, now: float) -> str:
    """The mission that runs and how long, or a dash; `now` is in wall seconds."""
    busy = one.status.busy if one.status is not None else None
    if busy is None:
        return "-"
    lasts = f" {duration(now - busy.since)}" if busy.since is not None else ""
    return f"{busy.mission or 'busy'}{lasts}"


def what_waits(one: RepoSeen) -> str:
    """How many may run or wait, or a dash."""
    counts = one.status.counts if one.status is not None else {}
    return str(sum(counts.get(word, 0) for word in ("queued", "waiting", "inbox")) or "-")


def needs(one: RepoSeen) -> str:
    """The first thing that a person should look at, and how many more there are; empty when there is none."""
    if one.status is None:
        return one.fault
    texts = [f"paused: {one.status.paused}"] if one.status.paused is not None else []
    texts += [notice.text for notice in one.status.warnings]
    return f"{texts[0]}{f' (and {len(texts) - 1} more)' if len(texts) > 1 else ''}" if texts else ""
