"""The mission queue for a program that runs missions itself."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kranzq.model.checkout import Checkout
from kranzq.wiring.checkouts import is_meant_as_root
from kranzq.wiring.dispatchers import parts_of_a_verb
from kranzq.wiring.trusting import keyring, user_name

if TYPE_CHECKING:
    from kranzq.dispatch.library import MissionBackend
    from kranzq.dispatch.parts import Parts


def mission_backend(checkout: Checkout, environ: Mapping[str, str], *, end_leftovers: bool = True) -> MissionBackend:
    """The mission queue for a program that runs missions itself. It stays what it is: no subreaper, no dispatcher."""
    from dataclasses import replace

    from kranzq.backends.file.backend import FileQueue
    from kranzq.dispatch.approve import Approver
    from kranzq.dispatch.library import MissionBackend, TheirOwn
    from kranzq.dispatch.library_claim import LibraryQueue

    def opener(make: bool) -> AbstractContextManager[LibraryQueue]:  # noqa: FBT001
        return FileQueue.make(checkout, as_root=is_meant_as_root(environ)) if make else FileQueue.open(checkout)

    @functools.cache
    def parts() -> Parts:
        return replace(parts_of_a_verb(checkout, environ), runner=TheirOwn())

    return MissionBackend(
        parts,
        opener,
        lambda queue: Approver(checkout, queue, keyring(environ), user_name(), parts),
        end_leftovers=end_leftovers,
    )
