"""One wake-up for everything that may give a dispatcher something to do: watch, lock, signal, timer."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import Protocol


class Source(Protocol):
    """Events that only whoever waits takes."""

    def fileno(self) -> int:
        """Readable when there are some."""
        ...

    def take(self) -> bool:
        """Take all; whether any of them may be something to do."""
        ...


class Wake:
    """A pipe to oneself, and what is followed beside it. `set` may be called from any thread; waiting uses nothing."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._source: Source | None = None
        self._both: select.epoll | None = None

    def fileno(self) -> int:
        """Readable when somebody has called `set`, or what is followed has events."""
        return self._read if self._both is None else self._both.fileno()

    @property
    def write_fd(self) -> int:
        """For `signal.set_wakeup_fd`."""
        return self._write

    def set(self) -> None:
        """Wake the dispatcher; waking it twice is waking it once."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._write, b"w")

    def follow(self, source: Source) -> None:
        """Wake for its events as well, until `leave`."""
        self.leave()
        self._both = select.epoll()
        self._both.register(self._read, select.EPOLLIN)
        self._both.register(source.fileno(), select.EPOLLIN)
        self._source = source

    def leave(self) -> None:
        """Follow nothing any more. It must still be open."""
        if self._both is not None:
            self._both.close()
        self._both = self._source = None

    def clear(self) -> None:
        """Forget all wake-ups so far; whatever they were for must be looked at after this."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass
        if self._source is not None:
            self._source.take()

    def wait(self, seconds: float | None) -> bool:
        """Wait for a wake-up or the time; whether there was one."""
        until = None if seconds is None else time.monotonic() + max(0.0, seconds)
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        if self._source is not None:
            poll.register(self._source.fileno(), select.POLLIN)
        while True:
            left = None if until is None else max(0.0, until - time.monotonic()) * 1000
            ready = {fd for fd, _ in poll.poll(left)}
            if not ready or self._read in ready:
                return bool(ready)
            if self._source is None or self._source.take():
                return True

    def close(self) -> None:
        """Close the pipe."""
        self.leave()
        for fd in (self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(fd)
