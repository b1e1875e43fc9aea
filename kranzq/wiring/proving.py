"""Trials on the user's own disk and kernel."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from kranzq.errors import Refused
from kranzq.model.checkout import Checkout
from kranzq.wiring.checkouts import unsafe_here

if TYPE_CHECKING:
    from kranzq.model.trial import Kept, Trial


def trials(checkout: Checkout, seconds: float) -> Generator[Trial]:
    """Each trial as it ends, in about so many seconds; to be closed. Raises StoreUnavailable.

    Raises Refused where every verb that works would be: a program is started there, and others could change it.
    """
    from kranzq.prove.proof import prove

    if (unsafe := unsafe_here(checkout)) is not None:
        raise Refused(*unsafe)
    return prove(checkout, seconds)


def kept(done: list[Trial]) -> list[Kept]:
    """How far each promise holds here, by these trials."""
    from kranzq.model.trial import kept as judged

    return list(judged(done))
