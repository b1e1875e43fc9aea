"""What `/v1/work…` is told and answers, as types: the checks of shape, and the schemas of the reference page.

Ranges stand here for the page only; the model judges them for every surface alike.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kranzq.model.work import MOST_ATTEMPTS, MOST_BATCH, MOST_NAME, MOST_PAGE, MOST_TITLE
from kranzq.server.bodies import Given

Word = Annotated[str, Meta(extra_json_schema={"maxLength": MOST_NAME})]
Ending = Literal["succeeded", "failed"]
MOST_AGE_S = 10**10
"""Three centuries: longer ago nothing has ended."""
MOST_DELAY_MS, MOST_KINDS = 30 * 86_400_000, 16
State = Literal["open", "delayed", "claimed", "lapsed", "done", "failed", "cancelled"]


def _range(least: int, most: int, text: str = "") -> Meta:
    return Meta(extra_json_schema={"minimum": least, "maximum": most} | ({"description": text} if text else {}))


Fence = Annotated[int, _range(0, 2**31 - 1, "The attempt that the claim was given; every call of its holder shows it.")]
Lease = Annotated[
    int | None, Meta(description="Milliseconds; null, zero or less is 120000, and none is longer than a day.")
]


Ids = Annotated[list[Word], Meta(description="None but these items; empty: any.")]


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
    ids: Ids = msgspec.field(default_factory=list)
    lease_ms: Lease = None
    wait_ms: Annotated[int, _range(0, 60_000, "Wait so long for an item.")] = 0
    request_id: Annotated[Word, Meta(description="The same one again gives the same item and attempt.")] = ""


class ManyClaimsBody(Given):
    """What a claimer takes, and how many at most."""

    limit: Annotated[int, _range(1, MOST_BATCH)]
    kind: Word = ""
    kinds: list[Word] = msgspec.field(default_factory=list)
    groups: list[Word] = msgspec.field(default_factory=list)
    ids: Ids = msgspec.field(default_factory=list)
    lease_ms: Lease = None


class ManyItemsBody(Given):
    """Items that are enqueued together, or none of them."""

    items: Annotated[list[NewItemBody], Meta(extra_json_schema={"maxItems": MOST_BATCH})]


class HeartbeatBody(Given):
    """A claim that is still worked on."""

    attempt: Fence
    lease_ms: Lease = None


class CompleteBody(Given):
    """The end of a claim."""

    attempt: Fence
    result: str = ""
    outcome: Ending = "succeeded"


class EndBody(Given):
    """The end of one claim of many. An id or attempt that cannot be one is refused for itself."""

    id: str
    attempt: int
    result: str = ""
    outcome: Ending = "succeeded"


class ManyEndsBody(Given):
    """Ends that are recorded together; one that is refused does not stop the others."""

    ends: Annotated[list[EndBody], Meta(extra_json_schema={"maxItems": MOST_BATCH})]


class ReleaseBody(Given):
    """A claim that is given back."""

    attempt: Fence
    reason: str = ""
    declined: Annotated[bool, Meta(description="Not tried at all: uses up no attempt.")] = False
    delay_ms: Annotated[int, _range(0, MOST_DELAY_MS, "Nobody gets it before that has passed.")] = 0


class ReasonBody(Given):
    """Why an item is cancelled."""

    reason: str = ""


class PruneBody(Given):
    """How long ago an item must have ended to be removed."""

    older_than_s: Annotated[float, Meta(extra_json_schema={"minimum": 0, "maximum": MOST_AGE_S})]


class PageQuery(Given):
    """Which items."""

    state: Annotated[
        State | Literal[""], Meta(description="Of this state only; `open` finds `delayed` and `lapsed` too.")
    ] = ""
    limit: Annotated[int, Meta(description="At most so many, from 1 to 500; a page may be shorter.")] = 50
    cursor: Annotated[str, Meta(description="Where a page before this one ended.")] = ""


class UnseenQuery(Given):
    """How many."""

    limit: Annotated[int, _range(0, MOST_PAGE)] = 100


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
