"""(g) What is there while nothing happens: memory and processor time of daemon, keeper and server, and of listeners."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks import checkouts, figures
from tests.benchmarks.asked import Asked, Kind, Result, Row, Table, Target
from tests.benchmarks.peers.known import taking_part
from tests.benchmarks.places import disk
from tests.servers import Served, serving

DAEMON, KEEPER, SERVER = "kranzq daemon", "its keeper, waiting", "kranzq serve"
LISTENERS = 500
"""So many streams are opened; what they cost is told for a thousand."""
SETTLE_S = 3.0
CPU, SHARED, OWN = "idle, % of a processor", "MiB shared fairly (PSS)", "MiB of its own"
HOW = (
    "MiB of resident memory some seconds after the start, and what the process computes while nothing happens."
    " Memory that several processes use counts in each; shared fairly, it is divided among them."
)
PAUSE = "import time; time.sleep(3600)"


def run(asked: Asked) -> Result:
    """One table of processes, one of a server's listeners."""
    here = disk(asked.folder).there / "g"
    here.mkdir()
    seen: dict[str, _Seen] = {}
    peers, absent = taking_part("resident")
    for number in range(asked.so_many_rounds(3)):
        folder = here / str(number)
        folder.mkdir()
        with contextlib.ExitStack() as stack:
            found = [*_started(folder, stack)]
            for peer in peers:
                found += [(name, "peer", pid) for name, pid in stack.enter_context(peer.resident(folder)).items()]
            time.sleep(SETTLE_S)
            _look(found, asked.so_many(2, 30), seen)
    rows = [one.row(name) for name, one in seen.items()]
    table = Table("idle processes", "MiB", HOW, [*rows, *absent])
    listeners = _listeners(here, asked)
    return Result([table, listeners], [*_targets(table)])


class _Seen:
    """What was seen of one kind of process, round by round."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.resident: list[list[float]] = []
        self.others: list[tuple[float, float, float]] = []

    def row(self, name: str) -> Row:
        """Its row: memory as the median, the rest beside it."""
        middle = [sorted(one)[len(one) // 2] for one in zip(*self.others, strict=True)]
        more = {SHARED: middle[0], OWN: middle[1], CPU: round(middle[2], 2)}
        return figures.row_of(name, self.kind, self.resident, more=more)


def _started(folder: Path, stack: contextlib.ExitStack) -> Iterator[tuple[str, Kind, int]]:
    """Everything of ours and two bare interpreters, each with its pid."""
    floors = {
        "floor: python -I -S": [sys.executable, "-I", "-S", "-c", PAUSE],
        "floor: python with click, psutil and watchdog": [
            sys.executable,
            "-c",
            f"import click, psutil, watchdog.observers; {PAUSE}",
        ],
    }
    for number, (name, words) in enumerate(floors.items()):
        process = stack.enter_context(checkouts.started(words, folder / f"floor-{number}.log", lambda: True))
        yield name, "floor", process.pid
    daemon = stack.enter_context(checkouts.daemon(checkouts.checkout(folder / "checkout"), folder / "daemon.log"))
    yield DAEMON, "ours", daemon.pid
    yield KEEPER, "ours", checkouts.keepers_of(daemon.pid)[0]
    served = _serving(folder, stack)
    if served is not None:
        yield SERVER, "ours", _pid(served)


def _serving(folder: Path, stack: contextlib.ExitStack) -> Served | None:
    place = folder / "server"
    place.mkdir()
    return stack.enter_context(serving(place))


def _pid(served: Served) -> int:
    assert served.process is not None
    return served.process.pid


def _look(found: list[tuple[str, Kind, int]], seconds: float, seen: dict[str, _Seen]) -> None:
    before = {pid: checkouts.cpu_s([pid]) for _, _, pid in found}
    time.sleep(seconds)
    for name, kind, pid in found:
        resident, shared, own = memory_mib(pid)
        used = (checkouts.cpu_s([pid]) - before[pid]) / seconds * 100
        one = seen.setdefault(name, _Seen(kind))
        one.resident.append([resident])
        one.others.append((shared, own, used))


def memory_mib(pid: int) -> tuple[float, float, float]:
    """Resident memory of a process, its fair share, and what is its own alone."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kib = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    return kib["Rss"] / 1024, kib["Pss"] / 1024, (kib["Private_Clean"] + kib["Private_Dirty"]) / 1024


def _listeners(here: Path, asked: Asked) -> Table:
    """Memory and processor time of a server before and while many listen to its live events."""
    folder = here / "listening"
    folder.mkdir()
    many = asked.so_many(50, LISTENERS)
    with contextlib.ExitStack() as stack:
        served = _serving(folder, stack)
        assert served is not None
        pid = _pid(served)
        time.sleep(SETTLE_S)
        before = memory_mib(pid)[0]
        began = time.perf_counter()
        for _ in range(many):
            stack.enter_context(_stream(served))
        opened = (time.perf_counter() - began) / many * 1000
        time.sleep(SETTLE_S)
        after, used = memory_mib(pid)[0], checkouts.cpu_s([pid])
        seconds = asked.so_many(2, 40)
        time.sleep(seconds)
        percent = (checkouts.cpu_s([pid]) - used) / seconds * 100
    a_thousand = 1000 / many
    more = {CPU: round(percent * a_thousand, 2), "ms to open one": round(opened, 2)}
    row = figures.row_of(
        "kranzq serve, more for a thousand listeners", "ours", [[(after - before) * a_thousand]], more=more
    )
    how = f"From {many} streams of `GET /v1/events` on which nothing happens, each told `alive` every 15 s."
    return Table("listeners of a server", "MiB", how, [row])


@contextlib.contextmanager
def _stream(served: Served) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(checkouts.PATIENCE_S)
        connection.connect(served.socket)
        head = f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {served.key}\r\n\r\n"
        connection.sendall(head.encode())
        answer = b""
        while b"event: snapshot" not in answer:
            more = connection.recv(65536)
            if not more:
                raise RuntimeError(f"the stream has ended: {answer[:200]!r}")
            answer += more
        yield


def _targets(table: Table) -> Iterator[Target]:
    rows = {one.subject: one for one in table.rows}

    def value(name: str, of: Callable[[Row], float | str | None]) -> float | None:
        found = of(rows[name]) if name in rows else None
        return float(found) if found is not None else None

    idle = value(DAEMON, lambda row: row.more.get(CPU))
    yield figures.target("idle daemon", idle, 0.05, 0.3, unit="% of a processor")
    yield figures.target("idle daemon", value(DAEMON, lambda row: row.median), 30, 45, unit="MiB")
    yield figures.target("keeper", value(KEEPER, lambda row: row.median), 12, 20, unit="MiB")
