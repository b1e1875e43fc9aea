"""What `/v1/work…` is told and answers, as types: the checks of shape, and the schemas of the reference page.

Ranges stand here for the page only; the model judges them for every surface alike.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kranzq.model.work import MOST_ATTEMPTS, MOST_NAME, MOST_TITLE
from kranzq.server.bodies import Given

Word = Annotated[str, Meta(extra_json_schema={"maxLength": MOST_NAME})]
State = Literal["open", "delayed", "claimed", "lapsed", "done", "failed", "cancelled"]


def _range(least: int, most: int, text: str = "") -> Meta:
    return Meta(extra_json_schema={"minimum": least, "maximum": most} | ({"description": text} if text else {}))


Fence = Annotated[int, _range(0, 2**31 - 1, "The attempt that the claim was given; every call of its holder shows it.")]
Lease = Annotated[
    int | None, Meta(description="Milliseconds; null, zero or less is 120000, and none is longer than a day.")
]


class NewItemBody(Given):
    """An item to enqueue."""

    title: Annotated[str, Meta(extra_json_schema={"maxLength": MOST_TITLE})]
    payload: str
    kind: Word = ""
    target_agent: Word = ""
    target_agent_uid: Word = ""
    target_group: Word = ""
    priority: Annotated[int, _range(-(2**31) + 1, 2**31 - 1, "Higher first.")] = 0
    max_attempts: Annotated[int | None, _range(1, MOST_ATTEMPTS)] = None
    not_before: Annotated[int | None, Meta(description="Wall milliseconds since 1970.")] = None
    idempotency_key: Word = ""
    id: Word = ""


class ClaimBody(Given):
    """What a claimer takes. `kinds` are asked for in their order; neither kind nor kinds: anything."""

    kind: Word = ""
    kinds: list[Word] = msgspec.field(default_factory=list)
    groups: Annotated[list[Word], Meta(description="Of the agent's groups, those whose items it takes; none: all.")] = (
        msgspec.field(default_factory=list)
    )
    lease_ms: Lease = None
    wait_ms: Annotated[int, _range(0, 60_000, "Wait so long for an item.")] = 0
    request_id: Annotated[Word, Meta(description="The same one again gives the same item and attempt.")] = ""


class CompleteBody(Given):
    """The end of a claim."""

    attempt: Fence
    result: str = ""
    outcome: Literal["succeeded", "failed"] = "succeeded"


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


class Done(msgspec.Struct):
    """It is done."""

    ok: Literal[True]
