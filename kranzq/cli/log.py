"""The running log of daemon and drain: one line an event, time first. Unasked-for repeats are not made."""

from __future__ import annotations

import time
from typing import Protocol

from kranzq.cli.say import clean
from kranzq.daemon.tell import sentence
from kranzq.events import Event, LeaseRenewed, subscribe


class Stream(Protocol):
    """Where a log goes."""

    def write(self, text: str, /) -> object:
        """Take some text. Raises OSError."""
        ...

    def flush(self) -> None:
        """Hand it on. Raises OSError."""
        ...


def log_to(stream: Stream) -> None:
    """Print each event from now on; a full disk or a reader that went away does not stop a dispatcher.

    Whatever a stream says to a line, nothing comes out of it: an event is told between two steps of a settlement.
    """

    def tell(event: Event) -> None:
        if isinstance(event, LeaseRenewed):
            return  # told by the thread that renews, which a reader that stands still must not stop
        try:
            stream.write(f"{time.strftime('%H:%M:%S')} {clean(sentence(event))}\n")
            stream.flush()
        except BrokenPipeError:
            unsubscribe()
        except (OSError, ValueError, RuntimeError):
            pass  # a disk that is full now takes the next line again; so does a stream that is in the middle of one

    unsubscribe = subscribe(tell)
