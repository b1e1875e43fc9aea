"""The model of the verbs that change something beside the entries."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tests.machines.admission import recover
from tests.machines.halfway import finish_moves
from tests.machines.world import MOST_KEPT, Move, Now, Program, World, done, stay


def pause(now: Now, world: World) -> list[Move]:
    """Let nothing begin."""
    del now
    return [Move((world, world._replace(paused=True)), (done(0),))]


def resume(now: Now, world: World) -> list[Move]:
    """Let missions begin again."""
    del now
    return [Move((world, world._replace(paused=False)), (done(0),))]


@lru_cache(MOST_KEPT)
def trust(*, unsigned: bool) -> Program:
    """Whether unsigned entries may run."""

    def step(now: Now, world: World) -> list[Move]:
        del now
        return [Move((world, world._replace(trusted=unsigned)), (done(0),))]

    return (step,)


@lru_cache(MOST_KEPT)
def end_source(mission: str, how: str) -> Program:
    """A producer has acted on a binding."""

    def step(now: Now, world: World) -> list[Move]:
        del now
        bound, ended = (mission, "bound"), (mission, how)
        if bound in world.sources:
            return [Move((world, world._replace(sources=world.sources - {bound} | {ended})), (done(0),))]
        return stay(world, done(0 if ended in world.sources else 3))

    return (step,)


def reclaim(now: Now, world: World) -> Iterator[Move]:
    """What is bound and nothing names is its producer's no more; an end of an earlier approval names nothing."""
    del now
    ways = [world]
    for mission in sorted(mission for mission, word in world.sources if word == "bound"):
        if _is_named(world, mission):
            continue
        ended = [_ended_source(way, mission) for way in ways]
        ways = [*ways, *ended] if any(run.mission == mission for run in world.runs) else ended
    for way in ways:
        yield Move((world, way), (done(0),))


def _is_named(world: World, mission: str) -> bool:
    there = any(cell.mission == mission for cell in world.cells)
    return there or any(name.endswith(f"-{mission}") for name in world.aside)


def _ended_source(world: World, mission: str) -> World:
    return world._replace(sources=world.sources - {(mission, "bound")} | {(mission, "cancelled")})


def recovery() -> Program:
    """The verb `recover`: with the checkout in hand if that is free, else without."""
    return finish_moves, _recovery


def _recovery(now: Now, world: World) -> list[Move]:
    if world.hold != -1 or world.alive:
        return stay(world, recover, done(0))
    return [Move((world._replace(hold=now.who),), (recover, _let_go, done(0)))]


def _let_go(now: Now, world: World) -> list[Move]:
    del now
    return [Move((world._replace(hold=-1),))]
