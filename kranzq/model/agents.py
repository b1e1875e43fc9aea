"""Agents that may knock at the door of a server: names, groups, scopes, and tokens, of which only the hash is kept.

A token is told once, when it is made. It never stands in a repr, an error or a log; who loses it gets another one.
Times are wall milliseconds since 1970 by the clock of the store; a token opens while `expires_at` is none or greater.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import field
from typing import NamedTuple

from kranzq.errors import Conflict, NoSuchAgent, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.tokens import AGENT_PREFIX, OPERATOR_PREFIX, has_token, is_token, new_token, token_hash
from kranzq.model.work import MOST_GROUPS, MOST_NAME, check_number, check_text, folded

MOST_LIFE_MS = 10 * 365 * 86_400_000
NEVER = 0
"""The lifetime of a token that does not expire."""


class Scope(enum.Enum):
    """What a token opens. Each one includes those before it."""

    READ = "read"
    """Look at everything."""
    WORK = "work"
    """Enqueue, claim and end items, say what one works on."""
    OPERATE = "operate"
    """Sweep, prune, enqueue and cancel missions."""

    def includes(self, other: Scope) -> bool:
        """Whether whoever has this one may do what the other one allows."""
        return _RANK[self] >= _RANK[other]


_RANK = {scope: rank for rank, scope in enumerate(Scope)}


@frozen
class Agent:
    """One agent that has a token. `expired` is told by the store's clock, as of when the agent was looked up."""

    uid: str
    name: str
    groups: frozenset[str]
    scopes: frozenset[Scope]
    expires_at: int | None
    created_at: int
    rotated_at: int | None
    """When it got its present token, unless that is its first one."""
    expired: bool = False

    @property
    def holder(self) -> Holder:
        """Who it is in the work queue and in presence."""
        return Holder(self.name, uid=self.uid)

    def may(self, scope: Scope) -> bool:
        """Whether its token opens what needs that scope."""
        return any(one.includes(scope) for one in self.scopes)

    def groups_of(self, asked: Collection[str] = ()) -> frozenset[str]:
        """Those of its groups that are asked for, ignoring ASCII case; all of them when none is."""
        wanted = {folded(name) for name in asked}
        return frozenset(name for name in self.groups if not wanted or folded(name) in wanted)


class Issued(NamedTuple):
    """An agent and its new token, which is told this once. The repr hides it."""

    agent: Agent
    token: str

    def __repr__(self) -> str:
        return f"Issued(agent={self.agent!r}, token=***)"


@frozen
class NewAgent:
    """An agent that is to be added. Making one checks it: UsageFault names the field. `life_ms` None: no end."""

    name: str
    groups: frozenset[str] = field(default_factory=frozenset)
    scopes: frozenset[Scope] = frozenset({Scope.WORK})
    life_ms: int | None = None
    uid: str = ""
    """One's own uid, or empty for one that is made."""

    def __post_init__(self) -> None:
        """Check every field. Raises UsageFault."""
        check_agent_text("name", self.name)
        for group in self.groups:
            check_agent_text("group", group)
        if len(self.groups) > MOST_GROUPS:
            raise UsageFault(f"An agent has at most {MOST_GROUPS} groups, not {len(self.groups)}.")
        if not self.scopes:
            raise UsageFault("An agent needs a scope.", "Say one of: read, work, operate.")
        check_life(self.life_ms)
        if self.uid:
            check_agent_text("uid", self.uid)


def token_to_issue(token: str) -> str:
    """The token that a caller made, or a new one. Raises UsageFault for what is none, without repeating it."""
    if token and not is_token(token):
        raise UsageFault("What was given as the token of an agent is none.", "Leave it out, and one is made.")
    return token or new_token()


def check_agent_text(what: str, text: str) -> None:
    """Refuse what cannot be shown on one line as it is, and what is a token by mistake. Raises UsageFault."""
    check_text(what, text, MOST_NAME)
    if has_token(text) or text.startswith((AGENT_PREFIX, OPERATOR_PREFIX)):
        raise UsageFault(f"The {what} that was given is a token.", "A token is named by the agent that has it.")
    if not text.strip():
        raise UsageFault(f"The {what} of an agent is blank.", "Give it one that people can read.")
    if text != text.strip() or not text.isprintable():
        raise UsageFault(
            f"The {what} {text!a:.100} has blanks around it, or characters that cannot be shown.",
            "Use letters, digits and signs on one line.",
        )


def check_life(life_ms: int | None) -> None:
    """Refuse a lifetime that is none: a whole number of milliseconds, at most ten years. Raises UsageFault."""
    if life_ms is not None:
        check_number("expires_ms", life_ms, NEVER, MOST_LIFE_MS)


def name_taken(new: NewAgent, there: Sequence[Agent], *, another: bool) -> None:
    """Refuse an agent that one of those there would be taken for. Raises Conflict."""
    name, uid = folded(new.name), folded(new.uid)
    for one in there:
        if one.uid == new.uid:
            raise Conflict(f"An agent has the uid {one.uid} already: {one.name}. Nothing was changed.", "Say another.")
        if folded(one.name) == name and not another:
            raise Conflict(
                f"There is an agent {one.name} already (uid {one.uid}). Nothing was changed.",
                f"A new token for it: kranzq agent rotate {one.uid}   Another agent of that name: --another",
            )
        if one.uid == new.name or folded(one.name) == uid:
            raise Conflict(
                f"Agent {one.name} (uid {one.uid}) and the new one could be taken for each other: the name of one is "
                "the uid of the other. Nothing was changed.",
                "Say another name or uid.",
            )


def only_one(name_or_uid: str, found: Sequence[Agent]) -> Agent:
    """The agent that is meant: by its uid, else by its name. Raises NoSuchAgent, Conflict when it may be several."""
    for one in found:
        if one.uid == name_or_uid:
            return one
    named = [one for one in found if folded(one.name) == folded(name_or_uid)]
    if not named:
        raise NoSuchAgent(name_or_uid)
    if len(named) > 1:
        uids = ", ".join(one.uid for one in named)
        raise Conflict(f"{len(named)} agents are named {named[0].name}: {uids}.", "Say the uid of the one you mean.")
    return named[0]


def still_opens(agent: Agent) -> None:
    """Refuse to give a token that has expired before it is told. Raises Conflict."""
    if agent.expired:
        raise Conflict(
            f"The time of agent {agent.name} is over, and a new token would be over too. Nothing was changed.",
            f"Say how long it opens: kranzq agent rotate {agent.uid} --expires 30d   (or: never)",
        )


def agent_json(agent: Agent) -> dict[str, object]:
    """One agent for surfaces; nothing of its token is in it. Groups and scopes are in order, times wall ms or null."""
    return {
        "name": agent.name,
        "uid": agent.uid,
        "groups": sorted(agent.groups),
        "scopes": [scope.value for scope in Scope if scope in agent.scopes],
        "expires_at": agent.expires_at,
        "created_at": agent.created_at,
        "rotated_at": agent.rotated_at,
        "expired": agent.expired,
    }


__all__ = [
    "AGENT_PREFIX",
    "MOST_LIFE_MS",
    "NEVER",
    "OPERATOR_PREFIX",
    "Agent",
    "Issued",
    "NewAgent",
    "Scope",
    "agent_json",
    "check_agent_text",
    "check_life",
    "is_token",
    "name_taken",
    "new_token",
    "only_one",
    "still_opens",
    "token_hash",
    "token_to_issue",
]
