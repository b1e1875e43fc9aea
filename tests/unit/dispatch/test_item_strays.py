"""Which items a dispatcher takes for its own by the work queue's word alone."""

from __future__ import annotations

from pathlib import Path

from kranzq.backends.sql.opening import open_store
from kranzq.dispatch import item_strays
from kranzq.dispatch.item_strays import _held_by
from kranzq.model.claim import Holder
from kranzq.model.work import NewItem

MINE, OTHER = Holder("mine", uid="checkout:mine"), Holder("other", uid="checkout:other")


def test_all_that_one_holds_is_found_among_many_pages(tmp_path: Path) -> None:
    """Of each page only what is its own is kept; lapsed items still count."""
    with open_store(f"sqlite://{tmp_path}/work.db") as store:
        store.enqueue_many([NewItem("t", "p", id=f"w-{at}") for at in range(3 * item_strays._AT_ONCE)])
        store.claim_many(OTHER, limit=2 * item_strays._AT_ONCE)
        mine = [one.id for one in store.claim_many(MINE, limit=2)]
        store.claim_many(OTHER, limit=item_strays._AT_ONCE - 10)
        mine += [one.id for one in store.claim_many(MINE, limit=2, lease_ms=1)]
        store.sweep()

        assert {one.id for one in _held_by(store, MINE.uid)} == set(mine)
        assert len(mine) == 4
