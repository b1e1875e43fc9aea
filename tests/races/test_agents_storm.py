"""Agents that are killed, stopped and frozen at random: no item runs twice at once, none is lost, each is done once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import Agents
from tests.laboratory import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.race]
ITEMS, AGENTS = 12, 3
STORM_S = float(os.environ.get("KRANZQ_STORM_SECONDS", "8"))
LEASE = "4s"
"""Long enough for a loaded machine to renew in time, shorter than the long commands that killed agents leave."""
LONG_S, SHORT_S = 7, 0.3


@pytest.fixture
def agents(tmp_path: Path, isolated: Path) -> Iterator[Agents]:
    """A queue of the test's own."""
    with Agents(tmp_path / "notes") as one:
        yield one


def told(agents: Agents, name: str) -> list[str]:
    """What the commands of one item told."""
    path = agents.notes / name / "told"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.timeout(240 + STORM_S)
def test_a_storm_of_kills_runs_no_item_twice_at_once(agents: Agents) -> None:
    """SIGKILL, SIGTERM once and twice, SIGSTOP for longer than a lease: whoever comes after it finds all in order."""
    names = [f"i{number}" for number in range(ITEMS)]
    for name in names:
        (agents.notes / name).mkdir()
    lines = [{"id": name, "title": "t", "payload": "p", "max_attempts": 1000} for name in names]
    agents.run("enqueue", "--batch", "-", input="\n".join(map(json.dumps, lines)))
    program = (
        f"case $KRANZ_ITEM_ID in *[02468]) s={SHORT_S};; *) s={LONG_S};; esac; "
        f'exec {sys.executable} -I -S {agents.notes}/alone.py "{agents.notes}/$KRANZ_ITEM_ID" x $s 0'
    )
    chance, running, frozen = random.Random(), [], dict[subprocess.Popen[bytes], float]()

    def begin() -> None:
        name = f"agent-{len(agents.started)}"
        words = ("--forever", "--lease", LEASE, "--exec", "sh", "-c", program)
        running.append(agents.start(*words, env={"KRANZQ_AGENT": name}))

    def strike() -> None:
        victim = chance.choice(running)
        match chance.choice(["kill", "kill", "term", "freeze", "freeze"]):
            case "kill":
                victim.kill()
            case "term":
                victim.terminate()
            case "freeze" if victim not in frozen:
                victim.send_signal(signal.SIGSTOP)
                frozen[victim] = time.monotonic() + chance.uniform(0.5, 7)

    until = time.monotonic() + STORM_S
    while (now := time.monotonic()) < until:
        for one in [one for one, end in frozen.items() if end < now]:
            one.send_signal(signal.SIGCONT)
            del frozen[one]
        running[:] = [one for one in running if one.poll() is None]
        while len(running) - len(frozen) < AGENTS and len(running) < 2 * AGENTS:
            begin()
        _wait_until(now + chance.uniform(0.2, 1.0))
        strike()
    for one in frozen:
        one.send_signal(signal.SIGCONT)
    begin()
    wait_for(
        lambda: agents.ask("stats")["states"]["done"] == ITEMS, f"all are done: {agents.log()[-3000:]}", seconds=120
    )

    assert [line for name in names for line in told(agents, name) if line.startswith("overlap")] == []
    for name in names:
        assert agents.attempts(name).count("done") == 1, agents.ask("show", name)
        assert told(agents, name).count("end x") >= 1, "what is done has come to its end"


def _wait_until(moment: float) -> None:
    wait_for(lambda: time.monotonic() > moment, "the next strike")
