"""What lies in a world, read without the product: by key what is about one thing, and what may not lie there.

Names are explained by the page `docs/reference/states.md` alone (`tests.machines.table`). What is random or of a
moment (ids, keys, times, numbers) is left out, so that pictures of two trials can be compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.flocks import is_free
from tests.machines.table import row_of
from tests.proof.scenario import World

PROBE = "z-1"
"""The mission that the laboratory queues after recovery, to see whether anything is stuck."""
NAMELESS = "a file that names no mission"
"""Every one of them: on its way from the inbox such a file has lost its name."""
_FAR_MS = 4_000_000_000_000
_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[0-9a-f]{32,}|kq[ao]_[\w-]+")
_OF_TIME = re.compile(r".*_at|.*_ends|.*_expires|until|lease_boot|boot")
_STATE_FILES = re.compile(
    r"keys/([0-9a-f]+\.key|current)|trust/[0-9a-f]{64}\.json|checkouts/[0-9a-f]{32}\.json|work\.db(-wal|-shm|\.lock)?|server\.key|hooks/.*|items/.*"
)
_OF_MISSION = re.compile(
    r"input(/[^/.][^/]*)?|dispatch|enqueue-source(\.returned|\.cancelled)?\.json|events\.jsonl(\.lock)?"
)
_OF_RUN = re.compile(r"(run|exit|entry|cancel|return|stuck|lease)\.json|(output|keeper)\.log|not-before|payload")


@dataclass
class Picture:
    """One look."""

    facts: dict[str, object] = field(default_factory=dict)
    """What lies there, by what it is about."""
    order: list[str] = field(default_factory=list)
    """The missions that are queued, in the order in which they would run."""
    interrupted: Counter[str] = field(default_factory=Counter)
    ran: Counter[str] = field(default_factory=Counter)
    twice: list[str] = field(default_factory=list)
    """Entries that lie in two places, or are not whole: never right, at no instant."""
    stray: list[str] = field(default_factory=list)
    """What nobody needs once everything has come to rest."""


def look(world: World, kind: str) -> Picture:
    """Everything that lies there now."""
    picture = Picture()
    if kind == "sql":
        picture.facts["the work queue"] = _dump(world)
    else:
        _queue(world, picture)
        _missions(world, picture)
        picture.stray = [one for one in picture.stray if not _is_half_cancelled(one, picture)]
        _checkout(world, picture)
        _items(world, picture)
    _outside(world, picture)
    return picture


# ------------------------------------------------------------------ the queue


def _queue(world: World, picture: Picture) -> None:
    paths = set(_below(world.queue))
    cells: defaultdict[str, list[object]] = defaultdict(list)
    where: defaultdict[str, list[str]] = defaultdict(list)
    queued, aside = [], Counter[str]()
    for path in sorted(paths):
        found = row_of(path)
        if found is None:
            picture.stray.append(f"queue/{path}, which the page of states does not know")
            continue
        row, parts = found
        if path.endswith(".why.json") and row.state in {"parked", "quarantined"}:
            if path.removesuffix(".why.json") not in paths:
                picture.stray.append(f"queue/{path}, a reason without what it is about")
        elif row.state == "quarantined":
            aside[_plain(path)] += 1
            _has_reason(path, paths, picture)
        elif row.state and not _is_hidden(path):
            value = _entry(world.queue / path, picture, row.state)
            mission = str(parts.groupdict().get("mission") or value.get("missionId", NAMELESS))
            own = value.get("kranzq") or {}
            if own.get("id"):
                where[own["id"]].append(path)
            cells[mission].append(_cell(row.state, parts.groupdict(), own))
            if row.state == "queued":
                queued.append((int(parts["priority"]), int(parts["number"]), mission))
            if row.state == "parked":
                _has_reason(path, paths, picture)
        elif row.passing or row.state:
            picture.stray.append(f"queue/{path}")
    picture.twice += [f"one entry lies in {' and in '.join(both)}" for both in where.values() if len(both) > 1]
    picture.order = [mission for _, _, mission in sorted(queued)]
    picture.facts |= {f"entries of {mission}": sorted(some, key=repr) for mission, some in cells.items()}
    picture.facts["what is quarantined"] = aside
    picture.facts["the pause"] = ".paused" in paths


def _is_hidden(path: str) -> bool:
    """Whether it is no entry; what is on its way from the inbox still is one."""
    return path.startswith(".") and not path.startswith(".admitting.")


def _cell(state: str, parts: Mapping[str, str | None], own: Mapping[str, Any]) -> tuple[object, ...]:
    due = parts.get("due")
    when = "" if due is None else "far" if int(due) > _FAR_MS else "soon"
    kept = {name: own.get(name) for name in ("command", "timeoutSeconds", "retries", "after", "again", "env", "cwd")}
    return state, int(parts.get("priority") or -1), when, json.dumps(kept, sort_keys=True)


def _entry(path: Path, picture: Picture, state: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as fault:
        if state != "inbox":
            picture.twice.append(f"{path.name} is {state} and not whole: {fault}")
        return {}
    return value if isinstance(value, dict) else {}


def _has_reason(path: str, paths: set[str], picture: Picture) -> None:
    if f"{path}.why.json" not in paths:
        picture.stray.append(f"queue/{path}, without its reason")


def _is_half_cancelled(stray: str, picture: Picture) -> bool:
    """Whether it is a parked entry whose end is recorded: as the page of states has it, its reason went first."""
    found = re.fullmatch(r"queue/parked/[0-9]+-[0-9]+-(.+)\.json, without its reason", stray)
    runs = picture.facts.get(f"runs of {found[1]}") if found is not None else None
    return isinstance(runs, list) and any(run[1] == "cancelled" for run in runs)


def _plain(path: str) -> str:
    """A quarantined name without what was added because another had it."""
    name = path.partition("/")[2]
    if name.startswith("inbox."):
        return "inbox"  # what was on its way when its reader was killed has lost its first name
    return re.sub(r"\.[2-9]$", "", re.sub(r"^0*([0-9]{3}-)", r"\1", name))


# --------------------------------------------------------- missions and around


def _missions(world: World, picture: Picture) -> None:
    facts = picture.facts
    for folder in sorted(_folders(world.kranz / "missions")):
        mission = folder.name
        inside = [path for path in _below(folder) if not path.startswith("dispatch/")]
        strange = [path for path in inside if not _OF_MISSION.fullmatch(path)]
        picture.stray += [f"missions/{mission}/{path}" for path in strange]
        sources = {path: json.loads((folder / path).read_bytes()) for path in inside if "source" in path}
        for value in sources.values():
            value.pop("createdUnixSecs", None)
        facts[f"bindings of {mission}"] = {path: _plainly(value) for path, value in sources.items()} or None
        inputs = {path: (folder / path).read_text() for path in inside if re.match(r"input/[^.]", path)}
        facts[f"input of {mission}"] = inputs or None
        facts[f"runs of {mission}"] = [run for one in _folders(folder / "dispatch") if (run := _run(one, picture))]
    with contextlib.suppress(FileNotFoundError):
        picture.ran.update((world.notes / "ran").read_text().split())


def _plainly(value: Mapping[str, object]) -> object:
    return _RANDOM.sub("<random>", json.dumps(value, sort_keys=True))


def _run(folder: Path, picture: Picture) -> tuple[object, ...] | None:
    shown = f"missions/{folder.parent.parent.name}/dispatch/{folder.name}"
    names = os.listdir(folder)
    picture.stray += [f"{shown}/{name}" for name in names if not _OF_RUN.fullmatch(name)]
    if not re.fullmatch(r"[0-9]{3,}", folder.name) or "run.json" not in names:
        picture.stray.append(f"{shown}, a run that is nothing")
        return None
    try:
        record = json.loads((folder / "run.json").read_bytes())
    except ValueError:
        picture.stray.append(f"{shown}, a run whose record cannot be read")
        return None
    outcome, fate = record["outcome"], (record["fate"] or {}).get("fate")
    if outcome == "interrupted":
        picture.interrupted[record["mission"]] += 1
    if outcome in {None, "never began", "interrupted"} or (outcome, fate) == ("not started", "return"):
        return None
    return record["kind"], outcome, fate, record.get("exitCode")


def _checkout(world: World, picture: Picture) -> None:
    for name in (".gitignore", "kranzq.toml"):
        path = world.kranz / name
        picture.facts[name] = path.read_text() if path.exists() else None
    known = {".gitignore", "kranzq.toml", "queue", "missions"}
    if world.kranz.exists():
        picture.stray += [f".kranz/{name}" for name in os.listdir(world.kranz) if name not in known]
    for path in (world.root / ".git", world.queue / ".busy.flock", world.queue / ".mutate.flock"):
        if path.exists() and not is_free(path):
            picture.stray.append(f"a lock on {path.name}")


def _items(world: World, picture: Picture) -> None:
    """Items of the user's work queue, where dispatchers serve it: how each stands there."""
    if world.database.exists():
        with contextlib.closing(sqlite3.connect(world.database)) as database:
            for item, state, result in database.execute("select id, state, result from kranzq_items"):
                picture.facts[f"item {item}"] = (state, result)


# ------------------------------------------------------------ outside, and SQL


def _outside(world: World, picture: Picture) -> None:
    """Keys, approvals and tokens: whether each is as it was before the verb."""
    kept = world.folder / "kept" / "home" / "state" / "kranzq"
    names = set(_below(world.state))
    picture.stray += [f"state/{name}" for name in sorted(names) if not _STATE_FILES.fullmatch(name)]
    opaque = {name for name in names if name.startswith(("trust/", "server.key")) and "/." not in name}
    for name in sorted(opaque):
        picture.facts[f"state/{_RANDOM.sub('<random>', name)}"] = _as_before(world.state / name, kept / name)
    picture.facts["known checkouts"] = sum(name.startswith("checkouts/") for name in names)
    current = world.state / "keys" / "current"
    if current.exists():  # a key that it does not name has signed nothing yet, or no more
        known = (world.state / "keys" / f"{current.read_text().strip()}.key").exists()
        picture.facts["the key that signs"] = (_as_before(current, kept / "keys" / "current"), known)
    token = world.folder / "home" / "token"
    picture.facts["the token's file"] = token.exists() and bool(token.read_text().strip())


def _as_before(path: Path, kept: Path) -> str:
    if not path.exists():
        return "absent"
    return "as before" if kept.exists() and kept.read_bytes() == path.read_bytes() else "new"


def _dump(world: World) -> object:
    """All tables, without times and what is random; what a token's hash is, is told against what it was before."""
    if not world.database.exists():
        return {}
    kept, known = world.folder / "kept" / "home/state/kranzq/work.db", set[object]()
    if kept.exists():
        with contextlib.closing(sqlite3.connect(kept)) as before, contextlib.suppress(sqlite3.Error):
            known = {row[0] for row in before.execute("select token_hash from kranzq_agents")}
    with contextlib.closing(sqlite3.connect(world.database)) as database:
        checks = [database.execute(f"pragma {check}").fetchall() for check in ("integrity_check", "foreign_key_check")]
        if checks != [[("ok",)], []]:
            return {"not whole": checks}
        names = database.execute("select name from sqlite_schema where type = 'table' order by name").fetchall()
        return {table: sorted(_rows(database, table, known), key=repr) for (table,) in names}


def _rows(database: sqlite3.Connection, table: str, known: set[object]) -> Iterator[tuple[object, ...]]:
    columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
    for row in database.execute(f"select * from {table}"):
        yield tuple(_value(column, value, known) for column, value in zip(columns, row, strict=True))


def _value(column: str, value: object, known: set[object]) -> object:
    if column == "token_hash":
        return "as before" if value in known else "new"
    if column == "not_before":
        return value if not isinstance(value, int) or value > _FAR_MS else "soon"
    if _OF_TIME.fullmatch(column):
        return value is None
    return _RANDOM.sub("<random>", value) if isinstance(value, str) else value


def _below(top: Path, inside: str = "") -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError), os.scandir(top / inside) as found:
        for one in found:
            path = f"{inside}/{one.name}" if inside else one.name
            if one.is_dir(follow_symlinks=False):
                yield from _below(top, path)
            else:
                yield path


def _folders(top: Path) -> list[Path]:
    return sorted(path for path in top.iterdir() if path.is_dir()) if top.is_dir() else []
