"""An agent in one line of shell: `work claim --exec`, with real commands, real signals and real kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents import KRANZQ, Agents, send
from tests.laboratory import PATIENCE, is_alive, listens, wait_for
from tests.scenes import passes

pytestmark = pytest.mark.slow


@pytest.fixture
def agents(tmp_path: Path, isolated: Path) -> Iterator[Agents]:
    """A queue of the test's own."""
    with Agents(tmp_path / "notes") as one:
        yield one


def enqueue(agents: Agents, name: str = "one", *more: str, payload: str = "do it") -> None:
    """One item under an id that the test knows."""
    agents.run("enqueue", "--id", name, "--title", f"title of {name}", "--payload", payload, *more)


def test_a_command_gets_the_payload_and_its_last_words_become_the_result(agents: Agents) -> None:
    """On its input and as a file; what it prints is shown as it is, and kranzq's own words are on stderr."""
    enqueue(agents, payload="the päylöad\nof two lines")
    done = agents.run(
        "claim", "--exec", "sh", "-c", 'cat; echo; cmp - "$KRANZ_ITEM_PAYLOAD" < "$KRANZ_ITEM_PAYLOAD"; echo end'
    )

    assert done.stdout == "the päylöad\nof two lines\nend\n"
    assert "one: done" in done.stderr
    item = agents.item("one")
    assert (item["state"], item["result"]) == ("done", "the päylöad\nof two lines\nend")


def test_what_a_command_is_told_and_what_is_kept_from_it(agents: Agents, isolated: Path) -> None:
    """Its item's facts, but no secret of kranzq and nothing of where somebody found a repository."""
    database = f"sqlite://{isolated}/work.db"
    agents.run(
        "enqueue", "--url", database, "--id", "one", "--title", "t; $(x) \x1b[31m", "--payload", "p", "--kind", "k"
    )
    env = {
        "GIT_DIR": "/nowhere",
        "KRANZQ_WORK_URL": "postgresql://me:s3cr3t@nowhere/none",
        "KRANZQ_SERVER_TOKEN": "s3cr3t",
        "KRANZQ_AGENT": "worker",
        "KRANZ_ITEM_ID": "of another item",
        "OTHER": "stays",
    }
    done = agents.run("claim", "--url", database, "--exec", "env", env=env)

    told = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert "s3cr3t" not in done.stdout + done.stderr
    assert "GIT_DIR" not in told
    assert told["OTHER"] == "stays"
    assert told["KRANZQ_WORK_URL"] == database, "what it enqueues itself goes where it came from"
    assert {key: told[key] for key in told if key.startswith(("KRANZ_ITEM_", "KRANZQ_AGENT"))} == {
        "KRANZQ_AGENT": "worker",
        "KRANZQ_AGENT_UID": "",
        "KRANZ_ITEM_ID": "one",
        "KRANZ_ITEM_ATTEMPT": "1",
        "KRANZ_ITEM_TITLE": "t; $(x) \x1b[31m",
        "KRANZ_ITEM_KIND": "k",
        "KRANZ_ITEM_PAYLOAD": told["KRANZ_ITEM_PAYLOAD"],
    }
    assert "\x1b" not in done.stderr
    assert not Path(told["KRANZ_ITEM_PAYLOAD"]).exists(), "its folder goes with it"


@pytest.mark.parametrize(
    ("script", "flags", "code", "state", "ended", "reason"),
    [
        ("exit 0", [], 0, "done", "done", ""),
        ("echo tried; exit 7", [], 1, "open", "released", "exit code 7: tried"),
        ("kill -9 $$", [], 1, "open", "released", "killed by signal 9"),
        ("echo busy; exit 75", [], 75, "delayed", "declined", "exit code 75: busy"),
        ("echo tried; exit 7", ["--fail-on-error"], 1, "failed", "failed", ""),
        ("exec sleep 1000", ["--timeout", "0.2"], 1, "open", "released", "It ran longer than its timeout."),
    ],
)
def test_the_exit_code_settles(
    agents: Agents, script: str, flags: list[str], code: int, state: str, ended: str, reason: str
) -> None:
    """Each end of a command has its own end of the claim, and the agent says it by its own exit code."""
    enqueue(agents)
    agents.run("claim", *flags, "--exec", "sh", "-c", script, code=code)

    shown = agents.ask("show", "one")
    assert shown["item"]["state"] == state
    assert [(one["ended"], one["why"]) for one in shown["attempts"]] == [(ended, reason)]
    assert shown["item"]["declined"] == (1 if ended == "declined" else 0)


def test_nothing_is_claimed_for_a_command_that_is_not_there(agents: Agents) -> None:
    """A typing mistake costs no attempt."""
    enqueue(agents)
    done = agents.run("claim", "--exec", "no-such-command", code=2)

    assert "no-such-command" in done.stderr
    assert agents.item("one")["attempts"] == 0


def test_without_work_it_leaves_with_75(agents: Agents) -> None:
    """Also after having waited as long as it was told."""
    began = time.monotonic()
    agents.run("claim", "--wait", "0.5", "--exec", "true", code=75)

    assert time.monotonic() - began > 0.5


def test_it_goes_on_for_ever_until_it_is_told_to_stop(agents: Agents) -> None:
    """Item after item, also those that come while it waits; a TERM in idleness ends it at once, with 0."""
    enqueue(agents, "one")
    enqueue(agents, "two", "--priority", "5")
    agent = agents.start("--forever", "--exec", "sh", "-c", f'echo "$KRANZ_ITEM_ID" >> {agents.notes}/order')
    wait_for(lambda: agents.item("one")["state"] == "done", "both are done")
    enqueue(agents, "three")
    wait_for(lambda: agents.item("three")["state"] == "done", "what came later is done")
    agent.terminate()

    assert agent.wait(PATIENCE) == 0
    assert (agents.notes / "order").read_text().split() == ["two", "one", "three"]


def test_so_many_items_and_no_more(agents: Agents) -> None:
    """`--count` bounds a run; one that fails among them is told by the exit code."""
    for name in ("one", "two", "three"):
        enqueue(agents, name, "--max-attempts", "1")
    agents.run("claim", "--count", "2", "--exec", "sh", "-c", 'test "$KRANZ_ITEM_ID" != one', code=1)

    assert [agents.item(name)["state"] for name in ("one", "two", "three")] == ["failed", "done", "open"]


def test_the_first_signal_lets_the_command_end(agents: Agents) -> None:
    """Nobody loses work by stopping an agent: it finishes, hands in, and leaves."""
    enqueue(agents)
    enqueue(agents, "two")
    agent = agents.start("--forever", "--exec", *agents.alone("one", 60))
    wait_for(lambda: agents.told("start", "one"), "it runs")
    agent.terminate()
    (agents.notes / "release").touch()

    assert agent.wait(PATIENCE) == 0
    assert (agents.item("one")["state"], agents.item("two")["state"]) == ("done", "open")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_the_whole_command_and_gives_the_item_back(agents: Agents, second: int) -> None:
    """With what it started in a session of its own; no attempt is used up."""
    enqueue(agents)
    agent = agents.start("--exec", "sh", "-c", f"setsid sleep 1000 & sleep 1000 & echo $! > {agents.notes}/pid; wait")
    wait_for((agents.notes / "pid").exists, "it runs")
    tree = agents.tree(agent)
    agent.terminate()
    wait_for(lambda: "once more" in agents.log(), "it says that it waits")
    passes(0.6)  # a second signal is no echo of the first
    agent.send_signal(second)

    assert agent.wait(PATIENCE) == 128 + second
    assert not any(is_alive(pid) for pid in tree)
    item = agents.item("one")
    assert (item["state"], item["attempts"], item["declined"]) == ("open", 1, 1)


def test_a_cancelled_item_ends_its_command(agents: Agents) -> None:
    """The holder is told at its next heartbeat, long before its lease is over, and does not go on working on it."""
    enqueue(agents)
    agent = agents.start("--lease", "21s", "--exec", *agents.alone("one", 60))
    wait_for(lambda: agents.told("start", "one"), "it runs")
    tree = agents.tree(agent)
    agents.run("cancel", "one", "--reason", "not needed")

    assert agent.wait(20) == 4, "a third of the lease, not the end of it"
    assert "not needed" in agents.log()
    assert not any(is_alive(pid) for pid in tree)
    assert agents.told("end", "one") == 0


@pytest.mark.timeout(90)
def test_b66_a_job_longer_than_its_lease_is_started_once(agents: Agents) -> None:
    """Its heartbeats keep it, while another agent asks for work all the time."""
    enqueue(agents)
    first = agents.start("--lease", "10s", "--exec", *agents.alone("one", 11))
    wait_for(lambda: agents.told("start", "one"), "it runs")
    other = agents.start("--forever", "--lease", "10s", "--exec", *agents.alone("one", 0.1))
    wait_for(lambda: listens(other.pid), "the other one has begun")

    assert first.wait(60) == 0, agents.log()
    other.terminate()
    assert other.wait(PATIENCE) == 0
    assert agents.told("start", "one") == 1
    assert agents.attempts("one") == ["done"]


@pytest.mark.crash
def test_b66_without_heartbeats_another_starts_after_the_lease_and_never_beside(agents: Agents) -> None:
    """The agent stands still. Its keeper ends the command in time, and the one that comes back is told."""
    enqueue(agents)
    first = agents.start("--lease", "8s", "--exec", *agents.alone("one", 60), log="first")
    wait_for(lambda: agents.told("start", "one"), "it runs")
    send([first.pid], signal.SIGSTOP)
    other = agents.start("--wait", "60s", "--exec", *agents.alone("one", 0.1), log="other")

    assert other.wait(60) == 0, agents.log("other")
    send([first.pid], signal.SIGCONT)
    assert first.wait(PATIENCE) == 4, agents.log("first")
    assert (agents.told("start", "one"), agents.told("overlap", "one")) == (2, 0)
    assert agents.attempts("one") == ["lapsed", "done"]


@pytest.mark.crash
def test_b67_neither_a_stuck_reader_nor_a_greedy_command_costs_the_lease(agents: Agents) -> None:
    """All cores busy, megabytes of output, and nobody reads: the lease is kept, and the item done."""
    enqueue(agents)
    greedy = "import time\nend = time.monotonic() + 6\nwhile time.monotonic() < end: pass"
    script = f"for i in 1 2 3; do {sys.executable} -c '{greedy}' & done; yes | head -c 20000000; wait; echo through"
    agent = subprocess.Popen(
        [*KRANZQ, "work", "claim", "--lease", "5s", "--exec", "sh", "-c", script],
        cwd=agents.notes,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,  # which nobody reads
        stderr=subprocess.PIPE,
    )
    agents.started.append(agent)

    assert agent.wait(60) == 0
    assert agents.attempts("one") == ["done"]
    assert agents.item("one")["result"].endswith("through")
    for stream in (agent.stdout, agent.stderr):
        assert stream is not None
        stream.close()


@pytest.mark.crash
@pytest.mark.timeout(90)
def test_b70_after_a_sleep_of_all_the_lease_is_renewed_and_the_work_goes_on(agents: Agents) -> None:
    """Agent, keeper and command stand still for three leases, as on a suspended host: one run, which ends well."""
    enqueue(agents)
    agent = agents.start("--lease", "5s", "--exec", *agents.alone("one", 600))
    wait_for(lambda: agents.told("start", "one"), "it runs")
    everything = [agent.pid, *agents.tree(agent)]
    send(everything, signal.SIGSTOP)
    passes(15)
    send(everything[::-1], signal.SIGCONT)
    passes(6)  # what would end it has had its time
    (agents.notes / "release").touch()

    assert agent.wait(PATIENCE) == 0, agents.log()
    assert agents.told("start", "one") == 1
    assert agents.item("one")["state"] == "done"


@pytest.mark.crash
def test_b70_a_sleeper_that_lost_its_claim_is_stopped(agents: Agents) -> None:
    """While it slept another took the item: it finds out first thing, and ends its command."""
    enqueue(agents)
    agent = agents.start("--lease", "6s", "--exec", *agents.alone("one", 600))
    wait_for(lambda: agents.told("start", "one"), "it runs")
    everything = [agent.pid, *agents.tree(agent)]
    send(everything, signal.SIGSTOP)
    agents.run("claim", "--wait", "30s", "--agent", "another")
    send(everything[::-1], signal.SIGCONT)

    assert agent.wait(PATIENCE) == 4, agents.log()
    assert not any(is_alive(pid) for pid in everything[1:])
    assert (agents.item("one")["claimed_by"], agents.item("one")["attempts"]) == ("another", 2)


@pytest.mark.crash
@pytest.mark.timeout(90)
def test_b72_a_payload_that_kills_its_agent_is_tried_three_times(agents: Agents) -> None:
    """An attempt counts when it is claimed: nothing comes back as new for ever, and nothing of it goes on running."""
    enqueue(agents)
    kill = f'echo x >> {agents.notes}/claims; kill -9 "$(cut -d " " -f 4 "/proc/$PPID/stat")"; exec sleep 1000'
    for number in range(1, 4):
        agent = agents.start("--wait", "30s", "--lease", "4s", "--exec", "sh", "-c", kill)
        assert agent.wait(40) == -signal.SIGKILL, agents.log()
        assert agents.item("one")["attempts"] == number
    wait_for(lambda: agents.ask("recover")["failed"] == ["one"], "its last lease is over")

    item = agents.item("one")
    assert (item["state"], item["attempts"], item["result"]) == ("failed", 3, "the last lease ran out")
    assert (agents.notes / "claims").read_text() == "x\n" * 3
    agents.run("claim", code=75)
    agents.run("claim", "--id", "one", code=75)


@pytest.mark.crash
def test_the_command_of_a_killed_agent_ends_before_its_lease(agents: Agents) -> None:
    """Nobody renews any more, so the keeper ends it; the next one starts alone."""
    enqueue(agents)
    agent = agents.start("--lease", "8s", "--exec", *agents.alone("one", 600))
    wait_for(lambda: agents.told("start", "one"), "it runs")
    tree = agents.tree(agent)
    agent.kill()
    other = agents.start("--wait", "60s", "--exec", *agents.alone("one", 0.1))

    assert other.wait(60) == 0, agents.log()
    assert not any(is_alive(pid) for pid in tree)
    assert (agents.told("start", "one"), agents.told("overlap", "one")) == (2, 0)


@pytest.mark.crash
def test_a_killed_keeper_leaves_nothing_behind(agents: Agents) -> None:
    """The agent ends what its keeper left, and gives the item back without counting."""
    enqueue(agents)
    agent = agents.start("--exec", *agents.alone("one", 600))
    wait_for(lambda: agents.told("start", "one"), "it runs")
    tree = agents.tree(agent)
    send(tree[:1], signal.SIGKILL)

    assert agent.wait(40) == 75, agents.log()
    assert not any(is_alive(pid) for pid in tree)
    assert (agents.item("one")["state"], agents.attempts("one")) == ("open", ["declined"])
