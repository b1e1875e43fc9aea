"""The model of a program that takes an entry by the library `kranzq.queue`, and ends its claim or is gone with it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tests.machines.admission import recover
from tests.machines.ends import carried_out
from tests.machines.turns import choose, new_run
from tests.machines.world import MOST_KEPT, Cell, Move, Now, Program, Run, Step, World, done, stay

NOTHING, BUSY = 75, 4
"""How the worker tells that nothing may run, and that somebody works in the checkout."""


@lru_cache(MOST_KEPT)
def library(mission: str, then: str, *, free: bool) -> Program:
    """Take the front entry (of one mission), with `free` only in a free checkout; then `finish`, `release`, `leave`."""
    missions = frozenset({mission}) if mission else None
    nothing: Program = (_let_go, done(NOTHING)) if free else (done(NOTHING),)
    ended: Program = (_let_go, done(0)) if free else (done(0),)

    @lru_cache(MOST_KEPT)
    def begin(worlds: tuple[World, ...], cell: Cell, again: Program) -> Move:
        return Move(worlds, (_take(cell, again, then), *ended))

    front = choose(begin, nothing, missions)

    def hold(now: Now, world: World) -> list[Move]:
        if world.alive or world.hold != -1:
            return [*stay(world, recover, done(BUSY)), *stay(world, done(BUSY))]
        return [Move((world._replace(hold=now.who),), (recover, *front))]

    return (hold,) if free else front


def _let_go(now: Now, world: World) -> list[Move]:
    del now
    return [Move((world._replace(hold=-1),))]


@lru_cache(MOST_KEPT)
def _take(cell: Cell, again: Program, then: str) -> Step:
    """Record and claim in one change of names."""

    def step(now: Now, world: World) -> Iterator[Move]:
        del now
        if cell not in world.cells:
            yield Move((world,), again)
            return
        run = new_run(world, cell)
        empty = world.put_run(Run(run.mission, run.run))
        claiming = empty.put_run(run)
        alive = claiming._replace(alive=claiming.alive | {(run.mission, run.run)})
        claimed = alive.change(cell, state="claimed", run=run.run)
        begun = claimed.put_run(run._replace(state="begun"))
        kept = begun.put_run(run._replace(state="begun", kept=True))
        yield Move((world, empty, claiming, claimed, begun, kept), (_given_back_if_interrupted(run), _end(run, then)))

    return step


@lru_cache(MOST_KEPT)
def _given_back_if_interrupted(run: Run) -> Step:
    """Whoever is interrupted before it has said what it holds the checkout for gives its claim back."""

    def step(now: Now, world: World) -> list[Move]:
        del now
        ended = _claim_of(world, run)[1]._replace(state="ended", outcome="never began", fate="return")
        back = carried_out(world.put_run(ended), _claim_of(world, run)[0], ended)
        return [Move((back._replace(alive=world.alive - {(run.mission, run.run)}), world))]

    return step


def _claim_of(world: World, run: Run) -> tuple[Cell, Run]:
    claim = next(cell for cell in world.of(run.mission, "claimed") if cell.run == run.run)
    return claim, world.run_of(claim)


@lru_cache(MOST_KEPT)
def _end(run: Run, then: str) -> Step:
    def step(now: Now, world: World) -> list[Move]:
        del now
        gone = world._replace(alive=world.alive - {(run.mission, run.run)})
        if then == "leave":
            return [Move((gone,))]
        claim, current = _claim_of(world, run)
        ways = {"finish": ("succeeded", "retire"), "release": ("never began", "return")}
        outcome, fate = ("cancelled", "retire") if current.wish and then == "release" else ways[then]
        ended = current._replace(state="ended", outcome=outcome, fate=fate)
        recorded = world.put_run(ended)
        return [Move((world, recorded, carried_out(gone.put_run(ended), claim, ended)))]

    return step
