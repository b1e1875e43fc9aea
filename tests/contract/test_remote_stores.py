"""A server that is asked by the client keeps the same promises as its own store: the exported suites, over a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kranzq.errors import ClaimLost
from kranzq.model.claim import Holder
from kranzq.model.presence import NewPresence, Subject
from kranzq.model.who import Question, question_of, who
from kranzq.model.work import Held
from kranzq.testing.ends import EndsContract
from kranzq.testing.items import Items, given, item
from kranzq.testing.leases import LeasedContract
from kranzq.testing.presence import ANN, REPO, PresenceContract, Presences
from kranzq.testing.store import refused
from kranzq.testing.work import WorkContract
from tests.item_stores import SqliteItems
from tests.remote_stores import RemoteItems, RemotePresences, Served, served


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all tests."""
    folder = tmp_path_factory.mktemp("s")
    first = SqliteItems(folder / "first.db")
    with served(folder, first.open()) as one:
        yield one
    first.close()


@pytest.fixture
def remote_items(server: Served, sqlite_items: SqliteItems) -> Iterator[RemoteItems]:
    """An empty file behind it."""
    store = RemoteItems(server, sqlite_items)
    yield store
    store.close()


class TestRemote(WorkContract, LeasedContract, EndsContract):
    """The work queue."""

    @pytest.fixture
    def store(self, remote_items: RemoteItems) -> RemoteItems:
        """An empty one."""
        return remote_items

    def test_only_holder_and_attempt_together_count(self, store: Items) -> None:
        """Another attempt, or another agent of the same name, changes nothing: over a server a name alone is nobody."""
        work = store.open()
        work.enqueue(item("w-1"))
        claim = given(work.claim(Holder("ann", uid="u-1")))
        before = work.show("w-1")
        for holder, attempt in ((claim.holder, 2), (Holder("ann", uid="u-2"), 1), (Holder("ANN"), 1)):
            with refused(ClaimLost):
                work.finish(Held("w-1", attempt, holder))
        assert work.show("w-1") == before

        work.heartbeat(Held("w-1", 1, Holder("renamed", uid="u-1")))
        work.finish(Held("w-1", 1, Holder("renamed", uid="u-1")))


class TestRemotePresence(PresenceContract):
    """Presence beside it."""

    @pytest.fixture
    def presences(self, remote_items: RemoteItems) -> RemotePresences:
        """An empty one."""
        return RemotePresences(remote_items)

    def test_what_may_answer_is_found_by_every_road(self, presences: Presences) -> None:
        """There is one road here: a look at all claims. So one question of each kind is enough."""
        store = presences.open()
        for about in (Subject(REPO, "src"), Subject(REPO), Subject(branch="main"), Subject(topic="log in")):
            store.put(NewPresence(ANN, about, home=REPO))
        claims = store.live()
        assert len(claims) == 4

        for question in (Question(REPO, "src/x"), Question(REPO), Question(branch="main"), question_of(query="log")):
            found = store.who(question)
            assert found
            assert found == who(question, claims)
            assert {one.id for one in store.about(question)} <= {one.id for one in claims}
