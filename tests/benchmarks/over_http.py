"""(f) Requests to `kranzq serve`, by ever more clients, and on disks that sync ever more slowly; wrk asks.

The servers, and the table of all routes, are in `tests.benchmarks.http`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kranzq import work
from tests.benchmarks import checkouts, figures, http, slow
from tests.benchmarks.asked import Asked, Kind, Result, Row, Table, Target
from tests.benchmarks.figures import Rounds
from tests.benchmarks.http_apps import COMMIT_EACH, FRAMEWORKS
from tests.benchmarks.places import disk
from tests.benchmarks.rounds import sing

OURS, STARLETTE = "kranzq", "starlette"
SLOWER_MS = (0, 1, 5)
ITEMS = (5_000, 150_000)
"""For a quick look, and else: none may run out of them."""
AT = 64
WARM_UP = 16
CLAIM, EMPTY = "/v1/work/claim", "/v1/agent"
NOTES = {
    OURS: "checks everything; claims of a moment share a commit",
    STARLETTE: "the same store, nothing checked",
    "fastapi": "the same store, the shape checked",
    "litestar": "the same store, the shape checked",
    COMMIT_EACH: "the driver alone, nothing checked",
}
LIFE = """
local held, made = {}, 0
request = function()
  local one = table.remove(held)
  if one then return wrk.format("POST", "/v1/work/" .. one[1] .. "/complete", nil, '{"attempt": ' .. one[2] .. '}') end
  made = made + 1
  if made % 2 == 1 then
    return wrk.format("POST", "/v1/work", nil, '{"title": "a title", "payload": "a payload of some words"}')
  end
  return wrk.format("POST", "/v1/work/claim", nil, '{"kind": "", "lease_ms": 600000}')
end
response = function(status, headers, body)
  if not body:find('"claimed": ?true') then return end
  local id, attempt = body:match('"id": ?"([^"]+)"'), body:match('"attempt": ?(%d+)')
  if id and attempt then table.insert(held, {id, attempt}) end
end
"""
"""What each connection of wrk asks next: an end for what any of them has claimed, else an item, else a claim."""
STEPS = 3
HOW = (
    "Requests a second of `POST /v1/work/claim`, durable each, from wrk with so many connections on this machine: it"
    " shares the processors with the server."
)


@dataclass
class Cells:
    """The measurements of one server with so many clients, round by round."""

    found: list[http.Cell] = field(default_factory=list)

    def rates(self) -> Rounds:
        """Requests a second."""
        return [[one.rate] for one in self.found]

    def more(self) -> dict[str, float | str]:
        """Times and failures beside the rate."""
        half, most, own = (sorted(one)[len(one) // 2] for one in list(zip(*self.found, strict=True))[1:4])
        bad = sum(one.bad for one in self.found)
        return {"median, ms": half, "99 %, ms": most, "own time of a request, µs": own, "failed": bad}


def run(asked: Asked) -> Result:
    """Tables by number of clients, then by how slowly the disk syncs."""
    if shutil.which("wrk") is None:
        return Result([], remarks=["Nothing over HTTP: wrk is not installed here (package wrk)."])
    here = disk(asked.folder).there / "f"
    here.mkdir()
    tables: list[Table] = []
    targets: list[Target] = []
    canary: list[tuple[float, float]] = []
    absent = [
        Row(name, "absent", note=f"not installed here (Python package {name})")
        for name in FRAMEWORKS
        if importlib.util.find_spec(name) is None
    ]
    for milliseconds in SLOWER_MS[:2] if asked.quick else SLOWER_MS:
        if milliseconds and (why := slow.why_not()):
            return Result(tables, targets, [f"No disk that syncs more slowly: gcc is {why}."], canary)
        clients = http.CLIENTS if not milliseconds and not asked.quick else (AT,)
        cells = _rounds(here, milliseconds, clients, asked, canary)
        for number in clients:
            by_name = {name: one for (name, at), one in cells.items() if at == number}
            tables.append(_table(by_name, number, milliseconds, absent))
            if number == AT:
                targets += _targets(by_name, milliseconds)
    tables += [_empty_route(here, asked), _life(here, asked)]
    return Result(tables, targets, canary=canary)


def _names(*, slower: bool) -> list[str]:
    there = [name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None]
    return [OURS, STARLETTE, COMMIT_EACH] if slower else [OURS, *there, COMMIT_EACH]


def _rounds(
    here: Path, milliseconds: int, clients: Sequence[int], asked: Asked, canary: list[tuple[float, float]]
) -> dict[tuple[str, int], Cells]:
    """Every server in turn, each round beginning with another one."""
    names = _names(slower=milliseconds > 0 or asked.quick)
    cells: dict[tuple[str, int], Cells] = {}
    seconds = asked.so_many(1, 3)
    for number in range(asked.so_many_rounds(4 if not milliseconds else 3)):
        canary.append(sing(here))
        first = number % len(names)
        for name in [*names[first:], *names[:first]]:
            with _served(name, here, milliseconds, asked.so_many(*ITEMS)) as (address, pid, script):
                http.measure(f"{address}{CLAIM}", pid, WARM_UP, 1, script)
                for at in clients:
                    cell = http.measure(f"{address}{CLAIM}", pid, at, seconds, script)
                    cells.setdefault((name, at), Cells()).found.append(cell)
    return cells


@contextlib.contextmanager
def _served(name: str, here: Path, milliseconds: int, items: int) -> Iterator[tuple[str, int, Path]]:
    folder = here / "serving"
    folder.mkdir()
    url = f"sqlite://{folder}/work.db"
    http.fill(url, items)
    with work.open(url) as store:
        token = store.agents.add("bench", another=True).token
    script = http.script_for(folder, "POST", http.BODY, token)
    with http.running(name, url, folder, slow.environment(here, milliseconds)) as (address, pid):
        yield address, pid, script
    checkouts.clear(folder)


def _table(cells: dict[str, Cells], clients: int, milliseconds: int, absent: Sequence[Row]) -> Table:
    base = cells[STARLETTE].rates() if STARLETTE in cells else None
    rows = []
    for name, one in cells.items():
        kind: Kind = "ours" if name == OURS else "floor" if name.startswith(STARLETTE) else "peer"
        rows.append(figures.row_of(name, kind, one.rates(), base, note=NOTES[name], more=one.more()))
    disk_is = f", each sync {milliseconds} ms longer" if milliseconds else ""
    counted = "1 client" if clients == 1 else f"{clients} clients"
    missing = absent if not milliseconds else ()
    title = f"claims over HTTP, {counted}{disk_is}"
    return Table(title, "requests/s", HOW, [*rows, *missing], STARLETTE if base else "", "higher")


def _targets(cells: dict[str, Cells], milliseconds: int) -> Iterator[Target]:
    ours = cells[OURS].rates()
    each = figures.ratios(ours, cells[COMMIT_EACH].rates())
    wanted, acceptable = {0: (2.5, 2.0), 1: (10.0, 5.0), 5: (10.0, 5.0)}[milliseconds]
    slower = f", each sync {milliseconds} ms longer" if milliseconds else ""
    what = f"HTTP claim, {AT} clients{slower}"
    yield figures.rounds_target(what, each, wanted, acceptable, COMMIT_EACH, at_most=False)
    if not milliseconds and STARLETTE in cells:
        same = figures.ratios(ours, cells[STARLETTE].rates())
        yield figures.rounds_target(what, same, 0.6, 0.45, "bare Starlette on the same store", at_most=False)


def _empty_route(here: Path, asked: Asked) -> Table:
    """A route that asks the store for nothing but whose token it is."""
    how = "Requests a second of `GET /v1/agent`: all checks, a token that is looked up, and an answer."
    cells = _by_clients(here / "empty", "GET", EMPTY, "", asked)
    rows = [figures.row_of(name, "ours", one.rates(), more=one.more()) for name, one in cells.items()]
    return Table("an empty route", "requests/s", how, rows, better="higher")


def _life(here: Path, asked: Asked) -> Table:
    """Items from enqueue to their end, each a request of its own, as many in flight as there are clients."""
    how = "Items a second that are enqueued, claimed and ended, three requests each, each durable; a request's times."
    cells = _by_clients(here / "life", "POST", "/v1/work", LIFE, asked)
    rows = []
    for name, one in cells.items():
        lives = [[rate / STEPS for rate in some] for some in one.rates()]
        rows.append(figures.row_of(name, "ours", lives, more=one.more()))
    return Table("a whole life over HTTP", "items/s", how, rows, better="higher")


def _by_clients(folder: Path, method: str, path: str, more_lua: str, asked: Asked) -> dict[str, Cells]:
    """One server of ours, asked by ever more clients."""
    folder.mkdir()
    url = f"sqlite://{folder}/work.db"
    with work.open(url) as store:
        token = store.agents.add("bench", another=True).token
    script = http.script_for(folder, method, None, token)
    script.write_text(script.read_text() + more_lua)
    cells: dict[str, Cells] = {}
    with http.running(OURS, url, folder) as (address, pid):
        for _ in range(asked.so_many_rounds(4)):
            for clients in (AT,) if asked.quick else http.CLIENTS:
                cell = http.measure(f"{address}{path}", pid, clients, asked.so_many(1, 3), script)
                cells.setdefault(f"kranzq, {clients} at once", Cells()).found.append(cell)
    return cells
