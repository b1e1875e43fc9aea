"""The model of the verbs that change something beside the entries."""

from __future__ import annotations

from functools import lru_cache

from tests.machines.admission import recover
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


def recovery() -> Program:
    """The verb `recover`."""
    return recover, done(0)
