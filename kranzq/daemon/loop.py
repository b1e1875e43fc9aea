"""The daemon of one checkout: watch, then turn after turn, until it is told to stop.

Events and locks only wake it; each turn scans the names anew. What it remembers makes it quick and talkative, never
correct: killed at any point it leaves nothing that the next dispatcher would not find.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kranzq.busy import record as busy_record
from kranzq.daemon.item_service import ItemService
from kranzq.daemon.lock_waiter import LockWaiter
from kranzq.daemon.notify import ServiceManager
from kranzq.daemon.outage import Outage
from kranzq.daemon.pause import Pause, Timing
from kranzq.daemon.single import Single
from kranzq.daemon.stopping import Stopping, forget_stop, read_stop
from kranzq.daemon.strays import bury_strays
from kranzq.daemon.wake import Wake
from kranzq.daemon.watch import Watcher
from kranzq.dispatch.evidence import Backstop
from kranzq.dispatch.parts import Empty, IsBusy, Left, Memory, Parts, Paused, Ran, Result
from kranzq.dispatch.retention import Sweeper
from kranzq.dispatch.settle import is_environment_fault
from kranzq.dispatch.turn import ask_to_return, recover_only, turn
from kranzq.errors import DaemonRuns, KranzqError
from kranzq.events import Adopted, Drained, Vanished, WaitsBusy, Warned, WatchLost, emit
from kranzq.liveness import me
from kranzq.model.clock import rfc3339

AGAIN_S = (0.05, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Pauses while something without a kernel lock has the checkout."""
_LAST_LOOKS = 10

Names = tuple[Sequence[str], ...]


@dataclass
class Daemon:
    """One daemon. `run` returns when it was stopped."""

    parts: Parts
    wake: Wake
    stopping: Stopping
    manager: ServiceManager
    timing: Timing = field(default_factory=Timing)
    missions_in: Callable[[Names], set[str]] = lambda _: set()
    """Which missions the names of a queue tell."""
    renew: Callable[[Parts], Parts] = lambda parts: parts
    """The parts with the settings that count now; asked before each turn."""
    told: Callable[[Result], None] = lambda _: None
    """Hears what each turn came to."""

    def __post_init__(self) -> None:
        """Make what lasts as long as the daemon."""
        self._single = Single(self.parts.checkout)
        self._watcher = Watcher(self.parts.checkout.queue, self.wake)
        self._pause = Pause(self.wake, self._watcher, self.manager, self.timing)
        self._waiter = LockWaiter(self.parts.busy.wait_until_free, self.wake)
        self._memory = Memory()
        self._backstop = Backstop(self.parts.clock, remembers=True)
        self._since = rfc3339(self.parts.clock.now())
        self._root = _key(self.parts.checkout.root)
        self._sweeper = Sweeper()
        self._busy_looks = 0
        self._ran = 0
        self._outage = Outage()
        self._items = ItemService(self.wake)

    def run(self, serving: Callable[[], None] = lambda: None) -> None:
        """Serve the checkout until stopped; `serving` is called once it is ours. Raises DaemonRuns when it is not."""
        with self.parts.open_queue():
            pass  # makes what is missing, and refuses what is unsafe
        self._single.take()
        self._show()  # at once: whoever comes second names us
        serving()
        ours = me()
        if read_stop(self.parts.checkout.queue, ours) is None:
            forget_stop(self.parts.checkout.queue)
        self.stopping.watch_file(self.parts.checkout.queue, ours)
        self.stopping.listen()
        self.stopping.tick_s, self.stopping.on_tick = self.manager.ping_every_s, self._pause.ping
        try:
            self._watch()
            self.parts.keepers.warm()
            self._items.follow(self.parts)
            self.manager.say("READY=1", f"STATUS=watching {self.parts.checkout.root}")
            self._serve()
        finally:
            self.manager.say("STOPPING=1")
            self._watcher.stop()
            self._items.stop()
            self.parts.keepers.close()
            if not self.stopping.wanted or read_stop(self.parts.checkout.queue, ours) is not None:
                forget_stop(self.parts.checkout.queue)
            self._single.let_go()

    def _serve(self) -> None:
        while not self.stopping.wanted:
            self.wake.clear()
            pause = self._turn()
            bury_strays(self.parts.keepers.started())
            self._sweep()
            if pause is None:
                return
            self._pause.wait(pause)
        self._show()
        self._finish()

    def _sweep(self) -> None:
        if self._is_there():
            self._sweeper.sweep_if_due(self.parts)

    def _turn(self) -> float | None:
        """One turn; how long to wait before the next, None to leave at once."""
        if not self._is_there():
            return self.timing.poll_s
        try:
            self._look_after_watch()
            self._show()  # before the turn: it may last for hours
            if (renewed := self.renew(self.parts)) is not self.parts:
                self.parts = renewed
                self._items.follow(self.parts)
                self._outage.end()  # other settings may have mended what nothing could be started for
            if (left := self._outage.left(self.parts)) > 0:
                return min(left, self.timing.scan_s)
            self._watcher.remember()
            result = turn(self.parts, self._memory, self._backstop, self.stopping)
            self.told(result)
        except DaemonRuns:
            raise
        except KranzqError as fault:
            return self._again(fault.sentence)
        except OSError as fault:
            return self._again(f"{fault.filename or self.parts.checkout.queue}: {fault.strerror or fault}")
        return self._after(result)

    def _after(self, result: Result) -> float | None:
        if not isinstance(result, IsBusy):
            self._busy_looks = 0
        match result:
            case Ran():
                return self._after_run(result)
            case Left():
                return None
            case Empty(due=due):
                if self._ran and not self.stopping.wanted:
                    emit(Drained(self._ran))
                    self._ran = 0
                soon = self.timing.scan_s if due is None else due - self.parts.clock.now()
                return min(self.timing.scan_s, max(0.05, soon))
            case Paused(reason):
                if self._memory.is_new("paused", reason):
                    emit(Warned(f"paused: {reason}"))
                return self.timing.scan_s
            case IsBusy():
                return self._busy(result)

    def _after_run(self, ran: Ran) -> float:
        self._ran += 1
        self._pause.was_for_something()
        self.parts.keepers.warm()
        if not is_environment_fault(ran.ending):
            self._outage.end()
            return 0.0
        if ran.is_item:
            return 0.0  # items have a pause of their own; whether missions can be started, the next one tells
        self._outage.begin(self.parts, ran.ending.reason)
        return min(self._outage.left(self.parts), self.timing.scan_s)

    def _busy(self, result: IsBusy) -> float:
        if result.recovered:
            # somebody let go while we looked; a small pause, so that two lookers do not meet again
            return 0.01 + 0.05 * self.parts.jitter()
        if self._memory.is_new("busy", result.holder):
            if result.keeper is not None:
                self._adopt(result.keeper)
            else:
                emit(WaitsBusy(result.holder))
        if result.by_lock:
            self._waiter.begin()
        self._busy_looks += 1
        if result.keeper is not None:
            return self.timing.scan_s  # its end frees the lock, and that wakes us
        return min(self.timing.scan_s, AGAIN_S[min(self._busy_looks, len(AGAIN_S)) - 1])

    def _adopt(self, keeper: int) -> None:
        with self.parts.open_queue() as queue:
            found = busy_record.read(queue.fd)
        mission = found.mission if found is not None else None
        emit(Adopted(mission or "?", (found.run if found is not None else None) or 0, keeper))

    def _finish(self) -> None:
        """Told to stop with no turn under way: what an earlier dispatcher started gets the same treatment."""
        asked, looks = False, 0
        while True:
            self.wake.clear()
            try:
                result = recover_only(self.parts, self._memory, self._backstop)
            except (KranzqError, OSError) as fault:
                emit(Warned(f"stopped without settling: {fault}"))
                return
            if not isinstance(result, IsBusy):
                return
            if result.recovered:
                self._pause.wait(0.05)
                continue
            self.stopping.wish()  # first: what comes after this look wakes the wait
            if self.stopping.on_stop == "leave" or (result.keeper is None and looks == _LAST_LOOKS):
                return
            if result.keeper is None:  # a keeper that has recorded the end may still be seen for an instant
                looks += 1
                self._pause.wait(AGAIN_S[0])
                continue
            if self.stopping.on_stop == "end" and not asked:
                asked = True
                ask_to_return(self.parts, f"process {os.getpid()}")
            self._waiter.begin()
            self._pause.wait(self.timing.scan_s)

    def _again(self, sentence: str) -> float:
        """A turn that failed as a whole: said once, looked at again soon; nothing is lost by it."""
        if self._memory.is_new("fault", sentence):
            emit(Warned(sentence))
        self._busy_looks += 1
        return AGAIN_S[min(self._busy_looks, len(AGAIN_S)) - 1]

    def _watch(self) -> None:
        self._watcher.start()
        if self._watcher.why_polling is not None and self._memory.is_new("watch", self._watcher.why_polling):
            emit(WatchLost(f"{self._watcher.why_polling}; looking every {self.timing.poll_s:g} s instead"))

    def _look_after_watch(self) -> None:
        """A queue that was removed or replaced is taken anew, and what was known to be in it is named."""
        if self._single.is_current() and self._watcher.is_sound():
            return
        if not self._single.is_current():
            with self.parts.open_queue() as queue:
                there = self.missions_in(queue.names())
            earlier = self._single.key
            self._single.take()
            gone = tuple(sorted(self.missions_in(self._memory.names) - there))
            what = "the daemon's lock file in " if self._single.key == earlier else ""
            emit(Vanished(gone, f"{what}{self.parts.checkout.queue} was removed or replaced"))
        elif not self._watcher.is_sound():
            emit(WatchLost(f"the watch on {self.parts.checkout.queue} had ended and was begun anew"))
        self._watch()

    def _is_there(self) -> bool:
        """Whether the checkout is the directory that we began with, or another one with a queue of its own."""
        checkout, here = self.parts.checkout, _key(self.parts.checkout.root)
        if here == self._root:
            return True
        if here is not None and os.path.isdir(checkout.queue) and os.path.lexists(checkout.git) == checkout.has_git:
            self._root = here
            self._memory.is_new("root", "another")
            emit(Warned(f"{checkout.root} is another directory now, with a queue of its own; that one is served"))
            return True
        if self._memory.is_new("root", "gone"):
            emit(
                Warned(
                    f"{self.parts.checkout.root} is gone or another directory now; nothing is started until it is back"
                )
            )
        return False

    def _show(self) -> None:
        self._single.write(
            since=self._since,
            watching=self._watcher.watching,
            stopping=self.stopping.wanted,
            onStop=self.stopping.on_stop,
        )


def _key(path: str) -> tuple[int, int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino
