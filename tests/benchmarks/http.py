"""How fast the server is: prints the tables of docs/explanation/http-speed.md.

    python -m tests.benchmarks.http [frameworks|clients] [--seconds S] [--rounds N] [--store sqlite|postgres]

`frameworks`: the claim route of `kranzq serve` beside the same claim behind bare Starlette, FastAPI and Litestar, which
check nothing or only the shape. Those that are not installed are left out. `clients`: requests a second, median and
99 % at 1, 16, 64 and 256 clients, route by route. Needs wrk (package wrk); it shares the processors with the server.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import uvicorn

from kranzq import work
from kranzq.server.serving import Options, serve
from tests import postgres
from tests.benchmarks.http_apps import COMMIT_EACH, FRAMEWORKS, commit_each

CLIENTS = (1, 16, 64, 256)
ITEMS = 40_000
BODY = {"kind": "", "lease_ms": 60_000}
LUA = """
wrk.method = "{method}"
wrk.body = '{body}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {token}"
done = function(summary, latency, requests)
  local bad = summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout
  io.write(string.format("RESULT %d %d %d %d %d\\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), bad))
end
"""


def run_server(name: str, url: str, port: int) -> None:
    """One of them, until it is ended."""
    if name == "kranzq":
        serve(Options(os.getcwd(), url, listen=f"127.0.0.1:{port}"), os.environ, lambda _: None)
        return
    with work.open(url) as store:
        app = commit_each(url) if name == COMMIT_EACH else FRAMEWORKS[name](store)
        uvicorn.run(app, host="127.0.0.1", port=port, log_level="error", access_log=False)


@contextlib.contextmanager
def running(name: str, url: str, folder: Path, env: dict[str, str] | None = None) -> Iterator[tuple[str, int]]:
    """The address of one of them and its process, with a home of its own."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    places = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
    environ = os.environ | places | (env or {})
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.http", "serve", name, url, str(port)], env=environ
    )
    try:
        until = time.monotonic() + 30
        while True:
            with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert time.monotonic() < until, name
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def fill(url: str, many: int) -> None:
    """So many items that anybody may claim."""
    with work.open(url) as store:
        for _ in range(0, many, 1000):
            store.enqueue_many([work.NewItem("a title", "a payload of some words")] * 1000)


class Cell(NamedTuple):
    """What one measurement gave: requests a second, milliseconds, microseconds of the server's own time, failures."""

    rate: float
    half_ms: float
    most_ms: float
    own_us: float
    bad: int


def own_seconds(pid: int) -> float:
    """What a process has computed, in all of its threads."""
    parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def measure(url: str, pid: int, clients: int, seconds: float, script: Path) -> Cell:
    """One measurement."""
    words = ["wrk", "-t1", f"-c{clients}", f"-d{max(1, round(seconds))}s", "--timeout", "10s", "-s", str(script), url]
    begun = own_seconds(pid)
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    own = own_seconds(pid) - begun
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("RESULT")]
    requests, micros, half, most, bad = (int(part) for part in line.split()[1:])
    return Cell(requests / (micros / 1e6), half / 1000, most / 1000, own * 1e6 / max(1, requests), bad)


def shown(heads: str, cells: dict[tuple[str, int], list[Cell]]) -> None:
    """Print a table: the medians of the rounds."""
    print(f"| {heads} | clients | requests/s | median ms | 99 % ms | own µs | failed |\n|---|---|---|---|---|---|---|")
    for (name, clients), found in cells.items():
        rate, half, most, own = (statistics.median(one[place] for one in found) for place in range(4))
        bad = sum(one.bad for one in found)
        print(f"| {name} | {clients} | {rate:,.0f} | {half:.2f} | {most:.1f} | {own:.0f} | {bad} |")


def script_for(folder: Path, method: str, body: object, token: str) -> Path:
    """A script for wrk; the token stands in the file, not among the words of the command."""
    path = folder / "script.lua"
    path.touch(0o600)
    said = json.dumps(body) if body is not None else ""
    path.write_text(LUA.replace("{method}", method).replace("{body}", said).replace("{token}", token))
    return path


def frameworks(url_of: Callable[[Path], str], seconds: float, rounds: int) -> None:
    """The table of the claim route."""
    names = ["kranzq", *(name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None)]
    found: dict[tuple[str, int], list[Cell]] = {}
    for _ in range(rounds):
        for name in names:
            with tempfile.TemporaryDirectory() as made:
                folder = Path(made)
                url = url_of(folder)
                fill(url, ITEMS)
                with work.open(url) as store:
                    token = store.agents.add("bench", another=True).token
                script = script_for(folder, "POST", BODY, token)
                with running(name, url, folder) as (address, pid):
                    measure(f"{address}/v1/work/claim", pid, 16, 1, script)
                    for clients in CLIENTS:
                        cell = measure(f"{address}/v1/work/claim", pid, clients, seconds, script)
                        found.setdefault((name, clients), []).append(cell)
    shown("claims by", {key: found[key] for key in sorted(found, key=lambda key: (key[1], names.index(key[0])))})


def by_clients(url_of: Callable[[Path], str], seconds: float, rounds: int) -> None:
    """The table of routes."""
    routes = {
        "`GET /v1/agent` (no store)": ("GET", "/v1/agent", None),
        "`POST /v1/work`": ("POST", "/v1/work", {"title": "a title", "payload": "a payload", "kind": "new"}),
        "`POST /v1/work/claim`": ("POST", "/v1/work/claim", BODY),
        "`POST …/heartbeat`": ("POST", "/v1/work/held/heartbeat", {"attempt": 1}),
        "`GET /v1/work/{id}`": ("GET", "/v1/work/held", None),
        "`GET /v1/work?limit=50`": ("GET", "/v1/work", None),
    }
    found: dict[tuple[str, int], list[Cell]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            url = url_of(folder)
            fill(url, ITEMS)
            with work.open(url) as store:
                agent, token = store.agents.add("bench", another=True)
                store.enqueue(work.NewItem("held", "b", "held", id="held"))
                store.claim(agent.holder, work.Wanted(kind="held"), lease_ms=86_400_000)
            with running("kranzq", url, folder) as (address, pid):
                for name, (method, path, body) in routes.items():
                    script = script_for(folder, method, body, token)
                    for clients in CLIENTS:
                        found.setdefault((name, clients), []).append(
                            measure(address + path, pid, clients, seconds, script)
                        )
    shown("route", found)


def main() -> None:
    """What was asked for."""
    if sys.argv[1:2] == ["serve"]:
        run_server(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument("what", choices=["frameworks", "clients"], nargs="?", default="frameworks")
    asked.add_argument("--seconds", type=float, default=3.0)
    asked.add_argument("--rounds", type=int, default=2)
    asked.add_argument("--store", choices=["sqlite", "postgres"], default="sqlite")
    said = asked.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("This needs wrk; type: apt-get install wrk")
    table = frameworks if said.what == "frameworks" else by_clients
    if said.store == "sqlite":
        table(lambda folder: f"sqlite://{folder}/work.db", said.seconds, said.rounds)
        return
    with postgres.running() as server, postgres.database(server.url()) as url:
        postgres.migrate(url)

        def emptied(_: Path) -> str:
            postgres.empty(url)
            return url

        table(emptied, said.seconds, said.rounds)


if __name__ == "__main__":
    main()
