"""Items as the floors' rows are, enqueued and claimed through the library."""

from __future__ import annotations

from kranzq import work
from tests.benchmarks.floors.sql import PAYLOAD

HOLDER = work.Holder("bench")
LEASE_MS = 600_000


def new_item() -> work.NewItem:
    """An item that anybody may have."""
    return work.NewItem("a title", PAYLOAD)


def claimed(store: work.SharedStore) -> work.ItemClaim:
    """The next item; there must be one."""
    found = store.claim(HOLDER, lease_ms=LEASE_MS)
    assert found is not None, "there were too few items"
    return found
