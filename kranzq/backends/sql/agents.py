"""Agents with tokens on a database. Changes are made one after the other, so that a name is given to one agent."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Sequence

from kranzq.backends.sql import rows
from kranzq.backends.sql.database import Database, Row, Transaction
from kranzq.events import AgentAdded, AgentRevoked, AgentRotated, emit
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
from kranzq.model.work import MOST_NAME, Target, check_text, folded

_KEEP = -1


class SqlAgents:
    """Satisfies `Agents`. May be shared by threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        values = rows.agent_values(new, token)

        def act(transaction: Transaction) -> Row:
            transaction.run("agents_lock")
            there = transaction.all(
                "agents_like", name=new.name, folded=folded(new.name), uid=new.uid, folded_uid=folded(new.uid)
            )
            for row in there:
                if (row["uid"], row["token_hash"]) == (new.uid, values["token_hash"]):
                    return row  # a first run of this act, whose answer was lost
            name_taken(new, [rows.agent(row) for row in there], another=another)
            (made,) = transaction.all("agent_add", **values)
            return made

        agent = rows.agent(self._database.write(act))
        emit(AgentAdded(agent.uid, agent.name))
        return Issued(agent, token)

    def all(self) -> list[Agent]:
        """Every agent."""
        found = self._database.read(lambda transaction: transaction.all("agents_all"), single=True)
        return [rows.agent(row) for row in found]

    def rotate(self, name_or_uid: str, /, *, expires_ms: int | None = None, token: str = "") -> Issued:
        """Give it another token."""
        check_text("agent", name_or_uid, MOST_NAME)
        check_life(expires_ms)
        token = token_to_issue(token)
        life = _KEEP if expires_ms is None else expires_ms

        def act(transaction: Transaction) -> Row:
            transaction.run("agents_lock")
            agent = _one(transaction, name_or_uid)
            if life == _KEEP:
                still_opens(agent)
            (changed,) = transaction.all("agent_rotate", uid=agent.uid, token_hash=token_hash(token), life=life)
            return changed

        agent = rows.agent(self._database.write(act))
        emit(AgentRotated(agent.uid, agent.name))
        return Issued(agent, token)

    def revoke(self, name_or_uid: str, /) -> Agent:
        """Remove it."""
        check_text("agent", name_or_uid, MOST_NAME)
        told: list[Row] = []

        def act(transaction: Transaction) -> Row:
            transaction.run("agents_lock")
            if told and not transaction.all("agents_found", uid=told[0]["uid"], folded=""):
                return told[0]  # a first run of this act, whose answer was lost
            agent = _one(transaction, name_or_uid)
            told[:] = transaction.all("agent_revoke", uid=agent.uid)
            return told[0]

        agent = rows.agent(self._database.write(act))
        emit(AgentRevoked(agent.uid, agent.name))
        return agent

    def by_token(self, token: str, /) -> Agent | None:
        """Whose token that is."""
        return self.by_tokens([token])[0]

    def by_tokens(self, tokens: Sequence[str], /) -> list[Agent | None]:
        """Whose tokens these are."""
        digests = [token_hash(token) if is_token(token) else None for token in tokens]
        if not (asked := {digest for digest in digests if digest is not None}):
            return [None] * len(digests)
        hashes = json.dumps(sorted(asked))
        found = self._database.read(lambda transaction: transaction.all("agents_by_token", hashes=hashes), single=True)
        agents = {row["token_hash"]: rows.agent(row) for row in found}
        return [agents.get(digest) if digest is not None else None for digest in digests]

    def named(self, name: str, /) -> list[Agent]:
        """Every agent of that name."""
        check_text("name", name, MOST_NAME)
        key = folded(name)
        found = self._database.read(lambda transaction: transaction.all("agents_named", folded=key), single=True)
        return [rows.agent(row) for row in found]

    def is_seen(self, name: str, /) -> bool:
        """Whether somebody of that name has asked for an item."""
        check_text("name", name, MOST_NAME)
        if not name:
            return False  # its key is that of items for anybody
        key = Target(agent=name).key
        found = self._database.read(lambda transaction: transaction.one("agent_seen", target=key), single=True)
        return found is not None


def _one(transaction: Transaction, name_or_uid: str) -> Agent:
    found = transaction.all("agents_found", uid=name_or_uid, folded=folded(name_or_uid))
    return only_one(name_or_uid, [rows.agent(row) for row in found])
