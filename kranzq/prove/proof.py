"""All trials, one after the other, in about the time that is given."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from kranzq.errors import StoreUnavailable
from kranzq.model.checkout import Checkout
from kranzq.model.trial import Trial
from kranzq.prove.kills import of_kills
from kranzq.prove.locks import of_locks
from kranzq.prove.names import of_names
from kranzq.prove.scratch import Scratch, scratch
from kranzq.prove.watching import of_watching

_PARTS: tuple[tuple[Callable[[Scratch, float], Iterator[Trial]], float], ...] = (
    (of_locks, 0.15),
    (of_names, 0.2),
    (of_watching, 0.05),
    (of_kills, 0.6),
)
"""Each group with its share of the time."""


def prove(checkout: Checkout, seconds: float) -> Generator[Trial]:
    """Try everything on the file system of a checkout, of which nothing is touched; each trial as it ends.

    Raises StoreUnavailable when no scratch folder can be made there.
    """
    try:
        with scratch(checkout) as place:
            for part, share in _PARTS:
                yield from part(place, seconds * share)
    except OSError as fault:
        raise StoreUnavailable(fault.filename or checkout.root, fault.strerror or str(fault)) from fault
