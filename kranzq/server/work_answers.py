"""What `/v1/work…` answers, as types, of which the schemas of the reference page are made."""

from __future__ import annotations

from typing import Literal

import msgspec

from kranzq.server.work_bodies import State


class Item(msgspec.Struct):
    """One item."""

    id: str
    title: str
    payload: str
    kind: str
    target_agent: str
    target_group: str
    priority: int
    state: State
    claimed_by: str
    target_agent_uid: str
    claimed_by_uid: str
    claim_expires: int | None
    attempts: int
    max_attempts: int
    created_by: str
    created_by_uid: str
    created_at: int
    updated_at: int
    not_before: int | None
    result: str
    declined: int
    seq: int


class Enqueued(msgspec.Struct):
    """The item, and whether this call made it."""

    id: str
    created: bool
    item: Item


class Claimed(msgspec.Struct):
    """What was claimed; without an item there was nothing."""

    claimed: bool
    attempt: int | msgspec.UnsetType = msgspec.UNSET
    item: Item | msgspec.UnsetType = msgspec.UNSET


class ClaimOfItem(msgspec.Struct):
    """One item that was claimed; every later call shows its attempt."""

    attempt: int
    item: Item


class Claims(msgspec.Struct):
    """What was claimed, in the order in which it waited."""

    claims: list[ClaimOfItem]


class ManyEnqueued(msgspec.Struct):
    """As many as were sent, in their order."""

    items: list[Enqueued]


class Renewed(msgspec.Struct):
    """The lease as it is now."""

    ok: Literal[True]
    attempt: int
    claim_expires: int | None


class Ended(msgspec.Struct):
    """What became of one end."""

    id: str
    ok: bool
    error: str | msgspec.UnsetType = msgspec.UNSET
    code: str | msgspec.UnsetType = msgspec.UNSET
    state: str | msgspec.UnsetType = msgspec.UNSET
    cancelled: str | msgspec.UnsetType | None = msgspec.UNSET


class ManyEnded(msgspec.Struct):
    """As many as were sent, in their order."""

    ends: list[Ended]


class Released(msgspec.Struct):
    """Where the item is now: `open`, `delayed`, or `failed` when its attempts are used up."""

    ok: Literal[True]
    state: State


class Cancelled(msgspec.Struct):
    """`cancelled` is false when the item had ended before."""

    ok: Literal[True]
    cancelled: bool


class Items(msgspec.Struct):
    """Some items."""

    items: list[Item]


class PageOfItems(msgspec.Struct):
    """Some items, newest change first, and where the next page begins; null: this was the last."""

    items: list[Item]
    cursor: str | None


class AttemptSeen(msgspec.Struct):
    """One claim of an item. `ended` is null while it counts."""

    attempt: int
    holder: str
    holder_uid: str
    claimed_at: int
    ended_at: int | None
    ended: Literal["done", "failed", "released", "declined", "lapsed", "cancelled"] | None
    why: str


class Attempts(msgspec.Struct):
    """Every claim of an item, oldest first."""

    attempts: list[AttemptSeen]


class StatsSeen(msgspec.Struct):
    """What there is, counted; sizes are bytes."""

    states: dict[str, int]
    unseen: int
    overdue: int
    oldest_open: int | None
    size: int
    log_size: int


class Recovered(msgspec.Struct):
    """What a sweep did."""

    lapsed: list[str]
    failed: list[str]
    opened: int


class Pruned(msgspec.Struct):
    """How many were removed."""

    removed: int


class Done(msgspec.Struct):
    """It is done."""

    ok: Literal[True]
