"""The work queue on its original paths, `/agentmux/work…`: exactly the fields, defaults and codes of seed g.3.

There an item that is delayed or lapsed is `open` without a holder, an unknown id is 409 like a lost claim, and a name
in the body says who calls. A token says it better: whoever shows an agent's own token as the credential is that agent.
"""

from __future__ import annotations

from kranzq.backend import Wanted
from kranzq.errors import Conflict, UsageFault
from kranzq.model.agents import Scope
from kranzq.model.claim import Holder
from kranzq.model.work import (
    DEFAULT_ATTEMPTS,
    MOST_NAME,
    Held,
    ItemState,
    NewItem,
    Target,
    WorkItem,
    check_text,
    folded,
)
from kranzq.model.work_json import item_json
from kranzq.server import original_bodies as forms
from kranzq.server import work_answers as answers
from kranzq.server.errors import Form
from kranzq.server.identity import UID_MISMATCH, note_actor
from kranzq.server.look_routes import page_of
from kranzq.server.routing import Call, Route

_SHOWN_AS_OPEN = frozenset({ItemState.DELAYED, ItemState.LAPSED})
_NO_STATES = frozenset(one.value for one in _SHOWN_AS_OPEN)
"""States that these paths do not know: a list of them is empty, as of any other word."""


def enqueue(call: Call) -> object:
    """Keep an item."""
    said: forms.EnqueueOriginalBody = call.body
    note_actor(call, "work_enqueue", said.created_by)
    attempts = said.max_attempts if said.max_attempts is not None and said.max_attempts > 0 else DEFAULT_ATTEMPTS
    target = Target(said.target_agent, said.target_agent_uid, said.target_group)
    new = NewItem(
        said.title,
        said.payload,
        said.kind,
        target,
        said.priority,
        attempts,
        said.not_before,
        said.created_by,
        call.caller.uid,
    )
    return {"id": call.service.store.enqueue(new).entry.id}


def claim(call: Call) -> object:
    """Take the first item that the caller may have."""
    said: forms.ClaimOriginalBody = call.body
    if not said.agent_id.strip():
        raise UsageFault("agent_id is blank.", "Say who claims.")
    note_actor(call, "work_claim", said.agent_id)
    check_text("agent_uid", said.agent_uid, MOST_NAME)
    who = _holder(call, said.agent_id)
    if call.caller.uid and said.agent_uid and said.agent_uid != call.caller.uid:
        call.service.count(UID_MISMATCH)
    if not who.uid and said.agent_uid:
        who = Holder(who.name, uid=said.agent_uid)
    wanted = Wanted(kind=(said.kind or "").strip(), groups=_groups(call, said.groups))
    found = call.service.store.claim(who, wanted, lease_ms=said.lease_ms)
    return (
        {"claimed": False} if found is None else {"claimed": True, "attempt": found.attempt, "item": shown(found.item)}
    )


def heartbeat(call: Call) -> object:
    """A lease from now on."""
    call.service.store.heartbeat(_held(call, "work_heartbeat"), call.body.lease_ms)
    return {"ok": True}


def complete(call: Call) -> object:
    """Done, for good."""
    call.service.store.finish(_held(call, "work_complete"), result=call.body.result)
    return {"ok": True}


def release(call: Call) -> object:
    """Give a claim back."""
    state = call.service.store.release(_held(call, "work_release"), call.body.result)
    # Repeated, it is a success whatever became of the item since; what it did then was to open it, or to end it.
    return {"ok": True, "state": "failed" if state is ItemState.FAILED else "open"}


def list_(call: Call) -> object:
    """Items, newest change first."""
    said: forms.ListOriginalQuery = call.query
    if said.state in _NO_STATES:
        return {"items": []}
    page = page_of(call.service.store, said.state, said.limit)
    return {"items": [shown(one) for one in page.items]}


def cancel(call: Call) -> object:
    """End an item, whoever holds it. Raises Conflict when it had ended."""
    said: forms.ReasonOriginalBody | None = call.body
    name = call.path["id"]
    if not call.service.store.cancel(name, said.reason if said is not None else ""):
        raise Conflict(f"Item {name[:200]} has ended already.", "There is nothing to cancel.")
    return {"ok": True}


def shown(item: WorkItem) -> dict[str, object]:
    """An item as these paths show it."""
    told = item_json(item)
    if item.state in _SHOWN_AS_OPEN:
        told |= {"state": "open", "claimed_by": "", "claimed_by_uid": "", "claim_expires": None}
    return told


def _held(call: Call, site: str) -> Held:
    said: forms.HolderOriginalBody = call.body
    note_actor(call, site, said.agent_id)
    return Held(call.path["id"], said.attempt, _holder(call, said.agent_id))


def _holder(call: Call, named: str) -> Holder:
    """Who holds: the agent whose own token opened the door, else the name that is said, with the token's uid."""
    check_text("agent_id", named, MOST_NAME)
    if call.caller.agent is not None and not call.caller.is_operator:
        return call.caller.agent.holder
    return Holder(named, uid=call.caller.uid)


def _groups(call: Call, asked: list[str]) -> frozenset[str]:
    """Those that are asked for; an agent that came by its own token has no others than its own."""
    for group in asked:
        check_text("group", group, MOST_NAME)
    if call.caller.agent is None or call.caller.is_operator:
        return frozenset(asked)
    own = {folded(one) for one in call.caller.agent.groups}
    return frozenset(one for one in asked if folded(one) in own)


ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/agentmux/work",
        enqueue,
        "Enqueue an item.",
        Scope.WORK,
        forms.EnqueuedOriginal,
        forms.EnqueueOriginalBody,
        form=Form.ORIGINAL,
    ),
    Route(
        "POST",
        "/agentmux/work/claim",
        claim,
        "Claim the first item that you may have.",
        Scope.WORK,
        answers.Claimed,
        forms.ClaimOriginalBody,
        form=Form.ORIGINAL,
    ),
    Route(
        "POST",
        "/agentmux/work/{id}/heartbeat",
        heartbeat,
        "Say that a claim is still worked on.",
        Scope.WORK,
        answers.Done,
        forms.HolderOriginalBody,
        statuses=(409,),
        form=Form.HOLDER,
    ),
    Route(
        "POST",
        "/agentmux/work/{id}/complete",
        complete,
        "End a claim for good.",
        Scope.WORK,
        answers.Done,
        forms.HolderOriginalBody,
        statuses=(409,),
        form=Form.HOLDER,
    ),
    Route(
        "POST",
        "/agentmux/work/{id}/release",
        release,
        "Give a claim back; `result` is the reason.",
        Scope.WORK,
        forms.ReleasedOriginal,
        forms.HolderOriginalBody,
        statuses=(409,),
        form=Form.HOLDER,
    ),
    Route(
        "GET",
        "/agentmux/work",
        list_,
        "Items, newest change first.",
        Scope.READ,
        answers.Items,
        query=forms.ListOriginalQuery,
        statuses=(422,),
        form=Form.ORIGINAL,
    ),
    Route(
        "DELETE",
        "/agentmux/work/{id}",
        cancel,
        "Cancel an item.",
        Scope.WORK,
        answers.Done,
        forms.ReasonOriginalBody,
        body_optional=True,
        statuses=(409,),
        form=Form.HOLDER,
    ),
)
