"""The work queue on `/v1/work…`: enqueue, claim, and what a holder says of its claim."""

from __future__ import annotations

from kranzq.backend import Wanted
from kranzq.model.agents import Scope
from kranzq.model.outcome import Outcome
from kranzq.model.work import DEFAULT_ATTEMPTS, Held, NewItem, Target
from kranzq.model.work_json import claim_json, item_json
from kranzq.server import work_bodies as forms
from kranzq.server.routing import Call, Route


def enqueue(call: Call) -> object:
    """Keep an item."""
    accepted = call.service.store.enqueue(new_item(call, call.body))
    return {"id": accepted.entry.id, "created": accepted.created, "item": item_json(accepted.entry)}


def claim(call: Call) -> object:
    """Take the first item that the caller may have."""
    said: forms.ClaimBody = call.body
    wanted = Wanted(kind=said.kind, groups=groups_of(call, said.groups))
    found = call.service.store.claim(call.caller.holder, wanted, lease_ms=said.lease_ms, request_id=said.request_id)
    return {"claimed": False} if found is None else {"claimed": True} | claim_json(found)


def complete(call: Call) -> object:
    """End a claim for good."""
    said: forms.CompleteBody = call.body
    call.service.store.finish(held(call, said.attempt), Outcome(said.outcome), said.result)
    return {"ok": True}


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


def groups_of(call: Call, asked: list[str]) -> frozenset[str]:
    """The groups whose items the caller takes: its own, or those of them that it asks for."""
    agent = call.caller.agent
    return agent.groups_of(asked) if agent is not None else frozenset()


def held(call: Call, attempt: int) -> Held:
    """The claim that a call is about."""
    return Held(call.path["id"], attempt, call.caller.holder)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/work",
        enqueue,
        "Enqueue an item; the same id or idempotency key with the same content gives the item that is there.",
        Scope.WORK,
        forms.Enqueued,
        forms.NewItemBody,
        statuses=(409,),
    ),
    Route(
        "POST",
        "/v1/work/claim",
        claim,
        "Claim the first item that you may have: highest priority, then the oldest.",
        Scope.WORK,
        forms.Claimed,
        forms.ClaimBody,
        needs_agent=True,
    ),
    Route(
        "POST",
        "/v1/work/{id}/complete",
        complete,
        "End a claim for good; the same end again under the same attempt is a success.",
        Scope.WORK,
        forms.Done,
        forms.CompleteBody,
        statuses=(404, 409),
        needs_agent=True,
    ),
)
