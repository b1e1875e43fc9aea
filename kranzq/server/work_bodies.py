"""What `/v1/work…` is told, as types: the checks of shape, and the schemas of the reference page.

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
