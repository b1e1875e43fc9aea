"""Every verb that changes the work queue, presence or the agents, with the database of one user."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.proof.scenario import FAR, Scenario, World, nothing

_LONG = "x" * 9000


def items(world: World) -> None:
    """Items in every state: two claimed, one lapsed, one overdue, one done, three open, and what presence has."""
    lines = [{"id": name, "title": name, "payload": "do"} for name in ("c-1", "c-2", "lapsed", "done", "overdue")]
    lines += [{"id": f"o-{number}", "title": f"o {number}", "payload": _LONG} for number in range(3)]
    batch = world.folder / "home" / "batch"
    batch.write_text("".join(json.dumps(line) + "\n" for line in lines))
    world.run("work", "enqueue", "--batch", str(batch))
    for name in ("c-1", "c-2", "lapsed", "done", "overdue"):
        world.run("work", "claim", "--id", name, "--lease", "1h")
    world.run("work", "complete", "done", "--attempt", "1", "--result", "fine")
    _is_over(world, "lapsed")
    world.run("work", "recover")
    _is_over(world, "overdue")
    world.run("presence", "claim", "src", "--repo", "hub.example/o/r", "--note", "one")
    world.run("presence", "claim", "--topic", "another")
    world.run("agent", "add", "bob", "--uid", "u-bob", "--group", "team")


def _is_over(world: World, item: str) -> None:
    """A lease that ended by the store's own clock, without waiting for that."""
    with contextlib.closing(sqlite3.connect(world.database)) as connection, connection:
        assert connection.execute("update kranzq_items set lease_ends = 1 where id = ?", (item,)).rowcount == 1


def more(*steps: tuple[str, ...]) -> Callable[[World], None]:
    """The same, and what some verbs make of it."""

    def build(world: World) -> None:
        items(world)
        for step in steps:
            world.run(*step)

    return build


def batch(world: World) -> None:
    """The same, and a file with three more items."""
    items(world)
    lines = [{"id": f"n-{number}", "title": f"n {number}", "payload": _LONG} for number in range(3)]
    (world.folder / "home" / "batch").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _sql(
    name: str, *argv: str, build: Callable[[World], None] = items, again: int | None = 0, code: int = 0
) -> Scenario:
    return Scenario(name, argv, build, code=code, kind="sql", again=again)


def _work() -> Iterator[Scenario]:
    yield _sql("work first", "work", "enqueue", "--title", "n", "--payload", "do", "--id", "n-1", build=nothing)
    yield _sql("work enqueue", "work", "enqueue", "--title", "n", "--payload", _LONG, "--id", "n-1", "--key", "k")
    yield _sql(
        "work enqueue delayed", "work", "enqueue", "--title", "n", "--payload", "do", "--id", "n-1", "--not-before", FAR
    )
    yield _sql("work enqueue batch", "work", "enqueue", "--batch", "{notes}/../home/batch", build=batch)
    yield _sql("work claim", "work", "claim", "--request-id", "r-1")
    yield _sql("work claim lapsed", "work", "claim", "--id", "lapsed", "--request-id", "r-1")
    yield _sql("work claim many", "work", "claim", "--count", "3", again=None)
    yield _sql("work heartbeat", "work", "heartbeat", "lapsed", "--attempt", "1", "--lease", "1h")
    yield _sql("work complete", "work", "complete", "c-1", "--attempt", "1", "--result", _LONG)
    yield _sql("work fail", "work", "complete", "c-1", "--attempt", "1", "--failed")
    yield _sql("work release", "work", "release", "c-1", "--attempt", "1", "--reason", "why not")
    yield _sql("work decline", "work", "release", "c-1", "--attempt", "1", "--declined", "--delay", "1h")
    yield _sql("work cancel", "work", "cancel", "c-1", "--reason", "no")
    yield _sql("work recover", "work", "recover")
    yield _sql("work prune", "work", "prune", "--older-than", "0s")
    claim = ("work", "claim", "--id", "o-0")
    half = (*claim, "--request-id", "00000000-0000-4000-8000-000000000000")
    yield replace(_sql("work exec", *claim, "--exec", "sh", "-c", "exit 0", again=None), half=half)


def _beside() -> Iterator[Scenario]:
    src = ("presence", "claim", "src", "--repo", "hub.example/o/r")
    yield _sql("presence first", *src, build=nothing)
    yield _sql("presence claim", "presence", "claim", "--topic", "new", "--note", "n")
    yield _sql("presence renew", *src, "--note", "two")
    yield _sql("presence release", "presence", "release", "--all")
    yield _sql("agent add", "agent", "add", "eve", "--uid", "u-eve", "--quiet", again=None)
    file = ("--token-file", "{notes}/../home/token")
    yield _sql("agent add file", "agent", "add", "eve", "--uid", "u-eve", *file, again=None)
    yield _sql("agent rotate", "agent", "rotate", "bob", "--quiet")
    yield _sql("agent rotate file", "agent", "rotate", "bob", *file)
    yield _sql("agent revoke", "agent", "revoke", "bob", again=None)
    yield _sql("operator key", "agent", "key")
    yield _sql("operator key anew", "agent", "key", "--rotate", build=more(("agent", "key")))
    yield _sql("migrate", "schema", "migrate", build=old_schema)


def old_schema(world: World) -> None:
    """The same, at the schema before the newest."""
    items(world)
    with contextlib.closing(sqlite3.connect(world.database)) as connection, connection:
        connection.execute("drop table kranzq_agents")
        connection.execute("delete from kranzq_schema where version = 3")


WORK: tuple[Scenario, ...] = (*_work(), *_beside())
"""In the order of the command line's page."""
