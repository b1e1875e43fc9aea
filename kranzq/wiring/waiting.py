"""What whoever waits for a mission's end looks with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from kranzq.errors import KranzqError
from kranzq.model.checkout import Checkout
from kranzq.wiring.dispatchers import parts_of_a_verb
from kranzq.wiring.hooks import tell_hooks
from kranzq.wiring.queues import open_look

if TYPE_CHECKING:
    from kranzq.backends.file.backend import FileQueue
    from kranzq.model.ids import MissionId


@contextlib.contextmanager
def open_look_settled(checkout: Checkout, environ: Mapping[str, str], mission: MissionId) -> Iterator[FileQueue | None]:
    """As `open_look`, for whoever waits for a mission: an end that no dispatcher has settled is settled."""
    from kranzq.dispatch.unattended import settle_unattended
    from kranzq.runs.folders import Runs

    with open_look(checkout) as queue:
        if queue is not None:
            with contextlib.suppress(KranzqError, OSError):  # it is a service; who waits goes on waiting
                tell_hooks(checkout, environ)
                settle_unattended(
                    lambda: parts_of_a_verb(checkout, environ), queue, Runs(checkout, queue.kranz_fd), mission
                )
        yield queue
