"""One wake-up for everything that may give a dispatcher something to do: watcher, lock, signal, timer."""

from __future__ import annotations

import contextlib
import os
import select


class Wake:
    """A pipe to oneself. `set` may be called from any thread; waiting uses nothing until then."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Readable when somebody has called `set`."""
        return self._read

    @property
    def write_fd(self) -> int:
        """For `signal.set_wakeup_fd`."""
        return self._write

    def set(self) -> None:
        """Wake the dispatcher; waking it twice is waking it once."""
        with contextlib.suppress(BlockingIOError, OSError):
            os.write(self._write, b"w")

    def clear(self) -> None:
        """Forget all wake-ups so far; whatever they were for must be looked at after this."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass

    def wait(self, seconds: float | None) -> bool:
        """Wait for a wake-up or the time; whether there was one."""
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        return bool(poll.poll(None if seconds is None else max(0.0, seconds) * 1000))

    def close(self) -> None:
        """Close the pipe."""
        for fd in (self._read, self._write):
            with contextlib.suppress(OSError):
                os.close(fd)
