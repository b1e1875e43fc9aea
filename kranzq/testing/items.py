"""Items for the conformance suites: what they are made of, and the store that a work queue is examined on."""

from __future__ import annotations

import abc
from typing import Any, Protocol

from kranzq.backend.items import WorkStore
from kranzq.model.claim import Holder
from kranzq.model.work import ItemClaim, ItemState, NewItem, Target, WorkItem
from kranzq.testing.store import HOLDER, Store

OTHER = Holder("another holder")
LEASE_S = 120.0
"""The lease that the suites' claims have: the default."""


class Items(Store[NewItem, WorkItem, ItemState, ItemClaim], Protocol):
    """A store whose holders keep their work by leases, and whose time passes when it is told to."""

    def open(self) -> WorkStore:
        """The work queue, opened anew each time."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Let that time pass for leases, due times and everything that has happened so far."""
        ...


class ItemStore(abc.ABC):
    """An `Items` that knows everything but how to open the queue and how its time passes."""

    waiting, claimed, aside = ItemState.OPEN, ItemState.CLAIMED, ItemState.FAILED

    @abc.abstractmethod
    def open(self) -> WorkStore:
        """The work queue."""

    @abc.abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let that time pass."""

    def make(self, name: str, urgency: int = 100, content: str = "") -> NewItem:
        """An item for anybody."""
        return item(name, priority=urgency, payload=content or "what is to be done")

    def names(self, state: ItemState) -> list[str]:
        """The ids in a state, in order; what lapsed waits for the next claimer beside what is open."""
        store = self.open()
        found = store.entries(state)
        if state is ItemState.OPEN:
            found = sorted([*found, *store.entries(ItemState.LAPSED)], key=lambda one: (-one.priority, one.seq))
        return [one.id for one in found]

    def named(self, kept: WorkItem) -> str:
        """Its id."""
        return kept.id

    def given(self, claim: ItemClaim) -> str:
        """The id of what was claimed."""
        return claim.id

    def claim_and_die(self, count: int = 1) -> list[ItemClaim]:
        """Claim, and let the leases pass."""
        found = self.open().claim_many(HOLDER, limit=count)
        assert len(found) == count, "there was not enough to claim"
        self.pass_time(LEASE_S + 1)
        return found


def item(name: str = "", **fields: Any) -> NewItem:
    """An item; `agent`, `uid` and `group` say whom it is for."""
    target = Target(fields.pop("agent", ""), fields.pop("uid", ""), fields.pop("group", ""))
    values: dict[str, Any] = {"title": "a title", "payload": "a payload", "target": target, "id": name}
    return NewItem(**(values | fields))


def given(claim: ItemClaim | None) -> ItemClaim:
    """A claim that must have given something."""
    assert claim is not None, "there was nothing to claim"
    return claim
