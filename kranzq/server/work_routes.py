"""The work queue on `/v1/work…`: enqueue, claim, what a holder says of its claim, and cancel."""

from __future__ import annotations

import asyncio

from kranzq.backend import Wanted
from kranzq.errors import KranzqError
from kranzq.model.agents import Scope
from kranzq.model.outcome import Outcome
from kranzq.model.work import (
    DEFAULT_ATTEMPTS,
    MOST_BATCH,
    MOST_GROUPS,
    MOST_NAME,
    Held,
    ItemClaim,
    NewItem,
    Target,
    check_number,
    check_text,
)
from kranzq.model.work_json import claim_json, item_json
from kranzq.server import work_answers as answers
from kranzq.server import work_bodies as forms
from kranzq.server.routing import Call, Route

HUNG_UP = "the claimer hung up before it was told"


def enqueue(call: Call) -> object:
    """Keep an item."""
    accepted = call.service.store.enqueue(new_item(call, call.body))
    return {"id": accepted.entry.id, "created": accepted.created, "item": item_json(accepted.entry)}


async def claim(call: Call) -> object:
    """Take the first item that the caller may have, and perhaps wait for one.

    An item that was claimed for somebody who has hung up meanwhile goes back at once, unless a request id lets the
    same claimer ask for it again.
    """
    said: forms.ClaimBody = call.body
    check_number("wait_ms", said.wait_ms, 0, call.service.limits.wait_ms)

    def take() -> ItemClaim | None:
        return first_of(call, said)

    def take_later() -> ItemClaim | None:
        call.caller.check_again()
        return take()

    waiting, asked_at = call.service.waiting, call.service.waiting.hints
    found = await call.proven(take)
    if found is None and said.wait_ms > 0:
        gone = asyncio.create_task(call.hung_up())
        try:
            found = await waiting.until_there_is_one(take_later, said.wait_ms / 1000, gone, asked_at)
        finally:
            gone.cancel()
    if found is not None and call.has_hung_up and not said.request_id:
        await call.service.pool.run(give_back, call, found)
    return {"claimed": False} if found is None else {"claimed": True} | claim_json(found)


def heartbeat(call: Call) -> object:
    """A lease from now on."""
    said: forms.HeartbeatBody = call.body
    found = call.service.store.heartbeat(held(call, said.attempt), said.lease_ms)
    return {"ok": True, "attempt": found.attempt, "claim_expires": found.item.claim_expires}


def complete(call: Call) -> object:
    """End a claim for good."""
    said: forms.CompleteBody = call.body
    call.service.store.finish(held(call, said.attempt), Outcome(said.outcome), said.result)
    return {"ok": True}


def release(call: Call) -> object:
    """Give a claim back."""
    said: forms.ReleaseBody = call.body
    state = call.service.store.release(
        held(call, said.attempt), said.reason, declined=said.declined, delay_ms=said.delay_ms
    )
    return {"ok": True, "state": state.value}


def cancel(call: Call) -> object:
    """End an item, whoever holds it."""
    said: forms.ReasonBody | None = call.body
    done = call.service.store.cancel(call.path["id"], said.reason if said is not None else "")
    return {"ok": True, "cancelled": done}


def new_item(call: Call, said: forms.NewItemBody) -> NewItem:
    """The item that somebody wants to enqueue; its creator is known by token only. Raises UsageFault."""
    return NewItem(
        said.title,
        said.payload,
        said.kind,
        Target(said.target_agent, said.target_agent_uid, said.target_group),
        said.priority,
        DEFAULT_ATTEMPTS if said.max_attempts is None else said.max_attempts,
        said.not_before,
        call.caller.name,
        call.caller.uid,
        said.id,
        said.idempotency_key,
    )


def first_of(call: Call, said: forms.ClaimBody) -> ItemClaim | None:
    """The first item of the first of the kinds that has one."""
    for one in wanted(call, said):
        found = call.service.store.claim(call.caller.holder, one, lease_ms=said.lease_ms, request_id=said.request_id)
        if found is not None:
            return found
    return None


def wanted(call: Call, said: forms.ClaimBody | forms.ManyClaimsBody) -> list[Wanted]:
    """What a claimer takes, one after the other: the groups are the agent's, cut to those that it asks for."""
    check_number("the number of groups", len(said.groups), 0, MOST_GROUPS)
    for group in said.groups:
        check_text("group", group, MOST_NAME)
    agent = call.caller.agent
    mine = agent.groups_of(said.groups) if agent is not None else frozenset()
    asked = list(dict.fromkeys([*([said.kind] if said.kind or not said.kinds else []), *said.kinds]))
    check_number("the number of kinds", len(asked), 1, forms.MOST_KINDS)
    for kind in asked:  # all of them, though the first may have an item: a body is taken whole or not at all
        check_text("kind", kind, MOST_NAME)
    check_number("the number of ids", len(said.ids), 0, MOST_BATCH)
    return [Wanted(frozenset(said.ids), one, mine) for one in asked]


def held(call: Call, attempt: int) -> Held:
    """The claim that a call is about."""
    return Held(call.path["id"], attempt, call.caller.holder)


def give_back(call: Call, claimed: ItemClaim) -> None:
    """Undo a claim of which nobody knows; it used up no attempt. What cannot be given back now lapses later."""
    try:
        call.service.store.release(claimed, HUNG_UP, declined=True)
    except KranzqError:
        return


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/work",
        enqueue,
        "Enqueue an item; the same id or idempotency key with the same content gives the item that is there.",
        Scope.WORK,
        answers.Enqueued,
        forms.NewItemBody,
        statuses=(409,),
    ),
    Route(
        "POST",
        "/v1/work/claim",
        claim,
        "Claim the first item that you may have: highest priority, then the oldest. With `wait_ms`, wait for one.",
        Scope.WORK,
        answers.Claimed,
        forms.ClaimBody,
        needs_agent=True,
    ),
    Route(
        "POST",
        "/v1/work/{id}/heartbeat",
        heartbeat,
        "Say that a claim is still worked on: its lease begins anew.",
        Scope.WORK,
        answers.Renewed,
        forms.HeartbeatBody,
        statuses=(404, 409),
        needs_agent=True,
    ),
    Route(
        "POST",
        "/v1/work/{id}/complete",
        complete,
        "End a claim for good; the same end again under the same attempt is a success.",
        Scope.WORK,
        answers.Done,
        forms.CompleteBody,
        statuses=(404, 409),
        needs_agent=True,
    ),
    Route(
        "POST",
        "/v1/work/{id}/release",
        release,
        "Give a claim back to its old place.",
        Scope.WORK,
        answers.Released,
        forms.ReleaseBody,
        statuses=(404, 409),
        needs_agent=True,
    ),
    Route(
        "DELETE",
        "/v1/work/{id}",
        cancel,
        "Cancel an item, claimed or not; its holder learns of it at its next call.",
        Scope.WORK,
        answers.Cancelled,
        forms.ReasonBody,
        body_optional=True,
        statuses=(404,),
    ),
)
