"""The model of `cancel`: what nobody has claimed keeps its end and goes, what runs gets a wish."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from tests.machines.admission import recover, settle_claims
from tests.machines.world import MOST_KEPT, Cell, Done, Move, Now, Program, Run, Step, World, done

_OPEN = ("queued", "waiting", "parked")
_MET = ("queued", "waiting", "parked", "admitting", "inbox")
_AN_INSTANT = 0.001
_Act = Callable[[World, Cell], list[list[World]]]


@lru_cache(MOST_KEPT)
def cancel(mission: str) -> Program:
    """Take an approval back."""
    return settle_claims(mission), *_cancelled(mission, alone=True)


def wish(mission: str) -> Program:
    """The same, of a mission that runs; its end is yet to come."""
    return settle_claims(mission), *_cancelled(mission, alone=False)


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
    """Each keeps its end before any file goes; in which order two of one folder are met is not said.

    Each way is one world that it may come to, behind all that a kill may leave.
    """
    files = [cell for mission in missions for cell in world.of(mission, *_OPEN) if not cell.name]
    files += [cell for cell in world.cells if cell.state in {"admitting", "inbox"} and cell.mission in missions]
    files = [
        cell
        for cell in files
        if cell.job.word != "folder" and not (cell.job.bad and cell.state in {"admitting", "inbox"})
    ]
    claimed = {cell.mission for cell in world.in_state("claimed")}
    passed, ends = [world], [world]
    for act in (_end_kept_of, _dropped):
        for state in _MET:
            there = [cell for cell in files if cell.state == state]
            if act is _end_kept_of:
                there = [cell for cell in there if cell.mission not in claimed]
            ends = _in_any_order(ends, there, act, passed)
    yield from ((*passed, end) for end in ends) if files else [(world,)]


def _in_any_order(worlds: list[World], cells: Sequence[Cell], act: _Act, passed: list[World]) -> list[World]:
    """What it comes to when each of the cells is acted upon; what lies between is added to `passed`."""
    ways = [(world, tuple(cells)) for world in worlds]
    seen, ends = set(ways), []
    while ways:
        world, left = ways.pop()
        if not left:
            ends.append(world)
        for cell in left:
            for acted in act(world, cell):
                passed += acted
                way = acted[-1], tuple(one for one in left if one != cell)
                if way not in seen:
                    seen.add(way)
                    ways.append(way)
    return ends


def _dropped(world: World, cell: Cell) -> list[list[World]]:
    return [[world.drop(next(one for one in world.cells if one._replace(came=cell.came) == cell))]]


def _end_kept_of(world: World, cell: Cell) -> list[list[World]]:
    return [_end_kept(world, cell, number) or [world] for number in _numbers_told(cell)]


def _numbers_told(cell: Cell) -> tuple[int, ...]:
    """What a record tells as the number: of what comes from the inbox, the content's."""
    return {"admitting": (0, cell.number), "inbox": (0,)}.get(cell.state, (cell.number,))


def _end_kept(world: World, cell: Cell, number: int) -> list[World]:
    runs = world.runs_of(cell.mission)
    if any((run.life, run.outcome, run.fate) == (cell.life, "cancelled", "retire") for run in runs):
        return []
    at = 1 + max([0, *(run.run for run in world.runs if run.mission == cell.mission)])
    empty = Run(cell.mission, at)
    ended = Run(
        cell.mission, at, number, cell.priority, cell.life, cell.job, "ended", False, False, "cancelled", "retire"
    )
    named = _named_twice(world, cell)
    return [world.put_run(empty), named.put_run(empty._replace(kept=True)), named.put_run(ended._replace(kept=True))]


def _named_twice(world: World, cell: Cell) -> World:
    """What lies in the inbox is behind all others when it got a second name, by which its run keeps it."""
    if cell.state != "inbox":
        return world
    return world.change(cell, came=_AN_INSTANT + max(one.came for one in world.cells))


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
            steps += [settle_claims(mission), *_cancelled(mission, alone=False)]
        for way in taken_back(world, together):
            yield Move(way, (*steps, done(0, 1)))

    return (step,)
