"""The client's readers of live events at a real server: over its death, its restart, and the end of a token."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq import work
from kranzq.client import AsyncClient, Client, LiveEvent, RemoteMissions
from kranzq.errors import Refused
from tests.laboratory import PATIENCE, REPO, wait_for
from tests.servers import Served


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Served]:
    """A server in a checkout."""
    (tmp_path / "checkout" / ".kranz" / "queue").mkdir(parents=True)
    one = Served(tmp_path, ("--listen", "127.0.0.1:0"), cwd=tmp_path / "checkout")
    try:
        one.start()
        yield one
    finally:
        one.kill()


def until(events: Iterator[LiveEvent], kind: str) -> LiveEvent:
    """The next event of a kind."""
    return next(one for one in events if one.kind == kind)


def test_what_happens_is_read_over_a_death_of_the_server(server: Served) -> None:
    """A snapshot, items and missions as they change; after a restart it is told that something may be missed."""
    with Client(f"unix:{server.socket}") as client, contextlib.closing(client.events(patience_s=60)) as events:
        assert next(events).kind == "snapshot"
        with work.open(server.url) as store:
            made = store.enqueue(work.NewItem("t", "p")).entry.id
        told = until(events, "item")
        assert (told.data["id"], told.data["state"]) == (made, "open")
        RemoteMissions(client).enqueue({"mission": "m1", "command": ["true"]})
        assert until(events, "mission").data["mission"] == "m1"

        server.kill()
        server.start()
        assert until(events, "resync").data["why"]
        assert until(events, "snapshot").data["missions"]["queued"] == 1
        with work.open(server.url) as store:
            store.cancel(made)
        assert until(events, "item").data["state"] == "cancelled"

    with Client(f"unix:{server.socket}") as client, contextlib.closing(client.events(last=told.id)) as events:
        assert next(events).kind == "resync"


def test_what_was_missed_between_two_readers_comes_first(server: Served) -> None:
    """Once, and nothing of before; on a loop as in a thread."""

    async def story(last: str) -> list[LiveEvent]:
        async with AsyncClient(f"unix:{server.socket}") as client:
            async with contextlib.aclosing(client.events(last)) as events:
                return [await anext(events)]

    with Client(f"unix:{server.socket}") as client:
        with contextlib.closing(client.events()) as keeps, work.open(server.url) as store:
            next(keeps)  # while somebody listens, the server looks at each change
            store.enqueue(work.NewItem("t", "first"))
            first = until(keeps, "item")
            second = store.enqueue(work.NewItem("t", "second")).entry.id
            assert until(keeps, "item").data["id"] == second
        with contextlib.closing(client.events(first.id)) as again, work.open(server.url) as store:
            third = store.enqueue(work.NewItem("t", "third")).entry.id
            found = [until(again, "item") for _ in range(2)]
            assert [one.data["id"] for one in found] == [second, third]
    (missed,) = asyncio.run(story(found[0].id))
    assert missed.data["id"] == third


def test_a_reader_whose_token_is_revoked_is_refused(server: Served) -> None:
    """The stream ends, and the next one is not opened."""
    token = server.agent("ann")
    with Client(f"http://{server.address}", token) as client, contextlib.closing(client.events()) as events:
        assert next(events).kind == "snapshot"
        with work.open(server.url) as store:
            store.agents.revoke(store.agents.named("ann")[0].uid)
            store.enqueue(work.NewItem("t", "p"))
            each = (store.enqueue(work.NewItem("t", "p")) for _ in events)  # it is looked at again for a later event
            with pytest.raises(Refused, match="takes no call without a token"):
                list(each)


def test_a_log_is_followed_while_it_grows(server: Served, tmp_path: Path) -> None:
    """By a program on a loop, piece by piece, until the run has ended."""
    go = tmp_path / "go"
    with Client(f"unix:{server.socket}") as client:
        command = ["sh", "-c", f"echo one; until [ -e {go} ]; do sleep 0.02; done; echo two"]
        RemoteMissions(client).enqueue({"mission": "m1", "command": command})
        argv = [sys.executable, "-m", "kranzq", "-C", str(server.cwd), "drain"]
        drain = subprocess.Popen(argv, cwd=REPO, env=server.environ, stdin=subprocess.DEVNULL)
        wait_for(lambda: server.ask("GET", "/v1/missions/m1/log").raw == b"one\n", "it runs")

    async def story() -> bytes:
        said = b""
        async with AsyncClient(f"unix:{server.socket}") as client:
            async for piece in client.follow("m1"):
                said += piece.data
                if said == b"one\n":
                    go.touch()
            assert (await client.log("m1", offset=-4)).data == b"two\n"
        return said

    assert asyncio.run(story()) == b"one\ntwo\n"
    assert drain.wait(PATIENCE) == 0
