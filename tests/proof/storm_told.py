"""What is written down during a storm: one line of JSON in one write, so that a kill cuts off none or all of it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from tests.proof.storm_history import Call, Facts, Left

PLACES = {"waiting": "waiting", "parked": "parked", "quarantine": "quarantine", "inbox": "inbox"}


class Told:
    """One file of lines."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def say(self, **facts: Any) -> int:
        """One line with the time, which is returned: nanoseconds of the monotonic clock."""
        now = time.monotonic_ns()
        os.write(self._fd, json.dumps({"at": now, **facts}).encode() + b"\n")
        return now


class Tail:
    """The lines that a file gets from now on; what is not whole yet comes later."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def more(self) -> list[dict[str, Any]]:
        """Those that came since the last look."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                whole = file.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return []
        self._read += len(whole) + 1 if whole else 0
        return [json.loads(line) for line in whole.splitlines()]


def write_json(path: Path, value: object) -> None:
    """A value for whoever started this program."""
    path.write_text(json.dumps(value, indent=1))


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that are whole."""
    found = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def facts_of(history: Path, kranz: Path) -> Facts:
    """All that is known: the lines below `history`, and what lies in a checkout's `.kranz`."""
    called = {line["call"]: line for line in read(history / "calls.jsonl") if line["what"] == "call"}
    calls = [
        Call(
            verb=called[line["call"]]["verb"],
            mission=called[line["call"]]["mission"],
            began=called[line["call"]]["at"],
            returned=line["at"],
            code=line["code"],
            answer=line["answer"],
            said=line["said"],
        )
        for line in read(history / "calls.jsonl")
        if line["what"] == "back"
    ]
    acts = read(history / "acts.jsonl")
    return Facts(
        calls=calls,
        lines=read(history / "missions.jsonl"),
        kills=[line for line in acts if line["what"] == "kill"],
        terms=[line for line in acts if line["what"] == "term"],
        runs=[run for path in sorted(kranz.glob("missions/*/dispatch/*/run.json")) if (run := _run(path)) is not None],
        left=_left(kranz / "queue"),
        exits=[line for line in acts if line["what"] == "exit"],
    )


def _run(path: Path) -> dict[str, Any] | None:
    run = _json(path)
    return run and {**run, "exit": _json(path.with_name("exit.json"))}


def _left(queue: Path) -> list[Left]:
    found = []
    for path in sorted([*queue.glob("*.json*"), *queue.glob(".admitting.*"), *queue.glob("*/*")]):
        hidden = path.name.startswith(".") and not path.name.startswith((".admitting.", ".item."))
        if hidden or path.name.endswith(".why.json"):
            continue
        place = PLACES.get(path.parent.name, "claim" if ".claimed." in path.name else "queue")
        entry = _json(path) or {}
        if place == "quarantine" and "missionId" not in entry and "why" in entry:
            continue  # a reason whose entry had gone when a kill came: no entry, and nobody's loss
        own, why = entry.get("kranzq") or {}, _json(path.with_name(f"{path.name.removesuffix('.json')}.why.json")) or {}
        found.append(Left(str(entry.get("missionId")), str(own.get("id")), place, str(why.get("why", ""))))
    return found


def _json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None
