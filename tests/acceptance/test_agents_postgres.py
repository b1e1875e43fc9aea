"""Agents that share one PostgreSQL: each item once, also over a server that goes away and comes back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import postgres
from tests.agents import Agents
from tests.laboratory import PATIENCE, listens, wait_for
from tests.scenes import passes

pytestmark = pytest.mark.slow


@pytest.fixture
def agents(tmp_path: Path, isolated: Path) -> Iterator[Agents]:
    """Agents of the test's own; which database they use is said by a variable."""
    with Agents(tmp_path / "notes") as one:
        yield one


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[postgres.Server]:
    """A server that the test may kill, and which all agents use."""
    if not postgres.has_binaries():
        pytest.skip(postgres.MISSING)
    with postgres.running() as one:
        monkeypatch.setenv("KRANZQ_WORK_URL", one.url())
        yield one


def at_work(agents: Agents, *, lease: str) -> subprocess.Popen[bytes]:
    """An agent whose command runs with item `one`, until it is released."""
    agents.run("enqueue", "--id", "one", "--title", "t", "--payload", "p")
    agent = agents.start("--lease", lease, "--exec", *agents.alone("one", 600))
    wait_for(lambda: agents.told("start", "one"), f"it runs: {agents.log()}")
    return agent


@pytest.mark.race
def test_each_item_goes_to_one_of_them(agents: Agents, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three agents, as on three machines, work off what lies there; every item is run once."""
    monkeypatch.setenv("KRANZQ_WORK_URL", postgres_url)
    lines = [f'{{"title": "t{number}", "payload": "p", "id": "i{number}"}}' for number in range(12)]
    agents.run("enqueue", "--batch", "-", input="\n".join(lines))
    script = f'echo "$KRANZ_ITEM_ID" >> {agents.notes}/ran'
    started = [
        agents.start("--forever", "--exec", "sh", "-c", script, env={"KRANZQ_AGENT": f"agent-{number}"})
        for number in range(3)
    ]
    wait_for(lambda: agents.ask("stats")["states"]["done"] == 12, f"all are done: {agents.log()}")
    wait_for(lambda: all(listens(one.pid) for one in started), "the last one has begun, perhaps when all was done")
    for one in started:
        one.terminate()

    assert [one.wait(PATIENCE) for one in started] == [0, 0, 0]
    assert sorted((agents.notes / "ran").read_text().split()) == sorted(f"i{number}" for number in range(12))


@pytest.mark.crash
def test_what_cannot_be_handed_in_is_handed_in_later(agents: Agents, server: postgres.Server) -> None:
    """The server is gone as the command ends: its agent says so, waits, and hands in when the server is back."""
    agent = at_work(agents, lease="60s")
    server.kill()
    (agents.notes / "release").touch()
    wait_for(lambda: "cannot be handed in yet" in agents.log(), f"it says so: {agents.log()}")
    server.start()

    assert agent.wait(60) == 0, agents.log()
    assert agents.item("one")["state"] == "done"
    assert agents.attempts("one") == ["done"]


@pytest.mark.crash
@pytest.mark.timeout(120)
def test_b66_a_server_that_is_away_for_half_a_lease_costs_no_run(agents: Agents, server: postgres.Server) -> None:
    """Renewals fail meanwhile and are tried again; when it is back the lease is confirmed, and the work goes on."""
    agent = at_work(agents, lease="24s")
    began = time.monotonic()
    server.kill()
    passes(began + 10 - time.monotonic())  # a renewal was due and failed
    server.start()
    passes(began + 25 - time.monotonic())  # the lease that it began with is over
    (agents.notes / "release").touch()

    assert agent.wait(60) == 0, agents.log()
    assert agents.told("start", "one") == 1
    assert agents.attempts("one") == ["done"]


@pytest.mark.crash
@pytest.mark.timeout(120)
def test_b67_a_server_that_stays_away_ends_the_command_in_time(agents: Agents, server: postgres.Server) -> None:
    """Nobody can tell any more whose item it is: the command is gone before the lease is over."""
    agent = at_work(agents, lease="16s")
    tree = agents.tree(agent)
    began = time.monotonic()
    server.kill()
    wait_for(lambda: len(agents.tree_now(agent)) == 0, f"it is ended: {tree}")
    assert time.monotonic() - began < 16 + 2, "renewed at most once since, and ended within the lease"
    server.start()

    assert agent.wait(60) == 75, agents.log()
    assert agents.item("one")["declined"] == 1
