"""What an engine does for the acts above it: run named statements, in transactions that are whole or did not happen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kranzq.backend.watching import Waits
from kranzq.backends.sql.schema import Schema
from kranzq.model.frozen import frozen

R = TypeVar("R")
Row = Mapping[str, Any]
StatementCall = tuple[str, Mapping[str, object]]
"""A statement's name, and its parameters."""


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

    def several(self, calls: Sequence[StatementCall]) -> list[list[Row]]:
        """`all` for each of several statements, in order; an engine that is far away sends them together."""
        ...

    def each(self, statement: str, many: Sequence[Mapping[str, object]], /) -> list[Row | None]:
        """`one` for each of many sets of values, in order; an engine that is far away sends them together."""
        ...


@frozen
class Size:
    """Bytes on disk: the data, and the log beside it."""

    data: int
    log: int


class Database(Protocol):
    """One database. May be shared by threads; each call opens what it needs.

    Both kinds of call may run `act` again, when another one was in the way or when the connection was lost; what the
    first run did may then stand. So an act works through its transaction alone, and is harmless to repeat: ids are
    made before it. `single` says that the first statement is the whole change and that what follows only looks: each
    may then be a transaction by itself. Errors of the engine come as StoreLocked, StoreUnavailable, StoreUnreachable.
    """

    @property
    def is_near(self) -> bool:
        """Whether it lies in this process: statements cost no way, and a connection is never lost."""
        ...

    @property
    def where(self) -> str:
        """The database's name for people; without a password."""
        ...

    def write(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:
        """Run `act` in a transaction that may write; durable when it returns. An exception undoes the act."""
        ...

    def read(self, act: Callable[[Transaction], R], *, single: bool = False) -> R:
        """Run `act` on one snapshot; it writes nothing and waits for no writer."""
        ...

    def wait_for_change(self, seconds: float) -> bool:
        """Wait until something may have changed since this thread's last call returned; its first is true at once.

        False after `seconds` is no proof: a hint may be lost, and items come due unannounced.
        """
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

    def waits(self) -> Waits:
        """How callers of this process had to wait for others before they could write."""
        ...

    def close(self) -> None:
        """Let go of all connections."""
        ...
