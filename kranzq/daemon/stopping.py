"""How a dispatcher is stopped: signals and the `.stop` file, and what becomes of the running mission.

The first TERM, INT or HUP lets no new turn begin; a second TERM or INT, more than half a second later, ends the mission
and puts its entry back. `daemon` and `drain` follow the same rule.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Literal

from kranzq.daemon.wake import Wake
from kranzq.disk.read import Unreadable, read_regular
from kranzq.dispatch.watch_over import Wish
from kranzq.model.process import ProcessIdentity

OnStop = Literal["wait", "leave", "end"]
STOP = ".stop"
SECOND_AFTER_S = 0.5


def on_stop_here(wanted: OnStop | None, environ: Mapping[str, str]) -> OnStop:
    """What stopping does to a running mission, where the setting leaves it open.

    As process 1 of a pid namespace our end would kill all in it, so *leave* is not to be had there.
    """
    if os.getpid() == 1:
        return "wait" if wanted == "wait" else "end"
    if wanted is not None:
        return wanted
    return "leave" if environ.get("NOTIFY_SOCKET") or environ.get("INVOCATION_ID") else "wait"


class Stopping:
    """Whether to stop, and how. Satisfies `dispatch.watch_over.Interrupts`."""

    def __init__(self, wake: Wake, on_stop: OnStop, tell: Callable[[str], None]) -> None:
        self._wake = wake
        self._on_stop: OnStop = on_stop
        self._tell = tell
        self._first: float | None = None
        self._told = False
        self._stop_file: Callable[[], bool | None] = lambda: None
        self.signal: int | None = None
        self.now = False
        self.tick_s: float | None = None
        self.on_tick: Callable[[], None] = lambda: None

    @property
    def wanted(self) -> bool:
        """Whether no new turn may begin."""
        if self._first is None and (wish := self._stop_file()) is not None:
            self._first, self.now = time.monotonic(), self.now or wish
        return self._first is not None

    @property
    def on_stop(self) -> OnStop:
        """What stopping does to a running mission."""
        return "end" if self.now else self._on_stop

    def settle_on(self, on_stop: OnStop) -> None:
        """From now on, stopping does this to a running mission; a stop that was begun stays as it is."""
        if self._first is None:
            self._on_stop = on_stop

    def listen(self) -> None:
        """Take over TERM, INT and HUP of this process (from its main thread)."""
        signal.set_wakeup_fd(self._wake.write_fd, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
                signal.signal(number, self._heard)

    def watch_file(self, queue_path: str, ours: ProcessIdentity) -> None:
        """Also obey a `.stop` that names this process."""
        self._stop_file = lambda: read_stop(queue_path, ours)

    def fileno(self) -> int:
        """Readable when a signal or a file event came."""
        return self._wake.fileno()

    def tick(self) -> None:
        """Say that the dispatcher is alive, to whoever wants to hear it."""
        self.on_tick()

    def wish(self) -> Wish | None:
        """What to do with the running mission."""
        self._wake.clear()
        if not self.wanted:
            return None
        if not self.now and (again := self._stop_file()):
            self.now = again
        match self.on_stop:
            case "end":
                self._say("ending the running mission; its entry goes back to its place")
                return Wish.END
            case "leave":
                return Wish.LEAVE
            case "wait":
                self._say("waiting for the running mission; once more (or kranzq stop --now) ends it and puts it back")
                return None

    def _say(self, text: str) -> None:
        if not self._told or self.now:
            self._tell(text)
        self._told = True

    def _heard(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        self.signal = number
        if self._first is None:
            self._first = now
        elif number != signal.SIGHUP and now - self._first > SECOND_AFTER_S:
            self.now = True
        self._wake.set()


def read_stop(queue_path: str, ours: ProcessIdentity) -> bool | None:
    """The wish in `.stop`: True for *now*; None when there is none, or when it names another process."""
    try:
        found = read_regular(f"{queue_path}/{STOP}")
        value = json.loads(found.data) if found is not None else None
    except (Unreadable, ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or ProcessIdentity.from_json(value.get("process")) != ours:
        return None
    return value.get("now") is True


def forget_stop(queue_path: str) -> None:
    """Remove a `.stop`: obeyed, or meant for a daemon that is gone."""
    with contextlib.suppress(OSError):
        os.unlink(f"{queue_path}/{STOP}")
