"""Many items in one call: enqueued all or none, claimed in one transaction, ended each for itself."""

from __future__ import annotations

from kranzq.errors import KranzqError
from kranzq.model.agents import Scope
from kranzq.model.outcome import Outcome
from kranzq.model.work import MOST_BATCH, Finish, Held, ItemClaim, check_number
from kranzq.model.work_json import claim_json, item_json
from kranzq.server import work_answers as answers
from kranzq.server import work_bodies as forms
from kranzq.server.errors import Form, answer_to
from kranzq.server.routing import Call, Route
from kranzq.server.work_routes import give_back, new_item, wanted

_TOLD = ("error", "code", "state", "cancelled")


def enqueue(call: Call) -> object:
    """Keep all of them, or none."""
    said: forms.ManyItemsBody = call.body
    accepted = call.service.store.enqueue_many([new_item(call, one) for one in said.items])
    return {"items": [{"id": one.entry.id, "created": one.created, "item": item_json(one.entry)} for one in accepted]}


def claim(call: Call) -> object:
    """Take up to so many. Those of a client that has hung up meanwhile go back at once."""
    said: forms.ManyClaimsBody = call.body
    check_number("limit", said.limit, 1, MOST_BATCH)
    found: list[ItemClaim] = []
    for one in wanted(call, said):
        if len(found) < said.limit:
            try:
                found += call.service.store.claim_many(
                    call.caller.holder, one, limit=said.limit - len(found), lease_ms=said.lease_ms
                )
            except KranzqError:
                if not found:
                    raise
                break  # what was claimed of another kind before must be told: nobody else would know whose it is
    if call.has_hung_up:
        for claimed in found:
            give_back(call, claimed)
    return {"claims": [claim_json(one) for one in found]}


def complete(call: Call) -> object:
    """Record ends; each is kept or refused for itself."""
    said: forms.ManyEndsBody = call.body
    check_number("the number of ends", len(said.ends), 0, MOST_BATCH)
    holder = call.caller.holder
    ends = [Finish(Held(one.id, one.attempt, holder), Outcome(one.outcome), one.result) for one in said.ends]
    told = call.service.store.finish_many(ends) if ends else []
    return {"ends": [_end(one.id, fault) for one, fault in zip(said.ends, told, strict=True)]}


def _end(name: str, fault: KranzqError | None) -> dict[str, object]:
    if fault is None:
        return {"id": name, "ok": True}
    _, body, _ = answer_to(fault, Form.V1)
    return {"id": name, "ok": False} | {key: body[key] for key in _TOLD if key in body}


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/work/batch",
        enqueue,
        "Enqueue up to a thousand items, all of them or none.",
        Scope.WORK,
        answers.ManyEnqueued,
        forms.ManyItemsBody,
        statuses=(409,),
    ),
    Route(
        "POST",
        "/v1/work/claim/batch",
        claim,
        "Claim up to a thousand items, in their order.",
        Scope.WORK,
        answers.Claims,
        forms.ManyClaimsBody,
        needs_agent=True,
    ),
    Route(
        "POST",
        "/v1/work/complete/batch",
        complete,
        "End up to a thousand claims; one that is refused does not stop the others.",
        Scope.WORK,
        answers.ManyEnded,
        forms.ManyEndsBody,
        needs_agent=True,
    ),
)
