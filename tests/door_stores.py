"""The stores of agents for their suite, each with a time that passes when it is told to."""

from __future__ import annotations

from dataclasses import dataclass, field

from kranzq.backend.agents import Agents
from kranzq.model.claim import Holder
from kranzq.model.work import folded
from kranzq.testing.clock import FakeClock
from kranzq.testing.memory_agents import MemoryAgents
from tests.item_stores import PostgresItems, SqliteItems


@dataclass
class MemoryDoor:
    """The fake, and its clock."""

    clock: FakeClock = field(default_factory=FakeClock)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.agents = MemoryAgents(self.clock, lambda name: name in self.seen)

    def open(self) -> Agents:
        """The same one: it lies in this process."""
        return self.agents

    def pass_time(self, seconds: float) -> None:
        """Move the clock."""
        self.clock.advance(seconds)

    def ask_for_work(self, name: str) -> None:
        """Note it."""
        self.seen.add(folded(name))


@dataclass
class SqlDoor:
    """Agents beside the items of a database."""

    items: SqliteItems | PostgresItems

    def open(self) -> Agents:
        """As another process would have it."""
        return self.items.open().agents

    def pass_time(self, seconds: float) -> None:
        """Move the clocks, or what has happened into the past."""
        self.items.pass_time(seconds)

    def ask_for_work(self, name: str) -> None:
        """Claim where there is nothing."""
        assert self.items.open().claim(Holder(name)) is None
