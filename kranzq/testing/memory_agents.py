"""Agents in a dictionary: the verified fake, for tests of what stands above. It passes the suite of `agents`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from kranzq.model.agents import (
    Agent,
    Issued,
    NewAgent,
    Scope,
    check_life,
    is_token,
    name_taken,
    only_one,
    still_opens,
    token_hash,
    token_to_issue,
)
from kranzq.model.clock import Clock, SystemClock, to_ms
from kranzq.model.frozen import frozen
from kranzq.model.work import MOST_NAME, check_text, folded


@frozen
class _Row:
    """One agent, and what is kept of its token."""

    agent: Agent
    digest: str


class MemoryAgents:
    """Satisfies `Agents`. May be shared by threads. `seen` tells of a name, in small letters, whether it was seen."""

    def __init__(self, clock: Clock | None = None, seen: Callable[[str], bool] = lambda _: False) -> None:
        self._clock, self._seen = clock or SystemClock(), seen
        self._rows: dict[str, _Row] = {}
        self._mutex = threading.Lock()

    def add(
        self,
        name: str,
        *,
        groups: Collection[str] = (),
        scopes: Collection[Scope] = (Scope.WORK,),
        expires_ms: int | None = None,
        uid: str = "",
        another: bool = False,
        token: str = "",
    ) -> Issued:
        """Add an agent and its first token."""
        new = NewAgent(name, frozenset(groups), frozenset(scopes), expires_ms, uid or str(uuid.uuid4()))
        token = token_to_issue(token)
        with self._mutex:
            name_taken(new, self._now(), another=another)
            now = to_ms(self._clock.now())
            end = now + new.life_ms if new.life_ms else None
            agent = Agent(new.uid, new.name, new.groups, new.scopes, end, now, None)
            self._rows[new.uid] = _Row(agent, token_hash(token))
        return Issued(agent, token)

    def all(self) -> list[Agent]:
        """Every agent."""
        with self._mutex:
            return sorted(self._now(), key=lambda one: (folded(one.name), one.created_at, one.uid))

    def rotate(self, name_or_uid: str, /, *, expires_ms: int | None = None, token: str = "") -> Issued:
        """Give it another token."""
        check_text("agent", name_or_uid, MOST_NAME)
        check_life(expires_ms)
        token = token_to_issue(token)
        with self._mutex:
            agent = only_one(name_or_uid, self._now())
            now, end = to_ms(self._clock.now()), agent.expires_at
            if expires_ms is None:
                still_opens(agent)
            else:
                end = now + expires_ms if expires_ms else None
            agent = replace(agent, expires_at=end, rotated_at=now, expired=False)
            self._rows[agent.uid] = _Row(agent, token_hash(token))
        return Issued(agent, token)

    def revoke(self, name_or_uid: str, /) -> Agent:
        """Remove it."""
        check_text("agent", name_or_uid, MOST_NAME)
        with self._mutex:
            agent = only_one(name_or_uid, self._now())
            del self._rows[agent.uid]
        return agent

    def by_token(self, token: str, /) -> Agent | None:
        """Whose token that is."""
        if not is_token(token):
            return None
        digest = token_hash(token)
        with self._mutex:
            uids = {uid for uid, row in self._rows.items() if row.digest == digest}
            return next((one for one in self._now() if one.uid in uids and not one.expired), None)

    def by_tokens(self, tokens: Sequence[str], /) -> list[Agent | None]:
        """Whose tokens these are."""
        return [self.by_token(token) for token in tokens]

    def named(self, name: str, /) -> list[Agent]:
        """Every agent of that name."""
        check_text("name", name, MOST_NAME)
        return [one for one in self.all() if folded(one.name) == folded(name)]

    def is_seen(self, name: str, /) -> bool:
        """Whether somebody of that name has asked for an item."""
        check_text("name", name, MOST_NAME)
        return self._seen(folded(name))

    def _now(self) -> list[Agent]:
        """All as they are at this moment."""
        now = to_ms(self._clock.now())
        return [
            replace(one.agent, expired=one.agent.expires_at is not None and one.agent.expires_at <= now)
            for one in self._rows.values()
        ]
