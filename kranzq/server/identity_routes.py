"""Who is who: what was known by name only, which agent a name means, and who the caller is."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kranzq.errors import KranzqError, UsageFault
from kranzq.model.agents import Agent, Scope, agent_json
from kranzq.model.work import MOST_NAME, check_text
from kranzq.server.bodies import Given, Tolerated
from kranzq.server.errors import Form, HttpFault
from kranzq.server.identity import RESOLVE_STORE_ERROR, RESOLVE_UNIDENTIFIED, counters_of
from kranzq.server.routing import Call, Route


class ResolveBody(Given):
    """A name."""

    name: str


class ResolveOriginalBody(Tolerated):
    """A name."""

    name: str


class CallerSeen(msgspec.Struct):
    """Who calls, by token."""

    name: str
    uid: str


class Fallbacks(msgspec.Struct):
    """How often something was known by its name only, since this start of the server."""

    boot_id: str
    caller: CallerSeen | None
    counters: dict[str, int]
    gauges: dict[str, int]


class Candidate(msgspec.Struct):
    """Somebody whom a name may mean; `live`: has called within two minutes."""

    uid: str | None
    name: str
    live: bool


class Resolved(msgspec.Struct):
    """Whom a name means."""

    resolution: Literal["one", "ambiguous", "unidentified", "none"]
    uid: str | msgspec.UnsetType = msgspec.UNSET
    candidate: Candidate | msgspec.UnsetType = msgspec.UNSET
    candidates: list[Candidate] | msgspec.UnsetType = msgspec.UNSET


class WhoAmI(msgspec.Struct):
    """The caller. The operator has every scope; `uid` and `name` are blank when no token told an agent."""

    name: str
    uid: str
    operator: bool
    groups: list[str]
    scopes: list[Literal["read", "work", "operate"]]
    expires_at: int | None


def fallbacks(call: Call) -> object:
    """What was known by name only."""
    names = call.service.callers.live_names()
    unidentified = sum(not call.service.store.agents.named(name) for name in names)
    agent = call.caller.agent
    return {
        "boot_id": call.service.boot_id,
        "caller": {"name": agent.name, "uid": agent.uid} if agent is not None else None,
        "counters": counters_of(call),
        "gauges": {"live.tokenless_or_unknown": len(names), "live.unidentified": unidentified},
    }


def resolve(call: Call) -> object:
    """Whom a name means."""
    name: str = call.body.name.strip()
    check_text("name", name, MOST_NAME)
    if not name:
        raise UsageFault("name is blank.", "Say whom you look for.")
    try:
        found = call.service.store.agents.named(name)
        seen = not found and call.service.store.agents.is_seen(name)
    except KranzqError as fault:
        call.service.count(RESOLVE_STORE_ERROR)
        raise HttpFault(503, "unavailable", fault.sentence, fault.advice, {"retry-after": "1"}) from fault
    if len(found) == 1:
        return {"resolution": "one", "uid": found[0].uid, "candidate": _candidate(call, found[0])}
    if found:
        return {"resolution": "ambiguous", "candidates": [_candidate(call, one) for one in found]}
    if seen:
        call.service.count(RESOLVE_UNIDENTIFIED)
        live = call.service.callers.is_live(name=name)
        return {"resolution": "unidentified", "candidate": {"uid": None, "name": name, "live": live}}
    return {"resolution": "none"}


def who_am_i(call: Call) -> object:
    """Whom a token means, and what it opens."""
    agent = call.caller.agent
    scopes = [scope.value for scope in Scope if call.caller.may(scope)]
    told: dict[str, Any] = {"name": "", "uid": "", "groups": [], "expires_at": None}
    if agent is not None:
        told = {key: value for key, value in agent_json(agent).items() if key in told}
    return told | {"operator": call.caller.is_operator, "scopes": scopes}


def _candidate(call: Call, agent: Agent) -> dict[str, object]:
    return {"uid": agent.uid, "name": agent.name, "live": call.service.callers.is_live(uid=agent.uid)}


_FALLBACKS = "How often something was known by its name only, since this start of the server."
_RESOLVE = "Whom a name means, ignoring the case of A to Z."

ROUTES: tuple[Route, ...] = (
    Route("GET", "/v1/agent", who_am_i, "Who you are, and what your token opens.", Scope.READ, WhoAmI),
    Route("GET", "/v1/identity/fallbacks", fallbacks, _FALLBACKS, Scope.READ, Fallbacks),
    Route("GET", "/agentmux/identity/fallbacks", fallbacks, _FALLBACKS, Scope.READ, Fallbacks, form=Form.ORIGINAL),
    Route("POST", "/v1/agents/resolve", resolve, _RESOLVE, Scope.READ, Resolved, ResolveBody),
    Route(
        "POST",
        "/agentmux/agents/resolve",
        resolve,
        _RESOLVE,
        Scope.READ,
        Resolved,
        ResolveOriginalBody,
        form=Form.ORIGINAL,
    ),
)
