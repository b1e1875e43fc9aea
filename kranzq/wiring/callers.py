"""Who is asking, where nobody proves it: by what was said, else by the environment, else by user and host.

Whoever may write the database may act under any name. Through a server the token decides, and nothing of this counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from kranzq.model.claim import Holder

AGENT, UID, GROUPS = "KRANZQ_AGENT", "KRANZQ_AGENT_UID", "KRANZQ_AGENT_GROUPS"


def caller(environ: Mapping[str, str], named: str | None = None) -> Holder:
    """Who holds what is claimed, and who enqueues: the name that was said, `KRANZQ_AGENT`, or user@host."""
    from kranzq.wiring.trusting import user_name

    name = named or environ.get(AGENT, "").strip() or f"{user_name()}@{os.uname().nodename}"
    return Holder(name, uid=environ.get(UID, "").strip())


def groups_of(environ: Mapping[str, str], given: Collection[str] = ()) -> frozenset[str]:
    """The groups that one belongs to: those that were said, else those of `KRANZQ_AGENT_GROUPS`."""
    return frozenset(split_groups(given) or environ.get(GROUPS, "").replace(",", " ").split())


def split_groups(given: Iterable[str]) -> tuple[str, ...]:
    """Names as people give them: one an option, or several with commas between."""
    return tuple(name for text in given for part in text.split(",") if (name := part.strip()))
