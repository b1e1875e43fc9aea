"""Step 8: watch over a mission until its keeper is gone, pass on wishes, and see that nothing of it is left.

The keeper needs nobody to watch: this is for status, for signals at the dispatcher, and for settling at once.
"""

from __future__ import annotations

import enum
import json
import os
import select
import time
from dataclasses import replace
from typing import Protocol

from kranzq.dispatch.hold import Holding, end_all_leftovers
from kranzq.dispatch.launch import Try, advance
from kranzq.dispatch.parts import OpenQueue, Parts
from kranzq.errors import KranzqError, StoreUnavailable
from kranzq.events import Started, Warned, emit
from kranzq.model.frozen import frozen
from kranzq.runs.folder import RETURN
from kranzq.runs.record import ExitRecord, parse_exit

_LOOK_MS = 60_000.0
_TOLD_TERM_S = 1.0


class Wish(enum.Enum):
    """What whoever stops the dispatcher wants of the running mission."""

    LEAVE = "leave"
    END = "end"


class Interrupts(Protocol):
    """Signals and stop files, as the daemon or `drain` sees them."""

    def fileno(self) -> int:
        """A descriptor that is readable when `wish` should be asked again."""
        ...

    def wish(self) -> Wish | None:
        """What to do with the running mission; None: go on watching."""
        ...

    @property
    def wanted(self) -> bool:
        """Whether nothing new may begin."""
        ...

    @property
    def tick_s(self) -> float | None:
        """How often `tick` wants to be called, in seconds; None: it need not be."""
        ...

    def tick(self) -> None:
        """The watch goes on."""
        ...


@frozen
class Watched:
    """How the watch ended. `left` tells that the keeper goes on; else `safe` that nothing of the run lives."""

    left: bool
    safe: bool = False
    told: ExitRecord | None = None


def watch_over(parts: Parts, queue: OpenQueue, holding: Holding, one: Try, interrupts: Interrupts) -> Watched:
    """Wait for the keeper's end. Its own record tells how the mission ended; what it said is only the second source."""
    watch = _Watch(parts, queue, one, interrupts)
    if watch.until_end():
        return Watched(left=True)
    one.keeper.reap()
    end = one.folder.read_exit(one.record.nonce) or watch.told
    if end is None or not end.complete:
        remaining = end_all_leftovers(parts, queue, holding.hold)
        if remaining:
            text = f"leftovers of mission {one.record.mission} could not be ended: pid {', '.join(map(str, remaining))}"
            emit(Warned(text))
            return Watched(left=False, safe=False, told=watch.told)
    return Watched(left=False, safe=True, told=watch.told)


class _Watch:
    def __init__(self, parts: Parts, queue: OpenQueue, one: Try, interrupts: Interrupts) -> None:
        self._parts = parts
        self._queue = queue
        self._one = one
        self._interrupts = interrupts
        self._wished = False
        self._leaving_at: float | None = None
        self._told_term = False
        self.told: ExitRecord | None = None

    def until_end(self) -> bool:
        """Wait; True when the mission is to be left running."""
        poll = select.poll()
        poll.register(self._one.keeper.pidfd, select.POLLIN)
        poll.register(self._interrupts.fileno(), select.POLLIN)
        poll.register(self._one.keeper.fileno(), select.POLLIN)
        listening = True
        while not self._one.keeper.ended():
            ready = {fd for fd, _ in poll.poll(self._pause_ms())}
            self._interrupts.tick()
            self._hear()
            if self._one.item is not None:
                self._one.item.items.tell_what_waits()
            if listening and self._one.keeper.eof:
                poll.unregister(self._one.keeper.fileno())
                listening = False
            if (self._interrupts.fileno() in ready or self._leaving_at is not None) and self._may_leave():
                return True
        self._hear()
        return False

    def _pause_ms(self) -> float:
        if self._leaving_at is not None:
            return max(10.0, (self._leaving_at - time.monotonic()) * 1000)
        return _LOOK_MS if self._interrupts.tick_s is None else min(_LOOK_MS, self._interrupts.tick_s * 1000)

    def _may_leave(self) -> bool:
        match self._interrupts.wish():
            case Wish.END if not self._wished:
                self._wished = True
                self._ask_to_return()
            case Wish.LEAVE if self._leaving_at is None:
                # a stopped service TERMs the keeper too: then this run is settled here
                self._leaving_at = time.monotonic() + _TOLD_TERM_S
            case _:
                pass
        return self._leaving_at is not None and not self._told_term and time.monotonic() >= self._leaving_at

    def _ask_to_return(self) -> None:
        try:
            self._one.folder.wish(RETURN, f"process {os.getpid()}", "the dispatcher was told to stop now")
        except (OSError, StoreUnavailable) as fault:
            emit(Warned(f"the wish to end mission {self._one.record.mission} could not be written: {fault}"))

    def _hear(self) -> None:
        while (message := self._one.keeper.read()) is not None:
            if isinstance(started := message.get("started"), dict):
                self._started(started)
            elif "term" in message:
                self._told_term = True
            for key in ("end", "notStarted"):
                if isinstance(told := message.get(key), dict):
                    self.told = _exit_record(told, self._one.record.nonce) or self.told
            if isinstance(stuck := message.get("stuck"), list):
                emit(Warned(f"mission {self._one.record.mission} has processes that do not end: {stuck}"))
            if isinstance(message.get("survivors"), list) and self.told is not None:
                self.told = replace(self.told, complete=True)

    def _started(self, message: dict[str, object]) -> None:
        pid, ticks, at = message.get("pid"), message.get("startTicks"), message.get("at")
        if type(pid) is not int:
            return
        record = replace(
            self._one.record,
            state="running",
            process=(pid, ticks) if type(ticks) is int else None,
            started_at=at if isinstance(at, str) else None,
        )
        try:
            advance(self._queue, self._one, record)
        except (OSError, KranzqError) as fault:  # the end is what must be kept; this is for people
            emit(Warned(f"the record of mission {record.mission} could not be written: {fault}"))
        emit(Started(str(record.mission), record.run, pid))
        self._parts.after_start()


def _exit_record(told: dict[str, object], nonce: str) -> ExitRecord | None:
    return parse_exit(json.dumps(told).encode(), nonce)
