"""Connections to one SQLite file: kept for the next call, each used by one thread, and closed by nobody else meanwhile.

SQLite keeps the locks of a file for all connections of a process together, and a child of a fork inherits that account
but not the locks. It would work without any: a file that its parent closes would lose its log under the child. So
before a fork every connection is closed, and both halves open what they need anew.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Literal

Use = Literal["read", "write", "watch"]
_MOST_IDLE: dict[Use, int] = {"read": 4, "write": 1, "watch": 1}
_PATIENCE_S = 10.0
_LOOK_S = 0.002
"""So long a fork waits for other threads that use a connection, and so often it looks."""


class SqliteConnections:
    """May be shared by threads. `in_child` is called in the child of each fork, before anything else of it."""

    def __init__(self, connect: Callable[[], sqlite3.Connection], in_child: Callable[[], None]) -> None:
        self._connect, self._in_child = connect, in_child
        self._left: list[object] = []
        self._begin()
        _ALL.add(self)

    def _begin(self) -> None:
        self._mutex = threading.Lock()
        """Not a Condition: a signal that raises while one is entered leaves it locked."""
        self._idle: dict[Use, list[sqlite3.Connection]] = {"read": [], "write": [], "watch": []}
        self._users: set[int] = set()
        self._forks = self._closes = 0

    @contextlib.contextmanager
    def borrowed(self, use: Use) -> Iterator[sqlite3.Connection]:
        """One for this thread alone; the last one that was put back, as long as nobody closed them."""
        me, closes, idle = threading.get_ident(), self._enter(), self._idle[use]
        with self._mutex:
            connection = idle.pop() if idle else None
        try:
            connection = connection or self._connect()
            yield connection
        finally:
            with self._mutex:
                self._users.discard(me)
                if connection is not None:
                    keep = closes == self._closes and not connection.in_transaction and len(idle) < _MOST_IDLE[use]
                    if keep:
                        idle.append(connection)
                    else:
                        connection.close()

    def _enter(self) -> int:
        """Become a user, as soon as nobody forks; how often all were closed before."""
        while True:
            with self._mutex:
                if not self._forks:
                    self._users.add(threading.get_ident())
                    return self._closes
            time.sleep(_LOOK_S)

    def close(self) -> None:
        """Close those that nobody uses, and the others as soon as they are put back."""
        with self._mutex:
            self._closes += 1
            for idle in self._idle.values():
                while idle:
                    idle.pop().close()

    def before_fork(self) -> None:
        """Let nobody begin, wait for those who have begun, and close all."""
        with self._mutex:
            self._forks += 1
        until = time.monotonic() + _PATIENCE_S
        while self._users - {threading.get_ident()} and time.monotonic() < until:
            time.sleep(_LOOK_S)
        self.close()

    def after_fork(self) -> None:
        """In the parent: go on."""
        with self._mutex:
            self._forks -= 1

    def in_child(self) -> None:
        """In the child: begin anew. What is open in spite of all stays so: to close it would touch the parent's."""
        self._left.append(self._idle)
        self._begin()
        self._in_child()


_ALL: weakref.WeakSet[SqliteConnections] = weakref.WeakSet()


def _each(act: Callable[[SqliteConnections], None]) -> None:
    for one in list(_ALL):
        act(one)


os.register_at_fork(
    before=lambda: _each(SqliteConnections.before_fork),
    after_in_parent=lambda: _each(SqliteConnections.after_fork),
    after_in_child=lambda: _each(SqliteConnections.in_child),
)
