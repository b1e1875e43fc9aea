"""`--watch`: the same screen again and again, in the terminal's other buffer; what was there before comes back.

Ctrl-C and `q` leave, Ctrl-Z stops as it does elsewhere, and a terminal that changes its size is drawn at once. What
cannot be seen for a while (a queue that is gone, a server that is away) is said on the screen and looked at again.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from kranzq.cli.say import charset, clean
from kranzq.cli.screen.drawing import NARROWEST, PERSON, Size, cut, marked, rendered, said
from kranzq.errors import KranzqError

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[2K", "\x1b[J"
_SHARE = 4.0
"""A look that takes long comes less often: it takes a fifth of the time at most."""
_QUIT = b"qQ\x03\x04"
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_USUAL = os.terminal_size((80, 24))

Frame = Callable[[Size], Sequence[str]]
"""The lines of one look."""


def watch(frame: Frame, every_s: float) -> None:
    """Draw until somebody leaves. `every_s` are seconds from one look to the next."""
    terminal = _Terminal()
    try:
        terminal.enter()
        while True:
            began = time.monotonic()
            terminal.draw(_lines(frame, terminal.size()))
            took = time.monotonic() - began
            if terminal.wait(max(every_s - took, took * _SHARE)):
                return
            terminal.end_if_told()
    except KeyboardInterrupt:
        return
    finally:  # not a context manager: a signal may come between the end of its beginning and the first line in it
        terminal.leave()


def _lines(frame: Frame, size: Size) -> Sequence[str]:
    try:
        return frame(size)
    except KranzqError as fault:
        text, advice = fault.sentence, fault.advice
    except OSError as fault:
        text, advice = f"{fault.filename or 'The disk'}: {fault.strerror or fault}.", ""
    shown = [*rendered(marked((" ! ", PERSON), said(text)), size.columns)]
    return [*shown, *rendered(cut("   " + clean(advice)), size.columns), "", "   Looking again; leave with Ctrl-C."]


class _Terminal:
    """The terminal while it is ours: another buffer, no cursor, keys that are not shown.

    Written with system calls alone, since a signal may come in the middle of anything.
    """

    def __init__(self) -> None:
        self._out, self._in = sys.stdout.fileno(), sys.stdin.fileno()
        self._keys = termios.tcgetattr(self._in) if os.isatty(self._in) else None
        self._hears = self._keys is not None
        self._earlier: dict[int, Any] = {}
        self._ended_by: int | None = None
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def enter(self) -> None:
        """Take the terminal."""
        sys.stdout.flush()
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        for number, answer in self._answers().items():
            if number in _ENDS and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup stays nohup
            self._earlier[number] = signal.signal(number, answer)
        self._take()

    def leave(self) -> None:
        """Give it back as it was; from now on a second Ctrl-C, TERM or HUP is as good as none."""
        for one in _ENDS:
            self._earlier.setdefault(one, signal.signal(one, signal.SIG_IGN))
        with contextlib.suppress(OSError):  # a terminal that is gone
            self._give_back()
        signal.set_wakeup_fd(-1)
        for number, earlier in self._earlier.items():
            signal.signal(number, signal.SIG_DFL if earlier is None else earlier)
        os.close(self._woken)
        os.close(self._wakes)

    def _answers(self) -> dict[int, Callable[[int, FrameType | None], None]]:
        return {signal.SIGWINCH: _wake, signal.SIGTSTP: self._stop, **dict.fromkeys(_ENDS, self._end)}

    def end_if_told(self) -> None:
        """Raise what a signal raised, should it have come where nothing can be: in a callback of the collector's."""
        if self._ended_by == signal.SIGINT:
            raise KeyboardInterrupt
        if self._ended_by is not None:
            raise SystemExit(128 + self._ended_by)

    def _end(self, number: int, _: object) -> None:
        """The first one counts: another one, while we leave, would keep the terminal from being given back."""
        for one in _ENDS:
            signal.signal(one, signal.SIG_IGN)
        self._ended_by = number
        self.end_if_told()

    def size(self) -> Size:
        """How large it is now; a column is left free, for a full line would wrap.

        One at a serial line or in a container may not know its size, and says 0: then it is taken for a usual one.
        """
        with contextlib.suppress(OSError):
            seen = os.get_terminal_size(self._out)
            return Size(max(NARROWEST, (seen.columns or _USUAL.columns) - 1), seen.lines or _USUAL.lines)
        return Size(_USUAL.columns - 1, _USUAL.lines)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines from the top on, and nothing else."""
        most = self.size().lines or len(lines)
        self._write(_HOME + "\r\n".join(_CLEAR_LINE + line for line in lines[:most]) + _CLEAR_BELOW)

    def wait(self, seconds: float) -> bool:
        """Wait for so long, a signal or a key; whether somebody wants to leave."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._woken, *([self._in] if self._hears else [])], [], [], left)
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 512)
                return False
            if ready:
                keys = self._typed()
                self._hears = bool(keys)
                if any(key in _QUIT for key in keys):
                    return True
        return False

    def _typed(self) -> bytes:
        try:
            return os.read(self._in, 64)
        except OSError:
            return b""

    def _take(self) -> None:
        if self._keys is not None:
            quiet = [*self._keys]
            quiet[3] &= ~(termios.ECHO | termios.ICANON)
            termios.tcsetattr(self._in, termios.TCSADRAIN, quiet)
        self._write(_ENTER)

    def _give_back(self) -> None:
        self._write(_LEAVE)
        if self._keys is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._in, termios.TCSADRAIN, self._keys)

    def _stop(self, *_: object) -> None:
        """Ctrl-Z: give the terminal back, stop, and take it again when we go on."""
        self._give_back()
        ours = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, ours)
        self._take()

    def _write(self, text: str) -> None:
        data = text.encode(charset(), "backslashreplace")
        while data:
            data = data[os.write(self._out, data) :]


def _wake(*_: object) -> None:
    """A signal that only wakes."""
