"""The server's own words: lines on stderr, of which none holds a token.

They are written by a thread of their own, so that a reader that stands still stops nobody; what it does not take in
time is left out, and how much that was is said afterwards.
"""

from __future__ import annotations

import queue
import secrets
import sys
import threading
import time
import traceback

from kranzq.daemon.tell import sentence
from kranzq.events import Event, ItemsPruned, Warned, WorkSwept
from kranzq.model.tokens import without_tokens

_MOST_WAITING = 1000
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(9), *range(11, 32), *range(127, 160))}
_TOLD = (Warned, WorkSwept, ItemsPruned)
"""Events that a person should see; what each call does is told by `/v1/events`."""


class _Writer:
    """The thread, started with the first line."""

    def __init__(self) -> None:
        self._lines: queue.Queue[str] = queue.Queue(_MOST_WAITING)
        self._mutex = threading.Lock()
        self._thread: threading.Thread | None = None
        self._left_out = 0

    def put(self, line: str) -> None:
        """Have it written some time."""
        with self._mutex:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="telling", daemon=True)
                self._thread.start()
            try:
                self._lines.put_nowait(line)
            except queue.Full:
                self._left_out += 1

    def flush(self, seconds: float) -> None:
        """Wait until all is written, or so long."""
        until = time.monotonic() + seconds
        while self._lines.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.005)

    def _write(self) -> None:
        while True:
            line = self._lines.get()
            with self._mutex:
                left_out, self._left_out = self._left_out, 0
            if left_out:
                line += f"({left_out} lines were left out: nobody read them in time)\n"
            try:
                sys.stderr.write(line)
                sys.stderr.flush()
            except (OSError, ValueError):
                pass  # the reader went away
            self._lines.task_done()


_writer = _Writer()


def tell(text: str) -> None:
    """One line for the log, with the time; more where the text has ends of lines. Nothing in it drives a terminal."""
    _writer.put(f"{time.strftime('%H:%M:%S')} {without_tokens(text).translate(_ESCAPED)}\n")


def tell_event(event: Event) -> None:
    """An event, if a person should see it."""
    if isinstance(event, _TOLD):
        tell(sentence(event).replace("\n", " "))


def tell_fault(where: str, fault: BaseException) -> str:
    """A fault that nobody expected, with its traceback; the id under which it stands in the log."""
    name = secrets.token_hex(4)
    tell(f"fault {name} in {where}\n{''.join(traceback.format_exception(fault))}")
    return name


def flush(seconds: float = 0.5) -> None:
    """Let what was told be written, for so long at most: before the process ends."""
    _writer.flush(seconds)
