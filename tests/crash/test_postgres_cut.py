"""A connection to PostgreSQL that is cut in the middle of a verb: it is done once, and its caller notices nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.connections import Connections
from kranzq.backends.sql.opening import open_store
from kranzq.model.claim import Holder
from kranzq.model.presence import NewPresence, Subject
from kranzq.model.work import Finish, ItemClaim, ItemState
from kranzq.testing.items import given, item
from tests.laboratory import wait_for
from tests.postgres_proxy import Proxy

pytestmark = pytest.mark.crash
HOLDER = Holder("ann")


@dataclass
class Stage:
    """A store behind a proxy, and the same one seen directly. The items h-1 and h-2 are held, o-1 and o-2 are open."""

    store: SqlBackend
    direct: SqlBackend
    proxy: Proxy
    held: list[ItemClaim]

    def states(self, *names: str) -> list[str]:
        """Where the items are."""
        return [self.direct.show(name).state.value for name in names]

    def attempts(self, *names: str) -> list[int]:
        """How often they were claimed."""
        return [self.direct.show(name).attempts for name in names]


@pytest.fixture
def stage(postgres_url: str) -> Iterator[Stage]:
    """The store as each verb finds it."""
    with Proxy(postgres_url) as proxy, open_store(proxy.url) as store, open_store(postgres_url) as direct:
        direct.enqueue_many([item(name) for name in ("h-1", "h-2", "o-1", "o-2")])
        yield Stage(store, direct, proxy, direct.claim_many(HOLDER, limit=2))


def enqueue(stage: Stage) -> None:
    """One new item, and it is told as new."""
    accepted = stage.store.enqueue(item())
    assert accepted.created
    assert len(stage.direct.entries()) == 3


def enqueue_with_a_key(stage: Stage) -> None:
    """One new item."""
    accepted = stage.store.enqueue(item(key="k", created_by="bob"))
    assert accepted.created
    assert len(stage.direct.entries()) == 3


def enqueue_many(stage: Stage) -> None:
    """Three new items."""
    assert [one.created for one in stage.store.enqueue_many([item(), item(key="k"), item()])] == [True] * 3
    assert len(stage.direct.entries()) == 5


def claim(stage: Stage) -> None:
    """The first one, once."""
    assert given(stage.store.claim(HOLDER)).id == "o-1"
    assert (stage.states("o-1", "o-2"), stage.attempts("o-1", "o-2")) == (["claimed", "open"], [1, 0])


def claim_with_a_request_id(stage: Stage) -> None:
    """The first one, once."""
    assert given(stage.store.claim(HOLDER, request_id="r")).id == "o-1"
    assert (stage.states("o-1", "o-2"), stage.attempts("o-1", "o-2")) == (["claimed", "open"], [1, 0])


def claim_many(stage: Stage) -> None:
    """Both, once each, in order."""
    assert [one.id for one in stage.store.claim_many(HOLDER, limit=5)] == ["o-1", "o-2"]
    assert stage.attempts("o-1", "o-2") == [1, 1]


def heartbeat(stage: Stage) -> None:
    """The lease is longer."""
    renewed = stage.store.heartbeat(stage.held[0], 3_600_000)
    assert (renewed.item.claim_expires or 0) > (stage.held[0].item.claim_expires or 0)
    assert stage.attempts("h-1") == [1]


def finish(stage: Stage) -> None:
    """It is done."""
    stage.store.finish(stage.held[0], result="all is well")
    assert stage.direct.show("h-1").result == "all is well"
    assert stage.states("h-1") == ["done"]


def finish_many(stage: Stage) -> None:
    """Both are done."""
    assert stage.store.finish_many([Finish(one) for one in stage.held]) == [None, None]
    assert stage.states("h-1", "h-2") == ["done", "done"]


def release(stage: Stage) -> None:
    """It is open, and declined once."""
    assert stage.store.release(stage.held[0], "not mine", declined=True) is ItemState.OPEN
    assert (stage.states("h-1"), stage.direct.show("h-1").declined) == (["open"], 1)


def cancel(stage: Stage) -> None:
    """It is cancelled, by us."""
    assert stage.store.cancel("h-1", "enough")
    assert stage.states("h-1") == ["cancelled"]


def sweep(stage: Stage) -> None:
    """What is overdue has lapsed."""
    stage.direct.heartbeat(stage.held[0], 1)
    wait_for(lambda: stage.direct.stats().overdue, "the lease is over")
    stage.store.sweep()
    assert stage.states("h-1", "h-2") == ["lapsed", "claimed"]


def prune(stage: Stage) -> None:
    """What had ended is gone."""
    stage.direct.finish(stage.held[0])
    stage.store.prune(-60)
    assert [one.id for one in stage.direct.page().items] == ["h-2", "o-2", "o-1"]


def looks(stage: Stage) -> None:
    """Every look sees what is there."""
    assert [one.id for one in stage.store.entries()] == ["o-1", "o-2"]
    assert stage.store.show("h-1").attempts == 1
    assert len(stage.store.page().items) == 4
    assert [one.attempt for one in stage.store.attempts("h-1")] == [1]
    assert stage.store.stats().by_state["claimed"] == 2


def presence(stage: Stage) -> None:
    """One claim, and it is told as new."""
    put = stage.store.presence.put(NewPresence(HOLDER, Subject(topic="the roof")))
    assert not put.renewed
    assert [one.id for one in stage.direct.presence.live()] == [put.claim.id]


def presence_released(stage: Stage) -> None:
    """What was there is told, once, and is gone."""
    there = [stage.direct.presence.put(NewPresence(HOLDER, Subject(topic=topic))).claim for topic in "ab"]
    assert sorted(stage.store.presence.release(HOLDER), key=lambda one: one.subject.topic or "") == there
    assert stage.direct.presence.live() == []


VERBS = [
    enqueue,
    enqueue_with_a_key,
    enqueue_many,
    claim,
    claim_with_a_request_id,
    claim_many,
    heartbeat,
    finish,
    finish_many,
    release,
    cancel,
    sweep,
    prune,
    looks,
    presence,
    presence_released,
]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_an_answer_that_is_lost_is_had_at_the_second_try(
    stage: Stage, verb: Callable[[Stage], None], number: int
) -> None:
    """Whichever message of a verb was carried out and never answered, nothing is lost and nothing is doubled."""
    stage.proxy.lose_answer(number)

    verb(stage)


@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_a_message_that_is_lost_is_sent_again(stage: Stage, verb: Callable[[Stage], None], number: int) -> None:
    """Whichever message of a verb never came to the server, it is as if nothing had been."""
    stage.proxy.lose_request(number)

    verb(stage)


def test_a_connection_that_died_while_nobody_used_it_costs_no_try(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a firewall or a restart cut in the meantime is seen before the next call uses it."""
    lost: list[Connections] = []
    monkeypatch.setattr(Connections, "drop_idle", lost.append)
    stage.store.show("h-1")
    before = stage.proxy.connections
    stage.proxy.cut()
    stage.store.show("h-1")

    assert (lost, stage.proxy.connections) == ([], before + 1)
    monkeypatch.undo()
