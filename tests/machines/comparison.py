"""What a machine does after every step: all files are explained by the page and compared with the worlds it holds.

Those worlds that fit are held from then on; `list`, `status` and `why` must tell the same.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from hypothesis.stateful import RuleBasedStateMachine

from tests.machines.asks import MISSIONS
from tests.machines.bench import WORDS, Answer, Bench
from tests.machines.seen import Seen, look, matched
from tests.machines.table import reachable
from tests.machines.world import Cell, World

Known = dict[int, str | None]
"""The ids of lives, as far as they were seen."""
MOST_WORLDS = 60
_WHILE_LIVE = (".busy.json", ".repo.busy", ".daemon.json", ".stop")
"""What lies there while a dispatcher watches over a mission."""


class FaultFoundError(Exception):
    """A walk had a fault, and nothing is walked after it."""


class Compared(RuleBasedStateMachine):
    """One checkout's queue, and all that the model holds possible of it."""

    bench: ClassVar[Bench]
    counts: ClassVar[Counter[str]] = Counter()
    moved: ClassVar[Counter[str]] = Counter()
    ended: ClassVar[Counter[str]] = Counter()
    faults: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__()
        if self.faults:
            raise FaultFoundError
        self.bench.begin()
        self.worlds: list[tuple[World, Known]] = [(World(), {})]
        self.seen = look(self.bench.kranz, WORDS, ())
        self.strangers: set[str] = set()
        self.debris: set[str] = set()
        self.bare: set[str] = set()
        self.came = 0
        self.live: tuple[str, int] | None = None
        self.over = ("", 0)
        self.by = "drain"
        self.died = False
        self.walked: list[str] = []
        self.looks = 0

    def _check(self, worlds: Sequence[World], said: str) -> None:
        """After an act of a hand, one world for each that was held."""
        found = [(world, known) for world, (_, known) in zip(worlds, self.worlds, strict=True)]
        self._check_worlds(found, worlds, said, killed=False)

    def _check_worlds(
        self, found: Sequence[tuple[World, Known]], tried: Sequence[World], said: str, *, killed: bool
    ) -> None:
        before, self.seen = self.seen, look(self.bench.kranz, WORDS, self.strangers)
        fitting = []
        for world, known in found:
            if (fit := matched(world, self.seen, known)) is not None and fit not in fitting:
                fitting.append(fit)
        assert fitting, self._differs(tried, said)
        self.worlds = fitting[:MOST_WORLDS]
        self._files_are_explained(before, killed=killed or self.died)
        self._moves_are_those_of_the_page(before)
        self._looks_agree()

    def _files_are_explained(self, before: Seen, *, killed: bool) -> None:
        seen = self.seen
        assert not seen.unexplained, f"files that the page does not explain: {seen.unexplained}"
        bare = set(seen.without_reason)
        assert killed or bare <= self.bare, f"set aside without a reason: {bare - self.bare}"
        self.bare = bare
        assert self.strangers <= seen.paths, f"not ours, and gone: {self.strangers - seen.paths}"
        left = seen.passing | seen.lonely
        if self.live is not None:
            left = {path for path in left if path in self.debris or not path.startswith(_WHILE_LIVE)}
        new = (
            left - self.debris - {f"quarantine/{path.partition('/')[2].removesuffix('.json')}" for path in self.debris}
        )
        assert killed or not new, f"left behind without a kill: {sorted(new)}"
        self.debris = left
        whose = [entry_id for _, entry_id in seen.cells if entry_id is not None]
        assert len(set(whose)) == len(whose), "an entry is in two places"
        del before

    def _moves_are_those_of_the_page(self, before: Seen) -> None:
        now = {entry_id: _state(cell) for cell, entry_id in self.seen.cells if entry_id is not None}
        for cell, entry_id in before.cells:
            if entry_id is not None:
                to = now.get(entry_id, "gone")
                assert to in reachable(_state(cell)), f"the page knows no way from {cell} to {to}"
                if to != _state(cell):
                    type(self).moved[f"{_state(cell)} to {to}"] += 1
        ended = Counter(f"{run.outcome}, {run.fate}" for run, _ in self.seen.runs if run.outcome)
        type(self).ended.update(ended - Counter(f"{run.outcome}, {run.fate}" for run, _ in before.runs if run.outcome))

    def _looks_agree(self) -> None:
        """`list`, `status` and `why` tell what lies there: one of them after each step."""
        cells = [cell for cell, _ in self.seen.cells]
        self.looks += 1
        if self.looks % 2:
            self._list_agrees(cells)
        elif self.looks % 4:
            self._status_agrees(cells)
        else:
            self._why_agrees(cells, MISSIONS[self.looks // 4 % len(MISSIONS)])

    def _list_agrees(self, cells: Sequence[Cell]) -> None:
        listed = json.loads(self.bench.run(("list", "--all", "--json")).out)
        shown = Counter((one["mission"], one["state"], one["priority"], one["seq"]) for one in listed["entries"])
        there = Counter(map(_listed, (cell for cell in cells if not cell.job.bad)))
        bad = Counter(map(_listed, (cell for cell in cells if cell.job.bad)))
        assert there <= shown <= there + bad, f"list tells {shown - there}, and not {there - shown}"
        assert len(listed["bad"]) >= (there + bad - shown).total(), "list hides a bad file"
        assert len(listed["quarantined"]) == self._aside(), "list miscounts the quarantine"

    def _aside(self) -> int:
        aside = [path.partition("/")[2] for path in self.seen.paths if path.startswith("quarantine/")]
        return sum(name[0] != "." and not name.endswith(".why.json") for name in aside)

    def _status_agrees(self, cells: Sequence[Cell]) -> None:
        status = json.loads(self.bench.run(("status", "--json")).out)
        states = Counter(map(_state, cells))
        bad = Counter(_state(cell) for cell in cells if cell.job.bad)
        for state in ("queued", "waiting", "parked", "inbox"):
            right = states[state] - bad[state] <= status[state] <= states[state]
            assert right, f"status tells {status[state]} {state}"
        assert status["quarantined"] == self._aside(), "status miscounts the quarantine"
        assert len(status["claims"]) == states["claimed"], "status miscounts the claims"

    def _why_agrees(self, cells: Sequence[Cell], mission: str) -> None:
        answer = self.bench.run(("why", mission, "--json"))
        mine = [_state(cell) for cell in cells if cell.mission == mission]
        rank = ("claimed", "queued", "waiting", "parked", "inbox")
        expected = next((state for state in rank if state in mine), None)
        if expected is not None:
            assert answer.code == 0, f"why: {answer.err}"
            told = json.loads(answer.out)["state"]
            assert told == expected or (told == "quarantined" and expected == "inbox"), (
                f"why tells {told} of {mission}, which is {expected}"
            )

    # ------------------------------------------------------------------- words

    def _note(self, what: str, *details: object) -> None:
        type(self).counts[what] += 1
        self.walked.append(f"{time.time() % 1000:.3f} {what}: {'; '.join(map(str, details))}")

    def _said(self, answer: Answer) -> str:
        text = f"exit {answer.code}: {answer.out.strip()} {answer.err.strip()}"
        self.walked.append(f"    {text[:600]}")
        return text

    def _story(self) -> str:
        """All that was walked, with the files that were seen last."""
        steps = "\n".join(self.walked)
        files = "\n".join(f"  {path}" for path in sorted(self.seen.paths))
        return f"--- steps\n{steps}\n--- files\n{files}"

    def _differs(self, tried: Sequence[World], said: str) -> str:
        lines = [f"what lies there is none of {len(tried)} worlds that the model holds possible after: {said[:300]}"]
        lines.append("there: " + "\n       ".join(map(str, _plainly(self.seen))))
        lines += [
            "possible: " + "\n          ".join(map(str, _plainly(world))) for world in list(dict.fromkeys(tried))[:6]
        ]
        return "\n".join(lines)


def _state(cell: Cell) -> str:
    return "inbox" if cell.state == "admitting" else cell.state


def _listed(cell: Cell) -> tuple[str, str, int, int | None]:
    """As `list` shows it; what waits to be admitted has no number."""
    state = _state(cell)
    return cell.mission, state, cell.priority, None if state == "inbox" else cell.number


def _plainly(one: World | Seen) -> list[object]:
    cells = list(one.cells) if isinstance(one, World) else [cell for cell, _ in one.cells]
    runs = list(one.runs) if isinstance(one, World) else [run for run, _ in one.runs]
    shown: list[object] = [f"seq {one.seq} paused {one.paused} aside {one.aside} sources {sorted(one.sources)}"]
    shown += [(*cell.shape, cell.due) for cell in cells]
    return shown + [(*run.shape, run.until) for run in runs]
