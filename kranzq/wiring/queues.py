"""The open queue of a checkout: to look, to change what is there, or to make what is missing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kranzq.model.checkout import Checkout
from kranzq.wiring.checkouts import is_meant_as_root

if TYPE_CHECKING:
    from kranzq.backends.file.backend import FileQueue
    from kranzq.runs.folders import Runs


def open_queue(checkout: Checkout) -> FileQueue:
    """The queue for looking: nothing is made or changed. Raises NoQueue."""
    from kranzq.backends.file.backend import FileQueue

    return FileQueue.open(checkout)


def make_queue(checkout: Checkout, environ: Mapping[str, str] = os.environ) -> FileQueue:
    """The queue for work: what is missing is made. Raises Refused and UnsafePath where nothing should be begun."""
    from kranzq.backends.file.backend import FileQueue

    return FileQueue.make(checkout, as_root=is_meant_as_root(environ))


def open_to_change(checkout: Checkout, environ: Mapping[str, str] = os.environ) -> FileQueue:
    """The queue for work on what is there: nothing is made. Raises NoQueue, and what `make_queue` raises."""
    from kranzq.backends.file.backend import FileQueue

    return FileQueue.open_to_change(checkout, as_root=is_meant_as_root(environ))


@contextlib.contextmanager
def open_look(checkout: Checkout) -> Iterator[FileQueue | None]:
    """The queue for one look, None where the checkout has none; nothing is made or changed. Raises UnsafePath."""
    from kranzq.backends.file.folders import NoQueue

    try:
        queue = open_queue(checkout)
    except NoQueue:
        yield None
        return
    with queue:
        yield queue


@contextlib.contextmanager
def open_runs(checkout: Checkout) -> Iterator[Runs | None]:
    """The records of runs, None where the checkout has no queue."""
    from kranzq.runs.folders import Runs

    with open_look(checkout) as queue:
        yield Runs(checkout, queue.kranz_fd) if queue is not None else None


def known_missions(checkout: Checkout) -> set[str]:
    """The missions that names tell of, in the queue and beside it; no content is read."""
    from kranzq.runs.folders import Runs

    with open_look(checkout) as queue:
        if queue is None:
            return set()
        waiting = {str(place.mission) for place in queue.places()}
        return waiting | {str(mission) for mission in Runs(checkout, queue.kranz_fd).missions()}
