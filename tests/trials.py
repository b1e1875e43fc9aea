"""What the trial of a mission came to, as its operator sees it: the looking verbs, the folders, and the run's records.

Everything here is read through the command line or from the files as they are documented, never through the parts that
decide, so that an expectation that was written by hand is compared with what the product did and not with itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kranzq.cli.main import run
from kranzq.model.outcome import fate_name
from tests.laboratory import PATIENCE, Laboratory, is_alive, wait_for

T = TypeVar("T")
AGENT = Path(__file__).resolve().parent / "fake_agent.py"
PLACES = {"": "queued", "waiting": "waiting", "parked": "parked", "quarantine": "quarantined"}
LAST = {"retire": "gone", "park": "parked"}
_ENTRY = re.compile(r"(?:\d+\.|after\.)?\d{3}-\d{20}-(?P<mission>[^/]+?)\.json(?P<claim>\.claimed\.\d+\.[0-9a-f]{16})?")


def agent(lab: Laboratory, mission: str, *behaviours: str) -> tuple[str, ...]:
    """The command of a fake agent."""
    return (sys.executable, "-I", "-S", str(AGENT), str(lab.notes), mission, *behaviours)


def approve(lab: Laboratory, mission: str, *behaviours: str, priority: int = 2, **own: Any) -> None:
    """Queue a fake agent."""
    lab.enqueue(mission, *agent(lab, mission, *behaviours), priority=priority, **own)


def hurried(lab: Laboratory, *words: str) -> list[str]:
    """The words that run a verb with short pauses."""
    return [sys.executable, "-m", "tests.hurried", "-C", str(lab.root), *words]


def typed(lab: Laboratory, *words: str) -> str:
    """What a verb prints that starts nothing: the real command line, in this process since dozens of them are asked."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = run(["-C", str(lab.root), *words])
    assert code == 0, (words, code, output.getvalue())
    return output.getvalue()


def places(lab: Laboratory) -> dict[str, str]:
    """Where the entry of each mission lies that has one; a mission with several has them all named."""
    found: dict[str, list[str]] = {}
    for folder, place in PLACES.items():
        for name in lab.names(folder):
            if not name.endswith(".why.json") and (match := _ENTRY.fullmatch(name)):
                found.setdefault(match["mission"], []).append("claimed" if match["claim"] else place)
    return {mission: " and ".join(several) for mission, several in found.items()}


def place_of(lab: Laboratory, mission: str) -> str:
    """Where the entry of a mission lies; `gone` when it lies nowhere."""
    return places(lab).get(mission, "gone")


def are_settled(lab: Laboratory, *missions: str) -> bool:
    """Whether the last fate of each is one that is the last, and was carried out.

    An entry on its way from one folder to another may be seen in neither, so where it lies proves nothing alone.
    """

    def lie_there(expected: Mapping[str, str] | None = None) -> bool:
        now = places(lab)
        lie = {mission: now.get(mission, "gone") for mission in missions}
        return lie == expected if expected is not None else set(lie.values()) <= set(LAST.values())

    if not lie_there():  # the cheap look first: this is asked a hundred times a second
        return False
    last = {mission: records[-1].fate if (records := lab.records(mission)) else None for mission in missions}
    fates = {mission: fate_name(fate) if fate is not None else "" for mission, fate in last.items()}
    return set(fates.values()) <= set(LAST) and lie_there({mission: LAST[fate] for mission, fate in fates.items()})


def wait_in(lab: Laboratory, condition: Callable[[], T], what: str, *, seconds: float = PATIENCE) -> T:
    """As `wait_for`; when it takes too long, the failure shows where all is and what the dispatchers have said."""
    try:
        return wait_for(condition, what, seconds=seconds)
    except AssertionError as late:
        raise AssertionError(f"{late}\n{places(lab)}\n{lab.told()[-10:]}\n{lab.log()[-5000:]}") from None


def is_at(lab: Laboratory, mission: str, place: str) -> bool:
    """Whether an agent has told that it has come so far."""
    return f"at {mission} {place}" in lab.told()


def await_place(lab: Laboratory, mission: str, place: str) -> None:
    """Wait until an agent has come so far."""
    wait_in(lab, lambda: is_at(lab, mission, place), f"{mission} is at {place}")


def children(lab: Laboratory, mission: str) -> dict[str, list[int]]:
    """The pids of what an agent left behind, by the way in which it was left."""
    found: dict[str, list[int]] = {}
    for line in lab.told():
        what, who, *more = line.split()
        if (what, who) == ("child", mission):
            found.setdefault(more[0], []).append(int(more[1]))
    return found


@dataclass(frozen=True)
class Trial:
    """All runs of one mission, from `history --json`, its last end from `exit.json`, and where its entry lies now."""

    mission: str
    runs: Sequence[dict[str, Any]]
    place: str
    why: str
    end: dict[str, Any] | None
    starts: int

    @property
    def outcomes(self) -> list[str]:
        """How its runs ended, oldest first."""
        return [one["outcome"] for one in self.runs]

    @property
    def fates(self) -> list[str]:
        """What became of its entry after each."""
        return [one["fate"] for one in self.runs]

    @property
    def exits(self) -> list[object]:
        """Each exit code, or the signal with a minus before it; None where no end was recorded."""
        return [one["exitCode"] if one["signal"] is None else -one["signal"] for one in self.runs]


def tried(lab: Laboratory, mission: str) -> Trial:
    """Look at a mission with the verbs that an operator has."""
    runs = json.loads(typed(lab, "history", mission, "--json"))["runs"]
    folder = lab.root / ".kranz" / "missions" / mission / "dispatch"
    end = lab.read(folder / f"{runs[-1]['run']:03d}" / "exit.json") if runs else None
    place, why = place_of(lab, mission), ""
    if runs or place != "gone":
        why = " | ".join(line.strip() for line in typed(lab, "why", mission).splitlines())
    return Trial(mission, runs, place, why, end, lab.count("start", mission))


def assert_ended(lab: Laboratory, *missions: str) -> None:
    """Nothing that these missions started lives, and none was met by another."""
    pids = [pid for mission in missions for each in children(lab, mission).values() for pid in each]
    wait_for(lambda: not [pid for pid in pids if is_alive(pid)], f"all that {missions} left is ended")

    assert not [line for line in lab.told() if line.startswith("overlap")]


def assert_free(lab: Laboratory) -> None:
    """The checkout is free: no holder, no claim, no record of one."""
    seen = json.loads(typed(lab, "status", "--json"))

    assert (seen["busy"], seen["claims"]) == (None, [])
    assert lab.is_free()
    assert not {".busy.json", ".repo.busy.lock"} & set(os.listdir(lab.queue))


def table(rows: Iterable[Sequence[str]]) -> str:
    """Rows in columns as wide as they need to be."""
    lines = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines) + "\n"


def spans(words: Sequence[str]) -> str:
    """A list in which repetitions are counted: `deferred x2, succeeded`."""
    said: list[tuple[str, int]] = []
    for word in words:
        said[-1:] = [(word, said[-1][1] + 1)] if said and said[-1][0] == word else [*said[-1:], (word, 1)]
    return ", ".join(word if count == 1 else f"{word} x{count}" for word, count in said) or "-"
