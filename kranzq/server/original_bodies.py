"""What `/agentmux/work…` is told and answers, as types. Unknown fields are ignored there, as seed g.3 has it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kranzq.server.bodies import Tolerated
from kranzq.server.work_bodies import Fence, Lease, Word


class EnqueueOriginalBody(Tolerated):
    """An item to enqueue."""

    title: str
    payload: str
    kind: Word = ""
    target_agent: Word = ""
    target_agent_uid: Word = ""
    target_group: Word = ""
    priority: Annotated[int, Meta(description="Higher first.")] = 0
    created_by: Word = ""
    max_attempts: Annotated[int | None, Meta(description="Null, zero or less is 3.")] = None
    not_before: Annotated[int | None, Meta(description="Wall milliseconds since 1970.")] = None


class ClaimOriginalBody(Tolerated):
    """Who claims, and what."""

    agent_id: Word
    agent_uid: Word = ""
    block_id: Annotated[str, Meta(description="Taken and not used: there are no blocks here.")] = ""
    kind: Word | None = None
    groups: list[Word] = msgspec.field(default_factory=list)
    lease_ms: Lease = None


class HolderOriginalBody(Tolerated):
    """Who holds, under which attempt; `result` is a note, or the reason of a release."""

    agent_id: Word
    attempt: Fence
    lease_ms: Lease = None
    result: str = ""


class ReasonOriginalBody(Tolerated):
    """Why an item is cancelled."""

    reason: str = ""


class ListOriginalQuery(Tolerated):
    """Which items; a state that nobody knows gives an empty list."""

    state: str = ""
    limit: Annotated[int, Meta(description="At most so many, from 1 to 500.")] = 50


class EnqueuedOriginal(msgspec.Struct):
    """The id that the item was given."""

    id: str


class ReleasedOriginal(msgspec.Struct):
    """Where the item is now."""

    ok: Literal[True]
    state: Literal["open", "failed"]
