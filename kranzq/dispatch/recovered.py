"""What recovery did with a claim, in words."""

from __future__ import annotations

from kranzq.dispatch.settle import Settled
from kranzq.errors import Refused
from kranzq.model.claim import Claimed
from kranzq.model.outcome import Outcome, Return, fate_name

MOVED = ("put back", "settled")
"""How an action begins that moved the entry."""
REFUSED = "stays: it may not be settled"


def refusal(claimed: Claimed, fault: PermissionError | Refused) -> str:
    """Why a claim stays that this user may not settle, and what to mend."""
    why = fault.sentence.rstrip(".") if isinstance(fault, Refused) else fault.strerror
    return f"{REFUSED} ({why}); mend the rights to .kranz/missions/{claimed.place.mission}/dispatch or .kranz/queue"


def action_of(settled: Settled | None) -> str:
    """What was done; None: somebody else was faster."""
    if settled is None:
        return "was settled by somebody else"
    if settled.waits is not None:
        return f"its end waits for the work queue: {settled.waits}"
    if settled.ending.outcome is Outcome.NEVER_BEGAN and isinstance(settled.fate, Return):
        return "put back: it had not begun"
    if settled.ending.outcome is Outcome.INTERRUPTED and isinstance(settled.fate, Return):
        return "put back: interrupted, it will run again"
    return f"settled: {settled.ending.outcome.value}, {fate_name(settled.fate)}"
