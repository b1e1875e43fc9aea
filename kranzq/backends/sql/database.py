"""What an engine does for the acts above it: run named statements, in transactions that are whole or did not happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from kranzq.backends.sql.schema import Schema

R = TypeVar("R")
Row = Mapping[str, Any]


class Transaction(Protocol):
    """Runs named statements. The clocks (`boot`, `now`, `wall`) are parameters that the engine adds itself."""

    def all(self, statement: str, /, **values: object) -> list[Row]:
        """The rows that the statement gives, by column."""
        ...

    def one(self, statement: str, /, **values: object) -> Row | None:
        """The first row, or None."""
        ...

    def run(self, statement: str, /, **values: object) -> None:
        """For a statement that gives nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes on disk: the data, and the log beside it."""

    data: int
    log: int


class Database(Protocol):
    """One database. May be shared by threads; each call opens what it needs.

    Both kinds of call may run `act` again when another one was in the way, so an act only works through its
    transaction. Errors of the engine come as StoreLocked, StoreUnavailable or StoreUnreachable.
    """

    @property
    def where(self) -> str:
        """The database's name for people; without a password."""
        ...

    def write(self, act: Callable[[Transaction], R]) -> R:
        """Run `act` in a transaction that may write; durable when it returns. An exception undoes the act."""
        ...

    def read(self, act: Callable[[Transaction], R]) -> R:
        """Run `act` on one snapshot; it writes nothing and waits for no writer."""
        ...

    def wall_ms(self) -> int:
        """The wall clock by which due times are judged: of this host, or of the server."""
        ...

    def schema(self) -> Schema:
        """The schema that there is. Changes nothing."""
        ...

    def migrate(self, program: str) -> Schema:
        """Take the steps that are missing; `program` is noted beside them. Raises SchemaTooNew."""
        ...

    def size(self) -> Size:
        """What it takes on disk."""
        ...

    def close(self) -> None:
        """Let go of all connections."""
        ...
