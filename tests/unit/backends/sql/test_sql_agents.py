"""Agents on SQL: an act that runs again after its answer was lost, how a token is found, what is told of changes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from kranzq.backends.sql.agents import SqlAgents
from kranzq.backends.sql.database import Transaction
from kranzq.backends.sql.statements import Dialect, statements
from kranzq.errors import NoSuchAgent
from kranzq.events import AgentAdded, AgentRevoked, AgentRotated, Event, subscribe
from kranzq.model.agents import Scope
from tests.item_stores import SqliteItems

R = TypeVar("R")


@pytest.fixture
def items(tmp_path: Path) -> Iterator[SqliteItems]:
    """An empty file, and a clock that only moves when it is told to."""
    store = SqliteItems(tmp_path / "work.db")
    yield store
    store.close()


class Forgetful:
    """A database whose answer to each change is lost, so that the act runs again on what its first run did."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def write(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:
        """Twice."""
        self._inner.write(act, single=single)
        found: R = self._inner.write(act, single=single)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_an_act_whose_answer_was_lost_is_done_once(items: SqliteItems) -> None:
    """To add, rotate and revoke again under the same token gives the answer of the first time."""
    agents = SqlAgents(Forgetful(items.database()))
    agent, first = agents.add("ann", uid="u-1")
    assert agents.all() == [agent]
    assert agents.by_token(first) == agent

    changed, second = agents.rotate("ann")
    assert (agents.by_token(first), agents.by_token(second)) == (None, changed)
    assert agents.revoke("ann") == changed
    assert agents.all() == []
    with pytest.raises(NoSuchAgent):
        agents.revoke("ann")


def test_each_change_is_told_once_and_without_a_token(items: SqliteItems) -> None:
    """Looking is no change; what an event tells may stand in any log."""
    heard: list[Event] = []
    end = subscribe(heard.append)
    try:
        agents = items.open().agents
        uid = agents.add("ann").agent.uid
        token = agents.rotate("ann").token
        agents.by_token(token)
        agents.all()
        agents.revoke("ann")
        with pytest.raises(NoSuchAgent):
            agents.revoke("ann")
    finally:
        end()

    assert heard == [AgentAdded(uid, "ann"), AgentRotated(uid, "ann"), AgentRevoked(uid, "ann")]


def test_a_scope_of_a_newer_program_is_left_out(items: SqliteItems) -> None:
    """It opens nothing here, and what is known opens as before."""
    agents = items.open().agents
    token = agents.add("ann", scopes=[Scope.READ]).token
    with sqlite3.connect(items.path) as connection:
        connection.execute("""update kranzq_agents set scopes = '["read", "fly"]'""")
    agent = agents.by_token(token)

    assert agent is not None
    assert agent.scopes == frozenset({Scope.READ})


def test_a_token_is_found_by_its_index(items: SqliteItems) -> None:
    """A server asks with each call: that costs the same beside any number of agents."""
    (command,) = statements("sqlite")["agents_by_token"]
    connection = sqlite3.connect(items.path)
    plan = [row[3] for row in connection.execute(f"explain query plan {command}", {"hashes": "[]", "wall": 1})]
    connection.close()

    assert any("USING INDEX kranzq_agents_token" in line for line in plan), plan


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_every_statement_has_the_one_rule_of_expiry(dialect: Dialect) -> None:
    """A token opens while its end is greater than the store's clock, for every reader."""
    clock = ":wall" if dialect == "sqlite" else "kranzq_now()"
    compared = [
        found
        for name, commands in statements(dialect).items()
        if name.startswith("agent")
        for command in commands
        for found in re.findall(r"expires_at\s*([<>=]+\s*(?:kranzq_now\(\)|:?\w+))", command)
    ]

    assert set(compared) == {f"<= {clock}", f"> {clock}", "= case"}


def test_the_exact_end_is_over(items: SqliteItems) -> None:
    """One millisecond before it opens, at it no more."""
    agents = items.open().agents
    _, token = agents.add("ann", expires_ms=1000)
    items.pass_time(0.999)
    assert agents.by_token(token) is not None
    items.pass_time(0.001)

    assert agents.by_token(token) is None
    assert agents.all()[0].expired
