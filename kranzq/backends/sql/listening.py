"""Hearing of new work: a connection of its own that listens, and a thread that never lets it stay lost.

What is said while it is away is not heard: once it listens again it gives one hint, so that everybody looks once.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time

import psycopg

from kranzq.backends.sql.connections import Connection, Connections
from kranzq.backends.sql.hints import Hints

CHANNEL = "kranzq_work"
ALIVE_S, ANSWER_S = 20.0, 5.0
"""After so long without a word the server is asked for one, and must answer: a half-open socket looks like silence."""
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 15.0
_GOOD_BYE_S = 1.0


class Listener:
    """One listening connection for all threads of the process, opened by the first that waits; after a close, anew."""

    def __init__(self, connections: Connections, *, alive_s: float = ALIVE_S, answer_s: float = ANSWER_S) -> None:
        self._connections, self._alive_s, self._answer_s = connections, alive_s, answer_s
        self._hints = Hints()
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._bell = -1

    def wait(self, seconds: float) -> bool:
        """Wait for a hint; false after `seconds` without one."""
        with self._mutex:
            if self._thread is None:
                heard, self._bell = os.pipe2(os.O_CLOEXEC)
                self._thread = threading.Thread(target=self._listen, args=(heard,), name="kranzq-listener", daemon=True)
                self._thread.start()
        return self._hints.wait(seconds)

    def close(self) -> None:
        """End the thread and its connection; one that is just connecting ends a little later, by itself."""
        with self._mutex:
            thread, self._thread, bell = self._thread, None, self._bell
        if thread is not None:
            os.write(bell, b"x")
            thread.join(_GOOD_BYE_S)
            os.close(bell)

    def _listen(self, bell: int) -> None:
        pause = _FIRST_PAUSE_S
        while not _rings(bell, 0):
            started = time.monotonic()
            try:
                with contextlib.closing(self._connections.connect(started)) as connection:
                    self._hear(connection, bell)
                break
            except (psycopg.Error, OSError):
                pass  # it is back, or still away, at the next try
            if time.monotonic() - started > _LAST_PAUSE_S:
                pause = _FIRST_PAUSE_S  # it had been well for a while
            if _rings(bell, pause):
                break
            pause = min(pause * 2, _LAST_PAUSE_S)
        os.close(bell)

    def _hear(self, connection: Connection, bell: int) -> None:
        """Pass on what is said, until it is time to end. Raises psycopg's errors when the connection is lost."""
        connection.until = time.monotonic() + self._answer_s
        connection.execute(f"listen {CHANNEL}")
        self._hints.note()
        while not _rings(bell, self._alive_s, connection.fileno()):
            connection.until = time.monotonic() + self._answer_s
            if list(connection.notifies(timeout=0)):
                self._hints.note()
            else:
                connection.execute("select 1")


def _rings(bell: int, seconds: float, also: int | None = None) -> bool:
    """Wait for the bell, or for something to read; whether it was the bell."""
    poll = select.poll()
    poll.register(bell, select.POLLIN)
    if also is not None:
        poll.register(also, select.POLLIN)
    return any(fd == bell for fd, _ in poll.poll(seconds * 1000))
