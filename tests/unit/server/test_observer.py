"""The observer: looks while somebody listens, tells everything once, and survives what it looks at."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kranzq import work
from kranzq.backend.presence import SharedStore
from kranzq.backend.watching import Seen
from kranzq.errors import StoreUnavailable, UnsafePath
from kranzq.model.checkout import Checkout
from kranzq.server.event_log import EventLog
from kranzq.server.live import no_hint
from kranzq.server.observer import Group, Observer, Source
from kranzq.server.presence_watch import PresenceWatch
from kranzq.testing.store import HOLDER
from kranzq.wiring import watching
from tests.factories import ROOT, make_queue
from tests.laboratory import PATIENCE, wait_for


@dataclass
class Scripted:
    """A watch that sees what it is told to."""

    seen: list[Seen | Exception] = field(default_factory=list)
    looks: int = 0
    pause_s: float = 0.0

    def look(self) -> Seen:
        """The next thing; then nothing, for ever."""
        self.looks += 1
        found = self.seen.pop(0) if self.seen else Seen()
        if isinstance(found, Exception):
            raise found
        return found


class Ears:
    """A listener that counts how often it was woken."""

    def __init__(self) -> None:
        self.woken = 0

    def __call__(self) -> None:
        """Be woken."""
        self.woken += 1


def observer_of(*watches: Scripted, said: list[str] | None = None) -> Observer:
    """An observer of these, that gets a hint every few milliseconds."""
    sources = [Source(f"kind-{at}", watch, 0.0) for at, watch in enumerate(watches)]

    def hint(_: float) -> bool:
        time.sleep(0.002)
        return True

    return Observer(EventLog("0a", 100), [Group("shop", sources, hint)], (said if said is not None else []).append)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first look may take long, and those of other tests have ended: to close an observer waits for them a while."""
    monkeypatch.setattr("kranzq.server.observer._PATIENCE_S", PATIENCE)
    wait_for(lambda: threads() == 0, "the threads of other tests have ended")


def threads() -> int:
    """How many observers look."""
    return sum(one.name.startswith("observer") for one in threading.enumerate())


def told(observer: Observer) -> list[str]:
    """The kinds of all events."""
    return [one.kind for one in observer.log.after(0, 100)]


def test_it_looks_only_while_somebody_listens() -> None:
    """No thread before the first, none after the last; what happened meanwhile is found when one comes again."""
    watch = Scripted()
    observer = observer_of(watch)
    ears, others = Ears(), Ears()
    assert threads() == 0
    observer.listen(ears)
    observer.listen(others)
    assert watch.looks >= 1
    observer.leave(ears)
    assert threads() == 1
    observer.leave(others)
    wait_for(lambda: threads() == 0, "the thread has ended")
    looks = watch.looks

    watch.seen = [Seen(({"what": "happened meanwhile"},))]
    observer.listen(ears)
    observer.close()

    assert watch.looks > looks
    assert told(observer) == ["kind-0"]


def test_listeners_are_woken_when_there_is_something() -> None:
    """And not when there is nothing."""
    watch, ears = Scripted(), Ears()
    observer = observer_of(watch)
    observer.listen(ears)
    assert ears.woken == 0
    watch.seen.append(Seen(({}, {})))
    wait_for(lambda: ears.woken == 1, "it is woken")
    observer.close()

    assert told(observer) == ["kind-0", "kind-0"]


def test_what_a_watch_has_lost_is_a_resync() -> None:
    """Whoever listens must look anew, for nobody knows what was missed."""
    observer = observer_of(Scripted([Seen(), Seen(lost="the clock was set back")]))
    observer.listen(Ears())
    wait_for(lambda: observer.log.head, "it is told")
    observer.close()

    (event,) = observer.log.after(0, 10)
    assert event.kind == "resync"
    assert b"the clock was set back" in event.frame


def test_a_fault_of_one_watch_does_not_keep_the_others() -> None:
    """It is said once; what could not be watched from the beginning is told as a resync when it can."""
    said: list[str] = []
    bad = Scripted([UnsafePath("/a/b", "it is a link"), UnsafePath("/a/b", "it is a link"), Seen(({"first": 1},))])
    observer = observer_of(bad, Scripted([Seen(), Seen(({},))]), said=said)
    observer.listen(Ears())
    wait_for(lambda: observer.log.head == 3, "all is told")
    observer.close()

    assert sorted(told(observer)) == ["kind-0", "kind-1", "resync"]
    assert told(observer).index("resync") < told(observer).index("kind-0")
    assert len(said) == 1


def test_a_fault_of_ours_ends_no_stream() -> None:
    """Whatever a look raises or sees: it is said, and who listens looks anew when the next one is well."""
    said: list[str] = []
    odd = Seen(({"what": object()},))
    observer = observer_of(Scripted([Seen(), ValueError("a surprise"), odd, Seen(({"next": 1},))]), said=said)
    observer.listen(Ears())
    wait_for(lambda: "kind-0" in told(observer), "the next one is told")
    observer.close()

    assert told(observer) == ["resync", "resync", "kind-0"]
    assert [one.partition("(")[0] for one in said] == ["kind-0: ValueError", "kind-0: TypeError"]


def test_a_store_that_does_not_answer_does_not_keep_the_queue() -> None:
    """Each has a thread of its own: missions are told while a database is away."""
    stuck, let_go = threading.Event(), threading.Event()

    class Stuck(Scripted):
        def look(self) -> Seen:
            if self.looks:
                stuck.set()
                let_go.wait(PATIENCE)
            return super().look()

    queue = Scripted()
    groups = [
        Group("store", (Source("item", Stuck(), 0.0),), no_hint),
        Group("queue", (Source("mission", queue, 0.0),), no_hint),
    ]
    observer = Observer(EventLog("0a"), groups, lambda _: None)
    observer.listen(Ears())
    assert stuck.wait(PATIENCE)
    queue.seen.append(Seen(({},)))
    wait_for(lambda: observer.log.head, "the mission is told")
    let_go.set()
    observer.close()

    assert told(observer) == ["mission"]


def test_after_an_outage_nothing_is_missed() -> None:
    """A watch that has begun compares with what it knew."""
    away = StoreUnavailable("the store", "it is away")
    observer = observer_of(Scripted([Seen(), away, away, Seen(({"what": "happened meanwhile"},))]))
    observer.listen(Ears())
    wait_for(lambda: observer.log.head, "it is told")
    observer.close()

    assert told(observer) == ["kind-0"]


def test_who_comes_while_the_store_is_away_is_told_so() -> None:
    """No stream begins that could not know what happens."""
    away = StoreUnavailable("the store", "it is away")
    observer = observer_of(Scripted([away] * 1000))

    with pytest.raises(StoreUnavailable):
        observer.listen(Ears())

    assert observer.listeners == 0
    wait_for(lambda: threads() == 0, "the thread has ended")


CHANGES = """
import sys, time
from kranzq import queue, work
from kranzq.model.checkout import Checkout
from kranzq.testing.items import item
url, root = sys.argv[1:]
store = work.open(url)
for line in sys.stdin:
    word, name = line.split()
    if word == "enqueue":
        store.enqueue(item(name))
    elif word == "claim":
        store.claim(work.Holder(name))
    elif word == "presence":
        store.presence.put(work.NewPresence(work.Holder(name), work.subject_of(topic="a topic of some length")))
    else:
        queue.enqueue(Checkout(root, has_git=False), name)
    print(time.monotonic(), flush=True)
"""
"""Another process: it does what it is told, and says when that was done by the one clock of the machine."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each engine."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite://{tmp_path}/work.db"


@pytest.fixture
def store(url: str) -> Iterator[SharedStore]:
    """It, opened by this process."""
    with work.open(url) as found:
        yield found


def test_what_another_process_changes_is_told_within_half_a_second(
    url: str, store: SharedStore, tmp_path: Path
) -> None:
    """Items that come and are claimed, presence, missions: whether the store gives a hint of it or not."""
    make_queue(tmp_path).close()
    items, presence = watching.store_looks(store).items(), PresenceWatch(store.presence)
    missions = watching.mission_watch(Checkout(str(tmp_path), has_git=False))
    log, woken = EventLog("0a"), list[tuple[float, int]]()
    groups = [
        Group("store", (Source("item", items, 0.25), Source("presence", presence, 0.25)), store.wait_for_work),
        Group("queue", (Source("mission", missions, 0.0),), no_hint),
    ]
    observer = Observer(log, groups, lambda _: None)
    observer.listen(lambda: woken.append((time.monotonic(), log.head)))
    delays: dict[str, list[float]] = {}
    with subprocess.Popen(
        [sys.executable, "-c", CHANGES, url, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for number, word in itertools.product(range(3), ("enqueue", "claim", "presence", "mission")):
            before = log.head
            print(word, f"name-{number}", file=other.stdin, flush=True)
            done = float(other.stdout.readline())
            when = wait_for(
                lambda before=before: [at for at, head in woken if head > before],  # type: ignore[misc]
                f"{word} is told",
            )
            delays.setdefault(word, []).append(max(0.0, when[0] - done))
        other.stdin.close()
    observer.close()

    assert [one.kind for one in log.after(0, 100)] == ["item", "item", "presence", "mission"] * 3
    assert all(min(each) < 0.5 for each in delays.values()), delays


def test_a_claim_that_expires_is_told(store: SharedStore) -> None:
    """Nobody does anything at that moment."""
    watch = PresenceWatch(store.presence)
    watch.look()
    put = store.presence.put(work.NewPresence(HOLDER, work.subject_of(topic="a topic of some length")))
    assert [one["state"] for one in watch.look().changes] == ["claimed"]
    assert watch.look() == Seen()
    renewed = store.presence.put(work.NewPresence(HOLDER, work.subject_of(topic="a topic of some length"), minutes=300))
    (told_again,) = watch.look().changes
    assert (told_again["id"], told_again["expires_at"]) == (put.claim.id, renewed.claim.expires_at)
    store.presence.release(HOLDER)

    (gone,) = watch.look().changes
    assert (gone["id"], gone["state"]) == (put.claim.id, "gone")


def test_closing_ends_it_whoever_listens() -> None:
    """A server that ends does not wait for listeners."""
    observer = observer_of(Scripted())
    observer.listen(Ears())
    observer.close()

    wait_for(lambda: threads() == 0, "the thread has ended")
