"""Agents storm a server over HTTP while they are killed, and the server, and the database under it.

A few agents for a few seconds by default. `KRANZQ_HTTP_STORM_SECONDS=300 KRANZQ_HTTP_STORM_AGENTS=200 pytest -s
tests/races/test_http_storm.py` for a long run, with the counts: of 200 agents 20 are killed each minute, the server
twice, PostgreSQL is restarted once.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from kranzq import work
from kranzq.model.agents import Scope
from tests import postgres
from tests.history_checker import Call, check, counts, read
from tests.laboratory import PATIENCE, REPO, wait_for
from tests.races.test_work_hammer import ATTEMPTS, ITEMS, LEFT, end, kept_by

SECONDS = float(os.environ.get("KRANZQ_HTTP_STORM_SECONDS", "4"))
AGENTS = int(os.environ.get("KRANZQ_HTTP_STORM_AGENTS", "12"))
PAUSE_S = float(os.environ.get("KRANZQ_HTTP_STORM_PAUSE", str(max(0.03, AGENTS / 400))))
AGENT = Path(__file__).with_name("http_agent.py")
VERBS = ("enqueue", "claim", "heartbeat", "finish", "release", "cancel", "page")
pytestmark = [pytest.mark.race, pytest.mark.slow, pytest.mark.timeout(max(120, 4 * SECONDS))]


class Storm:
    """A server on one port, and the agents that call it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder, self.chance = url, folder, random.Random(7)
        self.history = folder / "history"
        self.history.mkdir()
        self.running: list[subprocess.Popen[bytes]] = []
        self.server: subprocess.Popen[bytes] | None = None
        self.killed = self.killed_servers = self._named = 0
        self.peaks: list[int] = []
        self.port = free_port()

    def start(self, *argv: str, log: str) -> subprocess.Popen[bytes]:
        """A program in the background; what it says goes to a file."""
        with (self.folder / log).open("ab") as output:
            return subprocess.Popen(argv, cwd=REPO, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def serve(self) -> None:
        """Start the server and wait until it answers."""
        words = ("serve", "--listen", f"127.0.0.1:{self.port}", "--url", self.url)
        self.server = self.start(sys.executable, "-m", "kranzq", *words, log="server")
        wait_for(self.answers, f"the server answers: {self.said()}")

    def answers(self) -> bool:
        """Whether somebody listens."""
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        assert self.server is not None
        assert self.server.poll() is None, self.said()
        return False

    def said(self) -> str:
        """What the server and the agents said."""
        said = [self.folder / name for name in ("server", "agents", "drain")]
        return "".join(path.read_text()[-3000:] for path in said if path.exists())

    def agent(self) -> subprocess.Popen[bytes]:
        """One more agent, with a token of its own."""
        name = f"agent-{self._named}"
        self._named += 1
        return self.start(
            sys.executable,
            "-I",
            "-S",
            str(AGENT),
            str(self.port),
            str(self.folder / "tokens" / name),
            str(self.history),
            name,
            str(PAUSE_S),
            log="agents",
        )

    def make_tokens(self, many: int) -> None:
        """Agents enough for all that are ever started."""
        (self.folder / "tokens").mkdir(mode=0o700)
        with work.open(self.url) as store:
            for number in range(many):
                _, token = store.agents.add(f"agent-{number}", groups=["all"], scopes=[Scope.WORK])
                (self.folder / "tokens" / f"agent-{number}").write_text(token + "\n")

    def kill_agent(self) -> None:
        """Kill one and let another one come."""
        end(self.running.pop(self.chance.randrange(len(self.running))))
        self.killed += 1
        self.running.append(self.agent())

    def kill_server(self) -> None:
        """Kill the server and start it again."""
        assert self.server is not None
        self.peaks.append(peak_kib(self.server.pid))
        end(self.server)
        self.killed_servers += 1
        self.serve()

    def run(self, server: postgres.Server | None) -> None:
        """The storm: agents are killed all the time, the server after a third and two thirds, PostgreSQL half-way."""
        kills = max(2, round(SECONDS / 60 * AGENTS / 10))
        self.make_tokens(AGENTS + kills)
        self.serve()
        self.running = [self.agent() for _ in range(AGENTS)]
        wait_for(lambda: len(list(self.history.glob("*.jsonl"))) >= AGENTS, "they all begin", seconds=90)
        events = [(SECONDS * (number + 0.5) / kills, self.kill_agent) for number in range(kills)]
        events += [(SECONDS * share, self.kill_server) for share in (1 / 3, 2 / 3)]
        if server is not None:
            events.append((SECONDS / 2, lambda: restart(server)))
        begun = time.monotonic()
        for at, event in sorted(events, key=lambda one: one[0]):
            time.sleep(max(0.0, begun + at - time.monotonic()))  # no condition to wait for: this is the storm's length
            event()
        time.sleep(max(0.0, begun + SECONDS - time.monotonic()))
        wait_for(self.has_seen_all, "every verb was accepted, however few calls there were in that time", seconds=60)
        for one in self.running:
            assert one.poll() is None, self.said()
        while self.running:
            end(self.running.pop())
        self.drain()
        assert self.server is not None
        self.peaks.append(peak_kib(self.server.pid))
        self.server.send_signal(signal.SIGTERM)
        assert self.server.wait(PATIENCE) == 0, self.said()

    def has_seen_all(self) -> bool:
        """Whether each verb was accepted at least once."""
        return set(VERBS) <= {call.verb for call in read(self.history) if call.accepted}

    def drain(self) -> None:
        """End everything that is left, by the library, as soon as the leases of the killed ones are over."""
        words = (self.url, str(self.history), "0", "1")

        def drained() -> bool:
            assert self.start(sys.executable, "-m", "tests.races.work_hammer", *words, log="drain").wait(90) == 0
            with work.open(self.url) as store:
                states = store.stats().by_state
            return not any(states[name] for name in ("open", "delayed", "claimed", "lapsed"))

        wait_for(drained, "everything has ended", seconds=90)

    def end(self) -> None:
        """Kill what is left."""
        for one in (*self.running, *([self.server] if self.server is not None else [])):
            if one.poll() is None:
                end(one)

    def judge(self, rows: list[tuple[str, str, int, str]], attempts: list[tuple[str, int, str, str | None]]) -> None:
        """Nothing that was seen may contradict what is promised."""
        calls = read(self.history)
        sys.stdout.write(
            f"{len(calls)} calls of {AGENTS} agents in {SECONDS:g} s; {self.killed} agents and {self.killed_servers} "
            f"servers killed; {len(rows)} items kept; server at most {max(self.peaks) // 1024} MiB\n"
            + counts(calls)
            + latencies(calls)
        )
        faults = check(calls, kept_by(rows, attempts), drained=True)
        assert not faults, f"{len(faults)} faults, from {self.folder}:\n" + "\n".join(faults[:20])
        for verb in VERBS:
            assert any(call.verb == verb and call.accepted for call in calls), f"{verb} was never accepted"
        tokens = [path.read_text().strip() for path in (self.folder / "tokens").iterdir()]
        said = self.said() + "".join(path.read_text() for path in self.history.iterdir())
        assert not [token for token in tokens if token in said], "a token was told"


def free_port() -> int:
    """A port that the kernel gives to nobody who asks for any: it must be free again after each kill of the server."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", random.SystemRandom().randrange(first // 2, first)))  # two tests may begin at once
            return int(free.getsockname()[1])


def peak_kib(pid: int) -> int:
    """The most memory that a process ever had, in KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))


def latencies(calls: list[Call]) -> str:
    """How long each verb took, for people; what waited for a killed server is in it."""
    told = ""
    for verb in VERBS:
        mine = [call for call in calls if call.verb == verb and not call.asked.get("wait_ms")]
        took = sorted((call.returned - call.began) / 1e6 for call in mine if call.returned)
        if took:
            marks = [took[min(len(took) - 1, int(len(took) * share))] for share in (0.5, 0.99)]
            told += f"{verb:10}  {len(took):7} calls  ms: p50 {marks[0]:.1f}  p99 {marks[1]:.1f}  most {took[-1]:.1f}\n"
    return told


def restart(server: postgres.Server) -> None:
    """Kill PostgreSQL and start it again."""
    server.kill()
    server.start()


@contextlib.contextmanager
def storm(url: str, folder: Path) -> Iterator[Storm]:
    """A storm of which nothing is left behind."""
    one = Storm(url, folder)
    try:
        yield one
    finally:
        one.end()


def test_a_server_on_sqlite_keeps_the_promises_while_all_are_killed(tmp_path: Path) -> None:
    """Agents and server are killed; nothing is lost, given twice, or taken from one who is gone."""
    path = str(tmp_path / "work.db")
    with storm(f"sqlite:///{path}", tmp_path) as one:
        one.run(None)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            one.judge(connection.execute(ITEMS).fetchall(), connection.execute(ATTEMPTS).fetchall())
            assert connection.execute(LEFT).fetchone() == (0,)


@pytest.mark.skipif(not postgres.is_there(), reason=postgres.MISSING)
def test_a_server_on_postgres_keeps_the_promises_while_all_are_killed(tmp_path: Path) -> None:
    """The same with a database that is killed and started again half-way."""
    with postgres.running() as server, storm(server.url(), tmp_path) as one:
        postgres.migrate(server.url())
        one.run(server)
        with psycopg.connect(server.url(), autocommit=True) as connection:
            one.judge(connection.execute(ITEMS).fetchall(), connection.execute(ATTEMPTS).fetchall())
