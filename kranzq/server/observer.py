"""Looks at store and queue as long as somebody listens, and writes what things have become into the event log.

One thread for all listeners. It waits for the store's hints and looks at most every 50 ms; what other processes and
machines changed is seen in the same way as our own. Without listeners there is no thread: the first one that comes
lets it look once at what has happened since, however long that was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kranzq.backend.watching import Watch
from kranzq.errors import KranzqError, StoreUnavailable, TryLater
from kranzq.server.event_log import RESYNC, EventLog

PAUSE_S = 0.05
"""The shortest time between two looks."""
HINT_S = 0.1
"""So long a hint of the store is waited for; folders are looked at as often."""
_PATIENCE_S = 5.0
_GOOD_BYE_S = 1.0


@dataclass(slots=True)
class Source:
    """One kind of things that is watched. Without a hint it is looked at every `idle_s` seconds."""

    kind: str
    watch: Watch
    idle_s: float
    looked: float = float("-inf")
    has_begun: bool = False
    is_late: bool = False
    fault: Exception | None = None

    def is_due(self, now: float, *, hinted: bool) -> bool:
        """Whether it is time for a look."""
        return now - self.looked >= (self.watch.pause_s if hinted else max(self.watch.pause_s, self.idle_s))


class Observer:
    """The looks of one server. May be shared by threads."""

    def __init__(
        self, log: EventLog, sources: Sequence[Source], hint: Callable[[float], bool], tell: Callable[[str], None]
    ) -> None:
        self.log = log
        self._sources, self._hint, self._tell = sources, hint, tell
        self._mutex = threading.Lock()
        self._listeners: set[Callable[[], None]] = set()
        self._thread: threading.Thread | None = None
        self._begun = threading.Event()
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def is_running(self) -> bool:
        """Whether it looks now."""
        return self._thread is not None

    def listen(self, wake: Callable[[], None]) -> None:
        """Be woken, in the observer's thread, after events were added; returns when nothing can be missed any more.

        Raises StoreUnavailable when there is no first look within 5 s, and what stores raise.
        """
        with self._mutex:
            self._listeners.add(wake)
            if self._thread is None and not self._closed:
                self._begun.clear()
                self._thread = threading.Thread(target=self._run, name="observer", daemon=True)
                self._thread.start()
        try:
            if not self._begun.wait(_PATIENCE_S):
                raise StoreUnavailable("the store", "it does not answer")
            for source in self._sources:
                if isinstance(source.fault, StoreUnavailable | TryLater) and not source.has_begun:
                    raise source.fault
        except BaseException:
            self.leave(wake)
            raise

    def leave(self, wake: Callable[[], None]) -> None:
        """Listen no more. The last one that leaves lets the thread end."""
        with self._mutex:
            self._listeners.discard(wake)

    def close(self) -> None:
        """Let the thread end, whoever listens."""
        with self._mutex:
            self._closed = True
            thread = self._thread
        if thread is not None:
            thread.join(_GOOD_BYE_S)

    def _run(self) -> None:
        hinted = True
        while self._is_wanted():
            began = time.monotonic()
            before = self.log.head
            for source in self._sources:
                if source.is_due(began, hinted=hinted):
                    self._look(source)
                    source.looked = time.monotonic()
            self._begun.set()
            if self.log.head != before:
                self._wake()
            hinted = self._wait()
            time.sleep(max(0.0, began + PAUSE_S - time.monotonic()))

    def _is_wanted(self) -> bool:
        with self._mutex:
            if self._listeners and not self._closed:
                return True
            self._thread = None
            return False

    def _look(self, source: Source) -> None:
        try:
            seen = source.watch.look()
        except (KranzqError, OSError) as fault:
            if source.fault is None:
                self._tell(f"{source.kind}: {fault}")
            source.fault, source.is_late = fault, source.is_late or not source.has_begun
            return
        source.fault, source.has_begun = None, True
        why = "the server could not look at first" if source.is_late else seen.lost
        source.is_late = False
        if why:
            self.log.add(RESYNC, {"why": why})
        for change in seen.changes:
            self.log.add(source.kind, change)

    def _wait(self) -> bool:
        try:
            return self._hint(HINT_S)
        except KranzqError:
            time.sleep(HINT_S)
            return False

    def _wake(self) -> None:
        with self._mutex:
            listeners = list(self._listeners)
        for wake in listeners:
            wake()
