"""Live events of a real server: everything that anybody changes, once, whatever was cut, and an end when it ends."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq import queue as library
from kranzq import work
from kranzq.backend.presence import SharedStore
from kranzq.model.checkout import Checkout
from kranzq.server.event_stream import MOST_WAITING
from kranzq.testing.items import given, item
from kranzq.testing.store import HOLDER
from tests.laboratory import wait_for
from tests.servers import Served
from tests.streams import Stream

LONG = "x" * 1000
IMPATIENT = """
import sys
from kranzq.server.service import Limits
from tests import hurried_server
hurried_server.LIMITS = Limits(stalled_s=3.0)
hurried_server.main(sys.argv[-1])
"""
"""A server that has little patience with whoever does not read, and the usual one with all others."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server in a checkout of its own, which has little patience with clients that do not read."""
    folder = tmp_path_factory.mktemp("events")
    (folder / "checkout" / ".kranz" / "queue").mkdir(parents=True)
    one = Served(folder, cwd=folder / "checkout", program=("-c", IMPATIENT))
    try:
        one.start()
        yield one
    finally:
        one.kill()


@pytest.fixture
def store(served: Served) -> Iterator[SharedStore]:
    """The store as another process has it: this one."""
    with work.open(served.url) as found:
        yield found


@pytest.fixture
def repo(served: Served, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """The checkout, for the user whose server it is."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, served.environ[name])
    return Checkout(os.path.realpath(served.cwd), has_git=False)


def mine(stream: Stream, *names: str) -> list[tuple[str, str]]:
    """What a stream told of these items."""
    return [one for one in stream.item_states() if one[0] in names]


def seen(stream: Stream, name: str, state: str) -> None:
    """Wait until a stream told that an item is in a state."""
    wait_for(lambda: (name, state) in stream.item_states(), f"{name} is {state}: {stream.events[-3:]}")


def nobody_listens(served: Served) -> None:
    """Wait until the server looks no more, for its last stream has ended."""
    wait_for(lambda: not looks(served), "it looks no more")


def looks(served: Served) -> bool:
    """Whether the server looks at what changes."""
    return b"kranzq_observer_runs 1.0" in served.ask("GET", "/metrics").raw


def test_a_stream_begins_with_what_there_is(served: Served, store: SharedStore) -> None:
    """Counts of items, missions and presence claims, with the place from which one reads on, and when to come again."""
    store.enqueue(item("there before"))
    with Stream(served) as stream:
        (snapshot,) = stream.until("snapshot")

    assert stream.type == "text/event-stream; charset=utf-8"
    assert stream.retries == ["1000"]
    assert stream.events[0].id.startswith(snapshot["boot"])
    assert snapshot["work"]["states"]["open"] >= 1
    assert snapshot["missions"]["queued"] == 0
    assert snapshot["presence"] == 0


def test_what_other_processes_change_is_told(served: Served, store: SharedStore, repo: Checkout) -> None:
    """Items, missions and presence, whoever wrote to the store or the queue, and soon."""
    with Stream(served) as stream:
        stream.until("snapshot")
        store.enqueue(item("of another"))
        seen(stream, "of another", "open")
        store.cancel("of another")
        seen(stream, "of another", "cancelled")
        library.enqueue(repo, "mission-1")
        wait_for(lambda: [one["state"] for one in stream.of("mission")] == ["queued"], "the mission is queued")
        library.remove(repo, "mission-1")
        wait_for(lambda: [one["state"] for one in stream.of("mission")] == ["queued", "gone"], "the mission is gone")
        subject = work.subject_of(repo="owner/name")
        store.presence.put(work.NewPresence(HOLDER, subject, note="a note"))
        wait_for(lambda: [one["state"] for one in stream.of("presence")] == ["claimed"], "the claim is there")
        store.presence.release(HOLDER)
        wait_for(lambda: [one["state"] for one in stream.of("presence")][-1:] == ["gone"], "the claim is gone")
        delays = []
        for number in range(5):
            store.enqueue(item(f"timed-{number}"))
            began = time.monotonic()
            seen(stream, f"timed-{number}", "open")
            delays.append(time.monotonic() - began)

    assert min(delays) < 0.5, delays


def test_b84_no_text_ends_a_frame(served: Served, store: SharedStore) -> None:
    """B84: ends of lines of all kinds, of frames and of fields stay inside the data, and the next event is whole."""
    hostile = "a\n\nevent: bye\ndata: {}\r\n\rid: 1\x85\u2028\u2029</script>\x00".replace("\x00", "")
    with Stream(served) as stream:
        stream.until("snapshot")
        store.enqueue(item("hostile", title=hostile, kind=hostile[:40]))
        store.enqueue(item("after hostile"))
        seen(stream, "hostile", "open")  # of one and the same millisecond either may be told first
        seen(stream, "after hostile", "open")

    assert [one["title"] for one in stream.of("item") if one["id"] == "hostile"] == [hostile]
    assert not stream.of("bye")


def test_b88_a_gap_is_told_once(served: Served, store: SharedStore) -> None:
    """B88: what happened while nobody listened comes when the client comes again, and nothing of what it had."""
    names = [f"gap-{number}" for number in range(5)]
    store.enqueue_many([item(name, kind="gap") for name in names])
    with Stream(served) as stream:
        stream.until("snapshot")
        store.enqueue(item("before the cut"))
        seen(stream, "before the cut", "open")
        place = stream.place
    nobody_listens(served)  # or the claim below might be told as well, between its beginning and its end
    for name in names[:3]:
        store.cancel(name)
    claim = given(store.claim(HOLDER, work.Wanted(frozenset({names[3]}))))
    store.finish(work.Held(claim.id, claim.attempt, HOLDER))
    store.enqueue(item("during the cut"))

    with Stream(served, last=place) as again:
        seen(again, "during the cut", "open")
        store.enqueue(item("after the cut"))
        seen(again, "after the cut", "open")

    assert not again.of("snapshot")
    assert not again.of("resync")
    told = mine(again, *names, "before the cut", "during the cut", "after the cut")
    expected = [(name, "cancelled") for name in names[:3]] + [(names[3], "done")]
    assert sorted(told) == sorted([*expected, ("during the cut", "open"), ("after the cut", "open")])


def test_b88_a_gap_is_told_to_each_that_comes_again(served: Served, store: SharedStore) -> None:
    """B88: a second one that had the same place gets the same, and a place in the middle gets the rest."""
    with Stream(served) as stream:
        stream.until("snapshot")
        place = stream.place
        store.enqueue(item("first"))
        seen(stream, "first", "open")
        middle = stream.place
        store.enqueue(item("second"))
        seen(stream, "second", "open")

    with Stream(served, last=place) as one, Stream(served, last=middle) as other:
        seen(one, "second", "open")
        seen(other, "second", "open")

    assert mine(one, "first", "second") == [("first", "open"), ("second", "open")]
    assert mine(other, "first", "second") == [("second", "open")]


@pytest.mark.parametrize(
    "last", ["garbage", "0123456789abcdef-1", "FUTURE", "-1", "1", "BOOT-01x", "BOOT--1", "BOOT-9999999999999999999999"]
)
def test_b88_from_an_id_that_is_none_one_looks_anew(served: Served, last: str) -> None:
    """B88: garbage, another start of the server, the future: one `resync`, then what there is."""
    with Stream(served) as stream:
        stream.until("snapshot")
    boot = stream.place.partition("-")[0]
    with Stream(served, last=last.replace("FUTURE", f"{boot}-99999").replace("BOOT", boot)) as again:
        again.until("snapshot")

    assert [one.kind for one in again.events[:2]] == ["resync", "snapshot"]
    assert again.events[0].data["why"]


def test_more_than_a_client_may_have_waiting_is_one_resync(served: Served, store: SharedStore) -> None:
    """A burst is told as `resync` and a new snapshot, from which the client reads on."""
    with Stream(served) as stream:
        stream.until("snapshot")
        store.enqueue_many([item(f"burst-{number}") for number in range(2 * MOST_WAITING)])
        stream.until("resync")
        stream.until("snapshot", 2)
        store.enqueue(item("after the burst"))
        seen(stream, "after the burst", "open")

    assert len(stream.of("snapshot")) == len(stream.of("resync")) + 1


def test_a_client_that_does_not_read_is_cut_and_others_do_not_wait(served: Served, store: SharedStore) -> None:
    """What it does not take is not kept for it; after a while its connection is closed."""
    with Stream(served, reads=False) as asleep, Stream(served) as awake:
        awake.until("snapshot")
        for batch in range(6):
            names = [f"much-{batch}-{number}" for number in range(MOST_WAITING // 2)]
            store.enqueue_many([item(name, title=LONG) for name in names])
            seen(awake, names[-1], "open")

        wait_for(lambda: served.ask("GET", "/metrics").raw.count(b"kranzq_event_streams 1.0"), "the other one is cut")
        wait_for(asleep.is_cut, "its connection is closed")
        assert not awake.is_over


def test_a_head_is_answered_without_a_stream(served: Served) -> None:
    """Whoever asks for the head alone would wait for ever."""
    assert served.ask("HEAD", "/v1/events").status == 200


def test_nothing_runs_when_nobody_listens(served: Served) -> None:
    """The thread that looks ends with the last stream."""
    with Stream(served) as stream:
        stream.until("snapshot")
        wait_for(lambda: looks(served), "it looks")

    nobody_listens(served)


def test_b86_open_streams_do_not_keep_the_server(tmp_path: Path) -> None:
    """B86: with three open, one of which does not read, it ends within two seconds, and another takes its place."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    one = Served(tmp_path, ("--listen", f"127.0.0.1:{port}"), cwd=tmp_path)
    try:
        one.start()
        with work.open(one.url) as store, Stream(one) as first, Stream(one) as second, Stream(one, reads=False):
            first.until("snapshot")
            second.until("snapshot")
            for batch in range(6):
                store.enqueue_many([item(f"{batch}-{number}", title=LONG) for number in range(MOST_WAITING // 2)])
                seen(first, f"{batch}-{MOST_WAITING // 2 - 1}", "open")
            began = time.monotonic()
            assert one.stop(signal.SIGTERM) == 0
            took = time.monotonic() - began
            for stream in (first, second):
                wait_for(lambda stream=stream: stream.is_over, "the stream has ended")  # type: ignore[misc]
                assert stream.events[-1].kind == "bye"
                assert len(stream.retries) == 2
            place = first.place
        one.start()
        with Stream(one, last=place) as again:
            again.until("snapshot")
        code = one.stop(signal.SIGINT)
    finally:
        one.kill()

    assert took < 2
    assert [told.kind for told in again.events[:2]] == ["resync", "snapshot"]
    assert code == 0
