"""What the model believes to be on disk, as frozen values, so that many possible worlds can be held side by side.

Written from the reference pages and apart from the product: nothing of `kranzq` is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

Due = int | tuple[int, int] | None
"""A due time in wall milliseconds; a pair is a window in which it must lie, until it was seen."""
MOST_KEPT = 4096
"""So many steps are remembered by what they are about, so that two ways that have come to the same are seen to."""
LIVE = "claimed queued waiting parked"
DEFAULT = "default"
NO_RUN = 0
DAMAGED = -2
"""Stands for the number in a hint that cannot be read."""


class Job(NamedTuple):
    """What an entry says: `word` names its command (see `JOBS`), or what is wrong with the file."""

    word: str
    retries: int = 0
    after: tuple[str, ...] = ()
    again: bool = False
    not_before: int | None = None
    limit: int = 0
    """Milliseconds that it may take, 0 for any."""
    own: bool = True
    signed: bool = True

    @property
    def bad(self) -> bool:
        """Whether it is no entry at all."""
        return self.word in {"bad", "partial", "folder"}


class Cell(NamedTuple):
    """One file that is an entry, or asks to be one."""

    state: str
    mission: str
    priority: int
    number: int
    job: Job
    life: int
    due: Due = None
    run: int = NO_RUN
    name: str = ""
    """Its name in the inbox, or in the queue where that is no entry's."""
    came: float = 0
    """When it came into the inbox, counted; a second name of the file moves that."""
    beside: bool = False
    """Whether it came into the inbox while a run of its mission was not recorded as over."""
    touched: Due = 0
    """When a half-written file was last changed or renamed, in wall ms."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What can be seen of it; of a window only that there is one."""
        due = None if self.due is None else "due"
        return (self.state, self.mission, self.priority, self.number, self.job, due, self.run, self.name)

    @property
    def key(self) -> tuple[int, int, str]:
        """Its place in the order."""
        return self.priority, self.number, self.mission


class Run(NamedTuple):
    """One run's records. `state` is `empty`, `claiming`, `begun` or `ended`; `end`: the keeper's record is there."""

    mission: str
    run: int
    number: int = -1
    priority: int = -1
    life: int = 0
    job: Job = Job("")
    state: str = "empty"
    end: bool = False
    wish: bool = False
    outcome: str = ""
    fate: str = ""
    until: Due = None
    new_number: int = -1
    kept: bool = False
    """Whether the entry was kept in its folder."""
    asked: bool = False
    """Whether somebody asked for its end, so that it does not count."""

    @property
    def shape(self) -> tuple[object, ...]:
        """What can be seen of it."""
        until = None if self.until is None else "until"
        seen = (self.mission, self.run, self.number, self.state, self.end, self.outcome, self.fate, until)
        return (*seen, self.new_number, self.kept, self.asked and self.outcome == "interrupted")


class World(NamedTuple):
    """All of it. `cells` and `runs` are sorted; `hold` tells which program of a pair has the checkout."""

    cells: tuple[Cell, ...] = ()
    runs: tuple[Run, ...] = ()
    seq: int = -1
    aside: tuple[str, ...] = ()
    paused: bool = False
    trusted: bool = False
    sources: frozenset[tuple[str, str]] = frozenset()
    hold: int = -1
    alive: frozenset[tuple[str, int]] = frozenset()
    """Mission and run of every claim whose keeper lives."""
    lives: int = 0
    moving: tuple[tuple[Cell, Cell], ...] = ()
    """What got its content and not yet its name: as it lies there, and as it will."""

    def of(self, mission: str, *states: str) -> list[Cell]:
        """A mission's entries in these states (`LIVE` when none are named), in order."""
        wanted = states or tuple(LIVE.split())
        found = [cell for cell in self.cells if cell.mission == mission and cell.state in wanted]
        return sorted(found, key=lambda cell: (cell.key, cell.state, cell.life))

    def in_state(self, state: str) -> list[Cell]:
        """All in one state, in order."""
        return sorted((cell for cell in self.cells if cell.state == state), key=lambda cell: (cell.key, cell.life))

    def put(self, *new: Cell) -> World:
        """With more entries."""
        return self._replace(cells=tuple(sorted((*self.cells, *new), key=repr)))

    def drop(self, *old: Cell) -> World:
        """Without these."""
        left = list(self.cells)
        for cell in old:
            left.remove(cell)
        return self._replace(cells=tuple(left))

    def change(self, old: Cell, **new: object) -> World:
        """With one entry changed."""
        return self.drop(old).put(old._replace(**new))  # type: ignore[arg-type]

    def named(self, number: int) -> World:
        """After a number was given out."""
        return self.without_damaged_hint()._replace(seq=number)

    def without_damaged_hint(self) -> World:
        """A hint that cannot be read is set aside by whoever gives a number out."""
        return self.set_aside("seq")._replace(seq=-1) if self.seq == DAMAGED else self

    def next_number(self, mission: str) -> int:
        """One more than any number that is known: of names, of the hint, of the mission's own records."""
        names = (cell.number for cell in self.cells if cell.state != "inbox")
        return 1 + max([-1, self.seq, *names, *(run.number for run in self.runs_of(mission))])

    def new_life(self) -> tuple[World, int]:
        """A life that no entry had before."""
        return self._replace(lives=self.lives + 1), self.lives + 1

    def runs_of(self, mission: str) -> list[Run]:
        """A mission's records that can be read, oldest first."""
        return [run for run in self.runs if run.mission == mission and run.state != "empty"]

    def last(self, mission: str) -> Run | None:
        """The newest record."""
        return next(iter(self.runs_of(mission)[::-1]), None)

    def run_of(self, claim: Cell) -> Run:
        """The record that names a claim."""
        return next(run for run in self.runs if (run.mission, run.run) == (claim.mission, claim.run))

    def put_run(self, run: Run) -> World:
        """With one record new or changed."""
        others = (one for one in self.runs if (one.mission, one.run) != (run.mission, run.run))
        return self._replace(runs=tuple(sorted((*others, run), key=lambda one: one[:2])))

    def drop_run(self, run: Run) -> World:
        """Without a run that came to nothing."""
        return self._replace(runs=tuple(one for one in self.runs if one[:2] != run[:2]))

    def half_moved(self, old: Cell, new: Cell) -> World:
        """With a note of an entry that has its content and not yet its name."""
        return self._replace(moving=tuple(sorted((*self.moving, (old, new)), key=repr)))

    def set_aside(self, name: str) -> World:
        """With one more file in the quarantine."""
        return self._replace(aside=tuple(sorted((*self.aside, name))))

    def taken(self, state: str, cell: Cell) -> bool:
        """Whether the name that a cell would have in a state is another's."""
        return any(one.state == state and one.key == cell.key and not one.name for one in self.cells)


class Done(NamedTuple):
    """A program is over; `codes`: how it may have ended."""

    codes: frozenset[int]


class Move(NamedTuple):
    """One step of a program, in which nobody else changes anything: what a kill in it may leave, and what it comes to.

    `then` are programs to be gone through before the rest; a `Done` in it ends the whole program.
    """

    worlds: tuple[World, ...]
    then: tuple[Step | Done, ...] = ()
    said: tuple[World, ...] = ()
    """What it may come to half-way where the disk is full; the program says so."""


Step = Callable[["Now", World], Iterable[Move]]

Program = tuple[Step | Done, ...]


_TICK_MS = 10
QUICK_BACKOFF_MS = 200
"""What the workers have in the place of five seconds."""


class Now(NamedTuple):
    """The wall milliseconds between which something happens, and which program of a pair it is."""

    begun: int
    over: int
    who: int = 0
    released: bool = True
    """Whether a mission that would not end by itself does."""
    backoff: int = QUICK_BACKOFF_MS
    """How long the first pause before another try is, in ms."""
    told: bool = False
    """Whether the dispatcher is told to stop on its way: it begins nothing any more, and lets end what runs."""

    @property
    def instant(self) -> tuple[int, int]:
        """When a file was touched that is touched meanwhile; the kernel's clock for files is a tick behind."""
        return self.begun - _TICK_MS, self.over

    def is_due(self, due: Due) -> set[bool]:
        """Whether a time has come: both where it falls into the step."""
        if due is None:
            return {True}
        earliest, latest = due if isinstance(due, tuple) else (due, due)
        return ({True} if earliest <= self.over else set()) | ({False} if latest >= self.begun else set())


def done(*codes: int) -> Done:
    """The end of a program, with one of these exit codes."""
    return Done(frozenset(codes))


def stay(world: World, *then: Step | Done) -> list[Move]:
    """Nothing changes here; go on with `then`."""
    return [Move((world,), then)]
