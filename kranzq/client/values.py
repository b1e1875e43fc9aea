"""JSON of a server as values: the other direction of `model/work_json.py`. Keys that are not known are passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kranzq.backend import Accepted
from kranzq.backend.presence import Put
from kranzq.model.agents import Scope
from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.presence import PresenceClaim, Subject
from kranzq.model.work import Attempt, ItemClaim, ItemState, Page, Recovered, Stats, Target, WorkItem

Told = Mapping[str, Any]
_MOST_DIGITS = 18


@frozen
class Me:
    """Whom a server takes its caller for. A blank name: the operator, who is no agent and holds nothing."""

    holder: Holder
    groups: frozenset[str]
    scopes: frozenset[Scope]


@frozen
class LogPiece:
    """Bytes of a run's output as they are. `size` is that of all of it now; `is_over`: the run says nothing more.

    `start` is where they begin: behind what was asked for, where a log over its cap has lost its middle.
    """

    run: int
    start: int
    data: bytes
    size: int
    is_over: bool

    @property
    def next(self) -> int:
        """Where to go on."""
        return self.start + len(self.data)


def log_piece_of(headers: Told, data: bytes, offset: int) -> LogPiece:
    """A piece of a log that was asked for from `offset` on. Raises KeyError, ValueError for what is none."""
    run, start, following, size = (_number(headers[f"x-log-{name}"]) for name in ("run", "offset", "next", "size"))
    if following != start + len(data) or (data and start < offset):
        raise ValueError("it is not where it says")
    return LogPiece(run, start, data, size, headers["x-log-ended"] == "true")


def item_of(told: Told) -> WorkItem:
    """One item."""
    return WorkItem(
        id=told["id"],
        seq=told["seq"],
        title=told["title"],
        payload=told["payload"],
        kind=told["kind"],
        target=Target(told["target_agent"], told["target_agent_uid"], told["target_group"]),
        priority=told["priority"],
        state=ItemState(told["state"]),
        claimed_by=told["claimed_by"],
        claimed_by_uid=told["claimed_by_uid"],
        claim_expires=told["claim_expires"],
        attempts=told["attempts"],
        declined=told["declined"],
        max_attempts=told["max_attempts"],
        created_by=told["created_by"],
        created_by_uid=told["created_by_uid"],
        created_at=told["created_at"],
        updated_at=told["updated_at"],
        not_before=told["not_before"],
        result=told["result"],
    )


def accepted_of(told: Told) -> Accepted[WorkItem, ItemState]:
    """The answer to an enqueue."""
    item = item_of(told["item"])
    return Accepted(item, told["created"], item.state)


def claim_of(told: Told) -> ItemClaim:
    """What a claimer got; the holder is whom the server knows by its token."""
    item = item_of(told["item"])
    return ItemClaim(item.id, told["attempt"], Holder(item.claimed_by, uid=item.claimed_by_uid), item)


def claim_or_none(told: Told) -> ItemClaim | None:
    """The same where there may have been nothing."""
    return claim_of(told) if told["claimed"] else None


def claims_of(told: Told) -> list[ItemClaim]:
    """Many of them."""
    return [claim_of(one) for one in told["claims"]]


def items_of(told: Told) -> list[WorkItem]:
    """Many items."""
    return [item_of(one) for one in told["items"]]


def attempts_of(told: Told) -> list[Attempt]:
    """An item's history."""
    names = ("attempt", "holder", "holder_uid", "claimed_at", "ended_at", "ended", "why")
    return [Attempt(**{name: one[name] for name in names}) for one in told["attempts"]]


def page_of(told: Told) -> Page:
    """Some items."""
    return Page(tuple(items_of(told)), told["cursor"])


def recovered_of(told: Told) -> Recovered:
    """What a sweep did."""
    return Recovered(tuple(told["lapsed"]), tuple(told["failed"]), told["opened"])


def stats_of(told: Told) -> Stats:
    """What there is, counted."""
    return Stats(told["states"], told["unseen"], told["overdue"], told["oldest_open"], told["size"], told["log_size"])


def presence_of(told: Told) -> PresenceClaim:
    """One presence claim."""
    return PresenceClaim(
        told["id"],
        told["agent"],
        told["agent_uid"],
        told["channel"],
        Subject(told["repo"], told["path"], told["absolute_path"], told["branch"], told["topic"]),
        told["home"],
        told["note"],
        told["created_at"],
        told["expires_at"],
    )


def presences_of(key: str) -> Any:
    """Reads a list of presence claims under a key."""
    return lambda told: [presence_of(one) for one in told[key]]


def put_of(told: Told) -> Put:
    """The answer to a put."""
    return Put(presence_of(told["claim"]), bool(told["renewed"]))


def me_of(told: Told) -> Me:
    """Who is calling."""
    return Me(Holder(told["name"], uid=told["uid"]), frozenset(told["groups"]), frozenset(map(Scope, told["scopes"])))


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise ValueError("no number")
    return int(text)
