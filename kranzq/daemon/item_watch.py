"""Waits for items in a thread of its own, so that the loop neither polls nor ever waits for a work queue that is away.

The thread listens where the database tells of changes, and watches the file where it does not. It sweeps on its timer,
which is also how it notices that a work queue that was away answers again. It only wakes the loop: the claim decides.
"""

from __future__ import annotations

import contextlib
import os
import threading

from watchdog.events import (
    FileClosedEvent,
    FileCreatedEvent,
    FileModifiedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver

from kranzq.backend.items import WorkStore
from kranzq.daemon.wake import Wake
from kranzq.dispatch.items import Items
from kranzq.errors import KranzqError
from kranzq.leases.sweeper import Sweeper
from kranzq.model.work import ItemState

_AFTER_A_HINT_S = 0.1
"""So long further changes of the file count as the same one: one commit is several writes."""
_POLL_S = 10.0
"""Where the file cannot be watched, work is asked for so often."""
_AGAIN_S = (1.0, 2.0, 5.0, 10.0)


class ItemWatch:
    """One thread for one daemon, from `start` to `stop`."""

    def __init__(self, items: Items, wake: Wake) -> None:
        self._items, self._wake = items, wake
        self._over = threading.Event()
        self._bell = threading.Event()
        self._observer: BaseObserver | None = None
        self._failures = 0

    def start(self) -> None:
        """Begin. The loop asks for nothing before the work queue has answered here."""
        self._items.leave_to_watch()
        threading.Thread(target=self._run, name="items", daemon=True).start()

    def stop(self) -> None:
        """End; a call of the work queue that is under way is not waited for."""
        self._over.set()
        self._bell.set()
        self._items.leave_to_us()

    def _run(self) -> None:
        sweeper: Sweeper | None = None
        while not self._over.is_set():
            try:
                sweeper = sweeper or self._opened()
                hinted = self._items.is_away or self._wait()
                if self._sweep(sweeper) or hinted:
                    self._items.hint()
                    self._wake.set()
                self._failures = 0
            except Exception as fault:  # noqa: BLE001 - whatever it was, the thread must live to try again
                if isinstance(fault, KranzqError):
                    self._items.went_away(fault)
                pause = _AGAIN_S[min(self._failures, len(_AGAIN_S) - 1)]
                self._failures += 1
                self._over.wait(pause)
        if self._observer is not None:
            with contextlib.suppress(Exception):  # a watch that died already has nothing to end
                self._observer.stop()

    def _opened(self) -> Sweeper:
        settings = self._items.settings
        sweeper = self._items.sweeper_of(self._items.store())
        if settings.path is not None:
            self._watch_file(settings.path)  # last: were this called again, the file would be watched twice
        return sweeper

    def _wait(self) -> bool:
        """Until there may be work, or it is time to sweep; whether there may be work."""
        if self._items.settings.path is None:
            return self._items.store().wait_for_work(self._items.settings.sweep_s)
        if self._observer is None or not self._observer.is_alive():
            self._over.wait(min(_POLL_S, self._items.settings.sweep_s))
            return True
        rang = self._bell.wait(self._items.settings.sweep_s)
        if rang:
            self._over.wait(_AFTER_A_HINT_S)
            self._bell.clear()
        return rang

    def _sweep(self, sweeper: Sweeper) -> bool:
        """Sweep when it is due; whether something may be claimed by it. While it is away ask at once if it answers.

        That question sweeps nothing: while the store was away nobody could renew, and the sweeper grants time for it.
        """
        if self._items.is_away:
            self._items.ask(_look, at_once=True)
        is_due = sweeper.due_in() <= 0
        swept = sweeper.sweep_if_due()
        if is_due and swept is None:  # it has said why; the loop must not find out by waiting for it
            self._items.ask(_look, at_once=True)
        return bool(swept)

    def _watch_file(self, path: str) -> None:
        """Hear of every write to the file and its log; where that is impossible, the loop asks now and then."""
        observer = Observer()
        kinds: list[type[FileSystemEvent]] = [FileCreatedEvent, FileModifiedEvent, FileClosedEvent]
        try:
            observer.schedule(_Handler(self._bell, os.path.basename(path)), os.path.dirname(path), event_filter=kinds)
            observer.start()
        except OSError:
            return
        self._observer = observer


def _look(store: WorkStore) -> object:
    return store.entries(ItemState.CLAIMED, 1)


class _Handler(FileSystemEventHandler):
    """Only rings: an exception here would end the watch without a word."""

    def __init__(self, bell: threading.Event, name: str) -> None:
        self._bell = bell
        self._names = frozenset({name, f"{name}-wal"})

    def dispatch(self, event: FileSystemEvent) -> None:
        """Look at the name and nothing else."""
        if os.path.basename(os.fsdecode(event.src_path)) in self._names:
            self._bell.set()
