"""Shows a command's output while it runs, from a thread of its own: a reader that stands still holds up nobody.

The output itself goes to a file, so a slow reader does not even slow the command down.
"""

from __future__ import annotations

import os
import threading

from kranzq.dispatch.output import Output, Sink

OUTPUT_THREAD = "output of an item"
"""The name of threads that wait for a reader; whoever leaves the process must not wait for them."""
_LOOK_S = 0.05
_STUCK_S = 5.0


class OutputFollower:
    """Copies an output to a sink until it is told that the output is whole.

    Its descriptor is its own: the thread may outlive the item, and would else read whatever bears that number then.
    """

    def __init__(self, output: int, sink: Sink) -> None:
        self._fd, self._sink = os.dup(output), sink
        self._whole = threading.Event()
        self._written = 0
        self._thread = threading.Thread(target=self._follow, name=OUTPUT_THREAD, daemon=True)
        self._thread.start()

    def finish(self) -> bool:
        """Show the rest; False when the reader took nothing for five seconds, and was left alone."""
        self._whole.set()
        while self._thread.is_alive():
            before = self._written
            self._thread.join(_STUCK_S)
            if self._thread.is_alive() and self._written == before:
                return False
        return True

    def data(self, piece: bytes) -> None:
        """Pass it on, and note that somebody takes it."""
        self._sink.data(piece)
        self._written += 1

    def gap(self, size: int) -> None:
        """Pass it on."""
        self._sink.gap(size)

    def pause(self) -> None:
        """Pass it on."""
        self._sink.pause()

    def _follow(self) -> None:
        output = Output(self._fd)
        try:
            while True:
                whole = self._whole.is_set()
                output.pump(self)
                if whole:
                    return
                self._whole.wait(_LOOK_S)
        except (OSError, ValueError):
            return  # whoever read has enough; the result is taken from the file
        finally:
            os.close(self._fd)
