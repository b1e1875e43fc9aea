"""The model of `cancel`: what nobody has claimed keeps its end and goes, what runs gets a wish."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from tests.machines.admission import recover, settle_unattended
from tests.machines.world import MOST_KEPT, Cell, Done, Move, Now, Program, Run, Step, World, done

_OPEN = ("queued", "waiting", "parked")
_MOST_ORDERED = 3


@lru_cache(MOST_KEPT)
def cancel(mission: str) -> Program:
    """Take an approval back."""
    return settle_unattended(mission), *_cancelled(mission, alone=True)


def wish(mission: str) -> Program:
    """The same, of a mission that runs; its end is yet to come."""
    return settle_unattended(mission), *_cancelled(mission, alone=False)


@lru_cache(MOST_KEPT)
def _cancelled(mission: str, *, alone: bool) -> Program:
    def step(now: Now, world: World) -> Iterator[Move]:
        del now
        claims = [cell for cell in world.of(mission, "claimed") if world.run_of(cell).state != "ended"]
        gone = [cell for cell in world.of(mission, "claimed") if (mission, cell.run) not in world.alive]
        for way in taken_back(world, (mission,)):
            worlds = list(way)
            for claim in claims:
                worlds.append(worlds[-1].put_run(worlds[-1].run_of(claim)._replace(wish=True)))
            code = 0 if worlds[-1].last(mission) is not None or len(way) > 1 or claims else 3
            after: Program = (recover,) if gone else ()
            yield Move(tuple(worlds), (*after, done(code)) if alone else after)

    return (step,)


def taken_back(world: World, missions: Sequence[str]) -> Iterator[tuple[World, ...]]:
    """Each keeps its end before its file goes; in which order two of one folder are met is not said."""
    files = [cell for mission in missions for cell in world.of(mission, *_OPEN) if not cell.name]
    files += [cell for cell in world.cells if cell.state in {"admitting", "inbox"} and cell.mission in missions]
    files = [cell for cell in files if not (cell.job.bad and cell.state in {"admitting", "inbox"})]
    claimed = {cell.mission for cell in world.in_state("claimed")}
    for order in {tuple(sorted(order, key=_met)) for order in itertools.permutations(files[:_MOST_ORDERED])}:
        for numbers in itertools.product(*map(_numbers_told, order)):
            worlds, rest = [world], files[_MOST_ORDERED:]
            for cell, number in zip(
                (*order, *rest), (*numbers, *(_numbers_told(one)[-1] for one in rest)), strict=True
            ):
                if cell.mission not in claimed:
                    worlds += _end_kept(worlds[-1], cell, number)
            for cell in files:
                worlds.append(worlds[-1].drop(cell))
            yield tuple(worlds)


def _numbers_told(cell: Cell) -> tuple[int, ...]:
    """What a record tells as the number: of what comes from the inbox, the content's."""
    return {"admitting": (0, cell.number), "inbox": (0,)}.get(cell.state, (cell.number,))


def _met(cell: Cell) -> int:
    return ("queued", "waiting", "parked", "admitting", "inbox").index(cell.state)


def _end_kept(world: World, cell: Cell, number: int) -> list[World]:
    runs = world.runs_of(cell.mission)
    if any((run.life, run.outcome, run.fate) == (cell.life, "cancelled", "retire") for run in runs):
        return []
    at = 1 + max([0, *(run.run for run in world.runs if run.mission == cell.mission)])
    empty = Run(cell.mission, at)
    ended = Run(
        cell.mission, at, number, cell.priority, cell.life, cell.job, "ended", False, False, "cancelled", "retire"
    )
    return [world.put_run(empty), world.put_run(empty._replace(kept=True)), world.put_run(ended._replace(kept=True))]


@lru_cache(MOST_KEPT)
def cancel_all(pattern: str) -> Program:
    """Take back all that match: first what nobody has claimed, together, then one by one what is left."""

    def step(now: Now, world: World) -> Iterator[Move]:
        del now
        found = [cell for cell in world.cells if (cell.mission and not cell.name) or cell.state == "inbox"]
        found = [cell for cell in found if fnmatchcase(cell.mission, pattern)]
        found = [cell for cell in found if cell.state not in {"inbox", "admitting"} or not cell.job.bad]
        if not found:
            yield Move((world,), (done(3),))
            return
        claimed = {cell.mission for cell in world.in_state("claimed")}
        missions = sorted({cell.mission for cell in found})
        together = [mission for mission in missions if mission not in claimed]
        steps: list[Step | Done] = []
        for mission in (one for one in missions if one in claimed):
            steps += [settle_unattended(mission), *_cancelled(mission, alone=False)]
        for way in taken_back(world, together):
            yield Move(way, (*steps, done(0, 1)))

    return (step,)
