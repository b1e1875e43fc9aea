"""What lies on disk, read without the product, explained by the table of the page and compared with a world."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.machines.table import Row, row_of
from tests.machines.world import DAMAGED, Cell, Due, Job, Run, World

_BEGUN = {"starting": "begun", "running": "begun"}
MAX_NUMBER = 10**15
"""No entry bears a larger one; kranz reads its numbers exactly up to here."""
_FOLDERS = ("waiting", "parked", "quarantine", "inbox")
ODD = "<name>.json"
"""How the page writes a name that asks to be an entry's and is none."""


@dataclass
class Seen:
    """One look at all of `.kranz`. `ids` has the id of each entry's life, None where it has none, beside its cell."""

    cells: list[tuple[Cell, str | None]] = field(default_factory=list)
    runs: list[tuple[Run, str | None]] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)
    passing: set[str] = field(default_factory=set)
    lonely: set[str] = field(default_factory=set)
    unexplained: list[str] = field(default_factory=list)
    without_reason: list[str] = field(default_factory=list)
    paths: set[str] = field(default_factory=set)
    seq: int = -1
    paused: bool = False
    sources: frozenset[tuple[str, str]] = frozenset()


def look(kranz: Path, jobs: Mapping[tuple[str, ...], str], strangers: Iterable[str]) -> Seen:
    """Everything that is there. `jobs` gives a command its word; `strangers` are files that nobody may touch."""
    seen = Seen()
    queue = kranz / "queue"
    seen.paths = set(_below(queue))
    for path in sorted(seen.paths - set(strangers)):
        found = row_of(path)
        if found is None:
            seen.unexplained.append(path)
            continue
        row, match = found
        _note(seen, queue, path, row, match.groupdict(), jobs)
    seen.seq = _hint(queue / ".seq")
    seen.paused = ".paused" in seen.paths
    _records(seen, kranz / "missions")
    return seen


def _hint(path: Path) -> int:
    try:
        number = int(path.read_text())
    except FileNotFoundError:
        return -1
    except (OSError, ValueError):
        return DAMAGED
    return number if number <= MAX_NUMBER else DAMAGED


def _note(
    seen: Seen, queue: Path, path: str, row: Row, parts: dict[str, str | None], jobs: Mapping[tuple[str, ...], str]
) -> None:
    if path.endswith(".why.json") and row.state in {"parked", "quarantined"}:
        if path.removesuffix(".why.json") not in seen.paths:
            seen.lonely.add(path)
        return
    if row.state in {"parked", "quarantined"} and f"{path}.why.json" not in seen.paths:
        seen.without_reason.append(path)
    if row.state == "quarantined" and path.endswith(".json.why"):
        seen.lonely.add(path)  # a reason that a kill had left alone
    elif row.state == "quarantined":
        seen.aside.append(_plain(path.partition("/")[2]))
    elif row.state or row.shown.endswith(ODD):
        seen.cells.append(_cell(queue, path, row, parts, jobs))
    elif row.passing:
        seen.passing.add(path)


def _plain(name: str) -> str:
    """A quarantined file's name without what was added because it was taken."""
    found = row_of(f"{name.partition('.json')[0]}.json")
    if found is not None and found[0].state == "queued":
        parts = found[1].groupdict()
        return f"{int(parts['priority'] or 0)}-{int(parts['number'] or 0)}-{parts['mission']}"
    head, _, tail = name.rpartition(".")
    return head if tail.isdigit() and len(tail) == 1 and (head == "seq" or "." in head.removesuffix("inbox")) else name


def _cell(
    queue: Path, path: str, row: Row, parts: dict[str, str | None], jobs: Mapping[tuple[str, ...], str]
) -> tuple[Cell, str | None]:
    job, content, entry_id = _content(queue / path, jobs)
    state = (
        "admitting"
        if path.startswith(".admitting.")
        else row.state or (path.partition("/")[0] if "/" in path else "queued")
    )
    mission, name, due = parts.get("mission") or "", "", None
    priority, number = int(parts.get("priority") or 0), int(parts.get("number") or "-1")
    if state in {"inbox", "admitting"}:
        mission = str(content.get("missionId", "")) if not job.bad else ""
        priority = int(content.get("priority", 2)) if not job.bad else 0
        name = path.partition("/")[2]
        number = number if state == "admitting" else -1
    elif row.shown.endswith(ODD):
        name = path.rpartition("/")[2]
    elif not job.bad and content.get("missionId") != mission:
        job = Job("bad", own=False, signed=False)
    due = int(parts["due"] or 0) if parts.get("due") else None
    return Cell(state, mission, priority, number, job, 0, due, 0, name), entry_id


def _content(path: Path, jobs: Mapping[tuple[str, ...], str]) -> tuple[Job, dict[str, Any], str | None]:
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        return Job("folder", own=False, signed=False), {}, None
    try:
        data = path.read_bytes() if stat.S_ISREG(mode) else b"[]"
        value = json.loads(data)
    except ValueError:
        return Job("partial", own=False, signed=False), {}, None
    if not isinstance(value, dict) or "missionId" not in value:
        return Job("bad", own=False, signed=False), {}, None
    own = value.get("kranzq")
    if own is None:
        return Job("", own=False, signed=False), value, None
    command = tuple(own.get("command", ()))
    job = Job(
        jobs[command] if command else "",
        own.get("retries", 0),
        tuple(own.get("after", ())),
        own.get("again", False),
        _ms(own.get("notBefore")),
        round(own.get("timeoutSeconds", 0) * 1000),
        own=True,
        signed=bool(own.get("mac")),
    )
    return job, value, own["id"]


def _ms(text: str | None) -> int | None:
    import datetime as dt

    return None if text is None else round(dt.datetime.fromisoformat(text).timestamp() * 1000)


def _below(folder: Path, shown: str = "") -> Iterable[str]:
    for one in os.scandir(folder):
        if shown == "" and one.name in _FOLDERS and one.is_dir(follow_symlinks=False):
            yield from _below(Path(one.path), f"{one.name}/")
        else:
            yield shown + one.name


def _records(seen: Seen, missions: Path) -> None:
    sources = set()
    for mission in sorted(missions.iterdir()) if missions.is_dir() else ():
        for word, name in (("bound", ""), ("returned", ".returned"), ("cancelled", ".cancelled")):
            if (mission / f"enqueue-source{name}.json").exists():
                sources.add((mission.name, word))
        tries = mission / "dispatch"
        for folder in sorted(tries.iterdir()) if tries.is_dir() else ():
            seen.runs.append(_run(mission.name, folder))
    seen.sources = frozenset(sources)


def _run(mission: str, folder: Path) -> tuple[Run, str | None]:
    try:
        record = json.loads((folder / "run.json").read_bytes())
    except FileNotFoundError:
        return Run(mission, int(folder.name), kept=(folder / "entry.json").exists()), None
    fate = record["fate"] or {}
    run = Run(
        mission,
        int(folder.name),
        record["number"],
        state=_BEGUN.get(record["state"], record["state"]),
        end=_has_end(folder / "exit.json"),
        outcome=record["outcome"] or "",
        fate=fate.get("fate", ""),
        until=fate.get("untilMs"),
        new_number=fate.get("number", -1),
        kept=(folder / "entry.json").exists(),
        asked=not record["counted"],
    )
    return run, record["entry"]["id"]


def _has_end(path: Path) -> bool:
    try:
        return bool(path.read_bytes().strip())
    except FileNotFoundError:
        return False


def narrowing(seen: Seen) -> Callable[[World], World | None]:
    """Cuts ways short: an end that is recorded stays as it is, so one that was seen to be another cannot have been.

    What was only bounded has the value that was seen: what comes due when is then known.
    """
    there = {(run.mission, run.run): run for run, _ in seen.runs}

    @cache
    def sharpened(runs: tuple[Run, ...]) -> tuple[tuple[Run, ...], dict[Due, Due]] | None:
        sharp, dues = [], {}
        for run in runs:
            found = there.get((run.mission, run.run)) if run.state == "ended" else run
            if found is None or run.shape != found.shape or not _within(run.until, found.until):
                return None
            dues[run.until] = found.until
            sharp.append(run._replace(until=found.until))
        return tuple(sharp), dues

    def narrow(world: World) -> World | None:
        found = sharpened(world.runs)
        if found is None:
            return None
        runs, dues = found
        if runs == world.runs:
            return world
        cells = tuple(cell._replace(due=dues.get(cell.due, cell.due)) for cell in world.cells)
        return world._replace(cells=tuple(sorted(cells, key=repr)), runs=runs)

    return narrow


def matched(world: World, seen: Seen, ids: Mapping[int, str | None]) -> tuple[World, dict[int, str | None]] | None:
    """The world with what was seen in the place of what was only bounded, and its lives' ids; None: it is another."""
    if (world.seq, world.paused, world.sources) != (seen.seq, seen.paused, seen.sources):
        return None
    if len(world.moving) > sum(path.startswith(".moving.") for path in seen.passing):
        return None
    if list(world.aside) != sorted(seen.aside) or len(world.cells) != len(seen.cells):
        return None
    if Counter(run.shape for run in world.runs) != Counter(run.shape for run, _ in seen.runs):
        return None
    known = dict(ids)
    runs = {(run.mission, run.run): run for run, _ in seen.runs}
    cells: list[Cell] = []
    left = list(seen.cells)
    for cell in sorted(world.cells, key=lambda one: one.life not in known):
        fit = next((one for one in left if _fits(cell, *one, known, world, seen)), None)
        if fit is None:
            return None
        left.remove(fit)
        known[cell.life] = fit[1]
        cells.append(cell._replace(due=fit[0].due))
    if not all(_within(run.until, runs[run.mission, run.run].until) for run in world.runs):
        return None
    sharp = tuple(run._replace(until=runs[run.mission, run.run].until) for run in world.runs)
    return world._replace(cells=tuple(sorted(cells, key=repr)), runs=sharp), known


def _fits(
    cell: Cell, there: Cell, entry_id: str | None, known: Mapping[int, str | None], world: World, seen: Seen
) -> bool:
    there = there._replace(run=_run_of(there, entry_id, world, seen) if there.state == "claimed" else 0)
    if cell.shape != there.shape or not _within(cell.due, there.due):
        return False
    if cell.life in known:
        return known[cell.life] == entry_id
    return entry_id is None or entry_id not in known.values()


def _run_of(claim: Cell, entry_id: str | None, world: World, seen: Seen) -> int:
    """The run whose record tells of the claim: the newest of the same number and life."""
    del world
    runs = [run.run for run, its in seen.runs if (run.mission, run.number) == (claim.mission, claim.number)]
    return max(runs, default=0)


def _within(expected: Due, there: Due) -> bool:
    if isinstance(expected, tuple):
        return isinstance(there, int) and expected[0] <= there <= expected[1]
    return expected == there
