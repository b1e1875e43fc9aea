"""What a server watches: the items of a store, and the missions of a checkout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kranzq.wiring import queues

if TYPE_CHECKING:
    from kranzq.backend.items import WorkStore
    from kranzq.backend.watching import StoreLooks, Watch
    from kranzq.model.checkout import Checkout


def store_looks(store: WorkStore) -> StoreLooks:
    """What is to be seen of a store from outside."""
    from kranzq.backends.sql.backend import SqlBackend
    from kranzq.backends.sql.watching import SqlLooks

    assert isinstance(store, SqlBackend)
    return SqlLooks(store.database)


def mission_watch(checkout: Checkout) -> Watch:
    """A new watch of the missions of a checkout."""
    from kranzq.dispatch.mission_watch import MissionWatch

    return MissionWatch(checkout, lambda: queues.open_look(checkout))
