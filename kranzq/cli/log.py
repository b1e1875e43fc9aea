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
    """Print each event from now on; a full disk or a reader that went away does not stop a dispatcher."""

    def tell(event: Event) -> None:
        if isinstance(event, LeaseRenewed):
            return  # told by the thread that renews, which a reader that stands still must not stop
        try:
            stream.write(f"{time.strftime('%H:%M:%S')} {clean(sentence(event))}\n")
            stream.flush()
        except BrokenPipeError:
            unsubscribe()
        except OSError:
            pass  # a disk that is full now takes the next line again

    unsubscribe = subscribe(tell)
