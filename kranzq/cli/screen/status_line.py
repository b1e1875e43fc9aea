"""The line below a dispatcher's log on a terminal: idle, waiting for whom since when, or what runs and for how long.

Log and line share one lock, so neither garbles the other: a log line first erases the line, which then follows it.
It is drawn when something changes, and once a second while a mission runs; nothing wakes an idle dispatcher. In the
background, where the terminal belongs to somebody else, there is none.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, TextIO

from kranzq import events
from kranzq.cli.say import clean
from kranzq.cli.tables import cut_to, wide
from kranzq.dispatch.parts import Empty, IsBusy, Paused, Result
from kranzq.model.frozen import frozen

_TICK_S = 1.0
_ERASE = "\x1b[J"
_UP = "\x1b[A"
_LEAST = 10
_UNKNOWN = 80
_LAST_S = 5.0
_MINUTE, _HOUR = 60, 3600


@frozen
class Doing:
    """What the dispatcher does. `since` is in wall seconds, None where it is not known or does not matter."""

    text: str
    mission: str = ""
    """The mission that runs, empty when none does."""
    since: float | None = None


IDLE = Doing("idle")


class StatusLine:
    """The line of one dispatcher, and the stream of its log. `upcoming` gives the mission that comes next, if any.

    `since` tells since when the mission runs that was found running, in wall seconds. Both are asked by a thread of the
    line's own, once a second at most and only while a mission runs.
    """

    def __init__(
        self, stream: TextIO, upcoming: Callable[[], str | None], since: Callable[[], float | None] = lambda: None
    ) -> None:
        self._stream = stream
        self._upcoming = upcoming
        self._since = since
        self._doing = IDLE
        self._next: str | None = None
        self._shown = ""
        self._begun = self._closed = self._is_back = False
        self._earlier: Any = None
        self._changed = threading.Condition(threading.RLock())  # an event may come out of a signal's handler
        self._thread = threading.Thread(target=self._tick, name="status line", daemon=True)

    def begin(self) -> None:
        """Show the line from now on."""
        with self._changed:
            self._begun = True
            self._draw()
        events.subscribe(self.hear)
        self._thread.start()
        if threading.current_thread() is threading.main_thread():
            self._earlier = signal.signal(signal.SIGCONT, self.come_back)

    def come_back(self, *_: object) -> None:
        """Draw the line anew: we were stopped, and a shell has written since.

        Not here: this comes in the middle of anything, also of a write to the same stream.
        """
        with self._changed:
            self._is_back = True
            self._changed.notify_all()

    def close(self) -> None:
        """Erase it for good."""
        if self._earlier is not None:
            signal.signal(signal.SIGCONT, self._earlier)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(self._erased())
                self._stream.flush()
        if self._thread.is_alive():
            self._thread.join(_LAST_S)

    def write(self, text: str) -> int:
        """A line of the log; what was asked for, and the status line below it, in one go."""
        with self._changed:
            erased, line = self._erased(), self._line()
            self._shown = ""  # should the write fail, nobody knows what is there
            self._stream.write(erased + text + line)
            self._shown = line
            return len(text)

    def flush(self) -> None:
        """As a stream does."""
        with self._changed:
            self._stream.flush()

    def hear(self, event: events.Event) -> None:
        """A listener: what runs, and what has ended."""
        match event:
            case events.Started():
                self._do(Doing("running", event.mission, time.time()))
            case events.Adopted():
                self._do(Doing("running", event.mission))
            case events.Ended():
                self._do(IDLE)
            case events.WaitsBusy():
                self._do(Doing(f"waiting for {event.holder}", since=time.time()))
            case _:
                pass

    def turned(self, result: Result) -> None:
        """What a turn came to."""
        match result:
            case Empty(passed_over=passed, due=due):
                held = f"; {len(passed)} held up, see: kranzq list" if passed else ""
                self._do(Doing(f"idle{held}" + (f"; next due at {_clock(due)}" if due is not None else "")))
            case Paused(reason):
                self._do(Doing(f"paused: {reason}; go on with: kranzq resume"))
            case IsBusy(keeper=None, recovered=False):
                if self._doing.text != f"waiting for {result.holder}":
                    self._do(Doing(f"waiting for {result.holder}", since=time.time()))
            case _:
                pass

    def _do(self, doing: Doing) -> None:
        with self._changed:
            if doing != self._doing:
                self._doing, self._next = doing, None
                self._changed.notify_all()
                self._draw()

    def _tick(self) -> None:
        while not self._closed:
            if (doing := self._doing).mission:
                self._ask(doing)
            with self._changed:
                if self._is_back:
                    self._is_back, self._shown = False, ""
                self._draw()
                if not self._closed and not self._is_back:
                    self._changed.wait(self.pause_s())

    def pause_s(self) -> float | None:
        """How long nothing is drawn that is no news, in seconds; None: until there are news."""
        return _TICK_S if self._doing.mission else None

    def _ask(self, doing: Doing) -> None:
        """What comes next, and since when a mission runs that was not started here; without the lock."""
        next_, since = self._next, doing.since
        with contextlib.suppress(
            Exception
        ):  # also what a package raises that was replaced beside us: it is only a line
            next_ = self._upcoming()
            since = self._since() if since is None else since
        with self._changed:
            if self._doing == doing:
                self._doing, self._next = Doing(doing.text, doing.mission, since), next_

    def _draw(self) -> None:
        erased, line = self._erased(), self._line()
        if line == self._shown and wide(line) < self._columns():
            return
        with contextlib.suppress(OSError, ValueError):  # a terminal that went away needs no line
            self._stream.write(erased + line)
            self._stream.flush()
        self._shown = line

    def _line(self) -> str:
        if not self._begun or self._closed or not self._is_ours():
            return ""
        return cut_to(clean(text_of(self._doing, self._next, time.time())), max(_LEAST, self._columns() - 1))

    def _erased(self) -> str:
        """What takes the line away again, also if the terminal has become narrower and has wrapped it.

        In the background nothing: where the line was, a shell has written since.
        """
        if not self._shown or not self._is_ours():
            return ""
        return "\r" + _UP * ((wide(self._shown) - 1) // self._columns()) + _ERASE

    def _columns(self) -> int:
        """How wide the terminal is; one at a serial line or in a container may not know, and says 0."""
        with contextlib.suppress(OSError, ValueError):
            return os.get_terminal_size(self._stream.fileno()).columns or _UNKNOWN
        return _UNKNOWN

    def _is_ours(self) -> bool:
        """Whether we are in the foreground of the terminal."""
        with contextlib.suppress(OSError, ValueError):
            return os.tcgetpgrp(self._stream.fileno()) == os.getpgrp()
        return False


def text_of(doing: Doing, next_: str | None, now: float) -> str:
    """The line's text; `now` is in wall seconds."""
    if not doing.mission:
        return doing.text + (f" since {_clock(doing.since)}" if doing.since is not None else "")
    lasts = f" {elapsed(now - doing.since)}" if doing.since is not None else ""
    return f"{doing.text} {doing.mission}{lasts}" + (f", next {next_}" if next_ is not None else ", nothing next")


def elapsed(seconds: float) -> str:
    """A length of time as a clock shows it: 12:31, 1:02:03."""
    whole = int(max(0.0, seconds))
    hours, rest = divmod(whole, _HOUR)
    minutes, left = divmod(rest, _MINUTE)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes}:{left:02}"


def _clock(seconds: float) -> str:
    """A wall time in the local zone, with its day where that is another one."""
    there, today = time.localtime(seconds), time.localtime()
    return time.strftime("%H:%M:%S" if there[:3] == today[:3] else "%Y-%m-%d %H:%M", there)
