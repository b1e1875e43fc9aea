"""The tools on queue items: enqueue, claim, heartbeat, complete, release, cancel, list.

Parameters are the seed's (g.5); what is new comes behind them. Answers are the JSON of every surface, and a `note` that
tells in words what the agent has to do next.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Annotated, Literal

import anyio.lowlevel
import anyio.to_thread
from pydantic import Field

from kranzq.backend import Wanted
from kranzq.backend.presence import SharedStore
from kranzq.errors import KranzqError, UsageFault
from kranzq.mcp.caller import Caller
from kranzq.mcp.item_words import brief_json, claim_note, claimed_json, heartbeat_note, reason_of_last
from kranzq.mcp.telling import told
from kranzq.model.claim import Holder
from kranzq.model.outcome import Outcome
from kranzq.model.work import DEFAULT_ATTEMPTS, Held, ItemClaim, ItemState, NewItem, Target
from kranzq.model.work import Attempt as History
from kranzq.model.work_json import attempt_json, item_json
from kranzq.model.work_lines import due_ms

MOST_WAIT_MS = 60_000
_SLICE_S = 2.0
"""So long a wait goes on after its agent has left, at most."""

Id = Annotated[str, Field(description="The id of the queue item.")]
Attempt = Annotated[int, Field(description="The attempt that WorkClaim gave: your fence.")]
Lease = Annotated[
    int | None, Field(description="How long it is yours without a heartbeat, in milliseconds; at most a day.")
]
LeaseAnew = Annotated[
    int | None,
    Field(
        description="How long it is yours from now on, in milliseconds; without it two minutes, also if it was more."
    ),
]
Answer = dict[str, object]


class ItemTools:
    """The tools, for one caller. The docstring of each is what its agent reads."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def enqueue(  # noqa: PLR0913, PLR0917 - the parameters of the tool
        self,
        title: Annotated[str, Field(description="What it is about, in a line.")],
        payload: Annotated[str, Field(description="What its taker gets to work with: the whole task, in words.")],
        kind: Annotated[str, Field(description="A tag by which claimers choose.")] = "",
        target_agent: Annotated[str, Field(description="Only for the agent of this name.")] = "",
        target_group: Annotated[str, Field(description="Only for members of this group.")] = "",
        priority: Annotated[int, Field(description="Higher goes first.")] = 0,
        not_before: Annotated[
            int | str | None, Field(description="Not before: milliseconds since 1970, +90m, or RFC 3339 with its zone.")
        ] = None,
        max_attempts: Annotated[int, Field(description="So often it may be tried.")] = DEFAULT_ATTEMPTS,
        idempotency_key: Annotated[
            str, Field(description="The same key and content again give the item that is there.")
        ] = "",
        target_agent_uid: Annotated[str, Field(description="Only for the agent with this uid.")] = "",
    ) -> Answer:
        """Put a queue item into the work queue, for anybody, one agent or one group; it is kept durably.

        Give an idempotency_key when you may have to repeat the call: then a repeat makes no second item.
        """
        with told():
            who, store = self._who_and_where()
            uid = target_agent_uid or self._caller.uid_of(target_agent)
            accepted = store.enqueue(
                NewItem(
                    title=title,
                    payload=payload,
                    kind=kind,
                    target=Target(target_agent, uid, target_group),
                    priority=priority,
                    max_attempts=max_attempts,
                    not_before=due_ms(not_before, time.time()),
                    created_by=who.name,
                    created_by_uid=who.uid,
                    key=idempotency_key,
                )
            )
            note = "" if accepted.created else "It was there already; nothing was changed."
            return {"id": accepted.entry.id, "created": accepted.created, "state": accepted.state.value, "note": note}

    async def claim(
        self,
        kind: Annotated[str, Field(description="Only items of this kind.")] = "",
        lease_ms: Lease = None,
        groups: Annotated[Sequence[str], Field(description="Groups of yours to claim for; empty: all of them.")] = (),
        wait_ms: Annotated[int, Field(description="Wait so long for an item, at most 60000.")] = 0,
        request_id: Annotated[str, Field(description="The same text again gives the same item and attempt.")] = "",
    ) -> Answer:
        """Claim the first queue item that you may have: the highest priority, then the oldest.

        It is yours until its lease is over (two minutes unless lease_ms says more): call WorkHeartbeat before that, or
        ask for a lease that is longer than your longest step. Keep `id` and `attempt`; every later call shows them.
        """
        with told():
            if not 0 <= wait_ms <= MOST_WAIT_MS:
                raise UsageFault(f"wait_ms must be from 0 to {MOST_WAIT_MS}.", "Wait again when nothing came.")
            found = await self._claimed_within(wait_ms / 1000, kind, groups, lease_ms, request_id)
            if found is None:
                return {"claimed": False, "note": "There is nothing for you now. Ask again later, or with wait_ms."}
            claim, before = found
            return {"claimed": True, **claimed_json(claim), "note": claim_note(claim, before)}

    def heartbeat(self, id: Id, attempt: Attempt, lease_ms: LeaseAnew = None) -> Answer:  # noqa: A002 - the name of the seed
        """Say that you still work on a queue item: its lease counts anew from now on.

        A fault that says it is not yours any more, or was cancelled, means: stop working on it at once.
        """
        with told():
            kept = self._caller.store().heartbeat(self._held(id, attempt), lease_ms)
            expires = kept.item.claim_expires
            return {"ok": True, "attempt": kept.attempt, "claim_expires": expires, "note": heartbeat_note(kept)}

    def complete(
        self,
        id: Id,  # noqa: A002 - the name of the seed
        attempt: Attempt,
        result: Annotated[str, Field(description="What came of it, for whoever asked for it.")],
        outcome: Annotated[
            Literal["succeeded", "failed"], Field(description="failed: it did not work out, nobody shall try again.")
        ] = "succeeded",
    ) -> Answer:
        """Hand in a queue item for good, with what came of it. The same call again is a success."""
        with told():
            if not result.strip():
                raise UsageFault("result is blank.", "Say in a sentence what came of it.")
            self._caller.store().finish(self._held(id, attempt), Outcome(outcome), result)
            return {"ok": True, "state": "done" if outcome == "succeeded" else "failed"}

    def release(
        self,
        id: Id,  # noqa: A002 - the name of the seed
        attempt: Attempt,
        reason: Annotated[str, Field(description="Why; whoever claims it next is told.")] = "",
        declined: Annotated[bool, Field(description="You did not try: no attempt is used up.")] = False,  # noqa: FBT002
        delay_ms: Annotated[int, Field(description="Nobody gets it before that has passed.")] = 0,
    ) -> Answer:
        """Give a queue item back, to be claimed again by anybody who may have it."""
        with told():
            held = self._held(id, attempt)
            state = self._caller.store().release(held, reason, declined=declined, delay_ms=delay_ms)
            note = f"It is {state.value} again."
            if state is ItemState.FAILED:
                note = "It has no attempt left: it is parked as failed, and nobody gets it again."
            return {"ok": True, "state": state.value, "note": note}

    def cancel(
        self,
        id: Id,  # noqa: A002 - the name of the seed
        reason: Annotated[str, Field(description="Why; its holder is told.")] = "",
    ) -> Answer:
        """Cancel a queue item that has not ended, whoever holds it; its holder learns of it at its next call."""
        with told():
            done = self._caller.store().cancel(id, reason)
            return {"ok": True, "cancelled": done, "note": "" if done else "It had ended already; nothing was changed."}

    def list_(
        self,
        state: Annotated[str, Field(description="Only items in this state; empty: all.")] = "",
        limit: Annotated[int, Field(description="So many at most, 1 to 500.")] = 50,
        cursor: Annotated[str | None, Field(description="Where the last page ended.")] = None,
        id: Annotated[str, Field(description="One item, whole, with its attempts.")] = "",  # noqa: A002
    ) -> Answer:
        """Show queue items, newest change first, long texts cut; or one of them whole, with everybody who tried it."""
        with told():
            store = self._caller.store()
            if id:
                history = [attempt_json(one) for one in store.attempts(id)]
                return {"items": [item_json(store.show(id))], "attempts": history, "cursor": None}
            if state and state not in (known := [one.value for one in ItemState]):
                raise UsageFault(f"{state[:100]!r} is no state of an item.", f"There are: {', '.join(known)}.")
            page = store.page(state, limit=limit, cursor=cursor)
            return {"items": [brief_json(one) for one in page.items], "cursor": page.cursor}

    async def _claimed_within(
        self, seconds: float, kind: str, groups: Sequence[str], lease_ms: int | None, request_id: str
    ) -> tuple[ItemClaim, History | None] | None:
        """Claim, again and again for so long; with how the attempt before this one ended.

        An agent that leaves while it waits holds nothing afterwards.
        """

        def take(wait_s: float) -> tuple[ItemClaim, History | None] | None:
            claim = self._caller.claim(wanted, lease_ms, request_id, wait_s)
            return (claim, reason_of_last(self._caller.store(), claim)) if claim is not None else None

        wanted = Wanted(kind=kind, groups=await anyio.to_thread.run_sync(self._caller.groups, groups))
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            wait_s = max(0.0, min(left, _SLICE_S))
            found = await anyio.to_thread.run_sync(take, wait_s)
            if found is not None:
                break
            if left <= 0:
                return None
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class():
            with contextlib.suppress(KranzqError):  # what cannot be given back now lapses later
                self._caller.store().release(found[0], "its claimer had left", declined=True)
            raise
        return found

    def _who_and_where(self) -> tuple[Holder, SharedStore]:
        return self._caller.holder(), self._caller.store()

    def _held(self, item: str, attempt: int) -> Held:
        return Held(item, attempt, self._caller.holder())
