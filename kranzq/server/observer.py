"""Looks at store and queue as long as somebody listens, and writes what things have become into the event log.

One thread for the store and one for the queue, whatever the number of listeners, so that neither waits for the other.
Each waits for hints and looks at most every 50 ms; what other processes and machines changed is seen in the same way
as our own. Without listeners there is no thread: the first one that comes lets each look once at what has happened
since, however long that was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kranzq.backend.watching import Seen, Watch
from kranzq.errors import KranzqError, StoreUnavailable, TryLater
from kranzq.server.event_log import RESYNC, EventLog

PAUSE_S = 0.05
"""The shortest time between two looks."""
HINT_S = 0.1
"""So long a hint is waited for."""
_PATIENCE_S = 5.0
_GOOD_BYE_S = 0.3


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


@dataclass(slots=True)
class Group:
    """What one thread looks at. `hint` waits so many seconds for the word that something may have changed."""

    name: str
    sources: Sequence[Source]
    hint: Callable[[float], bool]
    thread: threading.Thread | None = None
    begun: threading.Event = field(default_factory=threading.Event)


class Observer:
    """The looks of one server. May be shared by threads."""

    def __init__(self, log: EventLog, groups: Sequence[Group], tell: Callable[[str], None]) -> None:
        self.log = log
        self._groups, self._tell = groups, tell
        self._mutex = threading.Lock()
        self._listeners: set[Callable[[], None]] = set()
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many listen."""
        return len(self._listeners)

    @property
    def is_running(self) -> bool:
        """Whether anything looks now."""
        return any(group.thread is not None for group in self._groups)

    def listen(self, wake: Callable[[], None]) -> None:
        """Be woken, in a thread of the observer, after events were added; returns when nothing can be missed any more.

        Raises StoreUnavailable when there is no first look within 5 s, and what stores raise.
        """
        with self._mutex:
            self._listeners.add(wake)
            for group in () if self._closed else self._groups:
                if group.thread is None:
                    group.begun.clear()
                    group.thread = threading.Thread(
                        target=self._run, args=(group,), name=f"observer of the {group.name}", daemon=True
                    )
                    group.thread.start()
        try:
            self._wait_for_first_looks()
        except BaseException:
            self.leave(wake)
            raise

    def leave(self, wake: Callable[[], None]) -> None:
        """Listen no more. The last one that leaves lets the threads end."""
        with self._mutex:
            self._listeners.discard(wake)

    def close(self) -> None:
        """Let the threads end, whoever listens."""
        with self._mutex:
            self._closed = True
            threads = [group.thread for group in self._groups if group.thread is not None]
        until = time.monotonic() + _GOOD_BYE_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _wait_for_first_looks(self) -> None:
        until = time.monotonic() + _PATIENCE_S
        for group in self._groups:
            if not group.begun.wait(max(0.0, until - time.monotonic())):
                raise StoreUnavailable(f"the {group.name}", "it does not answer")
            for source in group.sources:
                if isinstance(source.fault, StoreUnavailable | TryLater) and not source.has_begun:
                    raise source.fault

    def _run(self, group: Group) -> None:
        hinted = True
        while self._is_wanted(group):
            began, before = time.monotonic(), self.log.head
            for source in group.sources:
                if source.is_due(began, hinted=hinted):
                    self._look(source)
                    source.looked = time.monotonic()
            group.begun.set()
            if self.log.head != before:
                self._wake()
            hinted = _hinted(group)
            time.sleep(max(0.0, began + PAUSE_S - time.monotonic()))

    def _is_wanted(self, group: Group) -> bool:
        with self._mutex:
            if self._listeners and not self._closed:
                return True
            group.thread = None
            return False

    def _look(self, source: Source) -> None:
        try:
            self._note(source, source.watch.look())
        except Exception as fault:  # noqa: BLE001 - whatever it was: without this thread all streams were silent for ever
            is_ours = not isinstance(fault, KranzqError | OSError)
            if source.fault is None:
                self._tell(f"{source.kind}: {repr(fault) if is_ours else fault}")
            source.fault, source.is_late = fault, source.is_late or is_ours or not source.has_begun

    def _note(self, source: Source, seen: Seen) -> None:
        source.fault, source.has_begun = None, True
        why = "the server could not look for a while" if source.is_late else seen.lost
        source.is_late = False
        if why:
            self.log.add(RESYNC, {"why": why})
        for change in seen.changes:
            self.log.add(source.kind, change)

    def _wake(self) -> None:
        with self._mutex:
            listeners = list(self._listeners)
        for wake in listeners:
            wake()


def _hinted(group: Group) -> bool:
    try:
        return group.hint(HINT_S)
    except Exception:  # noqa: BLE001 - a look is taken all the same, and says what is wrong
        time.sleep(HINT_S)
        return False
