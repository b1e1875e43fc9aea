"""The model of a dispatcher that watches over a mission: the keeper records its end and leaves, the run is settled."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import lru_cache

from tests.machines.admission import recover
from tests.machines.ends import settled, word_of
from tests.machines.world import MOST_KEPT, Move, Now, Program, Run, Step, World, done, stay

TOLD = (128 + signal.SIGINT, 128 + signal.SIGTERM)
"""The exit codes of a dispatcher that was told to stop by a signal."""


@lru_cache(MOST_KEPT)
def keeper_ends(run: Run, *, asked: bool = False) -> Step:
    """The keeper records the end of its mission, which ended by itself or was `asked` to."""

    def step(now: Now, world: World) -> list[Move]:
        del now
        current = next((one for one in world.runs if one[:2] == run[:2]), None)
        if current is None or current.state == "ended":
            return stay(world)
        return [Move((world.put_run(current._replace(end=True, asked=asked)),))]

    return step


@lru_cache(MOST_KEPT)
def keeper_leaves(run: Run) -> Step:
    """From now on whoever looks may settle the run, also before its dispatcher does."""

    def step(now: Now, world: World) -> list[Move]:
        del now
        return [Move((world._replace(alive=world.alive - {(run.mission, run.run)}),))]

    return step


@lru_cache(MOST_KEPT)
def settle_run(run: Run, after: object) -> Step:
    """Steps 9 to 11 of a turn."""
    assert callable(after)

    def step(now: Now, world: World) -> Iterator[Move]:
        there = [cell for cell in world.of(run.mission, "claimed") if cell.run == run.run]
        if not there:
            gone = world._replace(alive=world.alive - {(run.mission, run.run)})
            for code in (0, 1, 75):  # somebody else settled it, and the dispatcher tells what it knows
                yield Move((gone,), after(code))
            return
        for way in settled(now, world, there[0]):
            ended = next(one for one in way[-1].runs if one[:2] == run[:2])
            if word_of(run.job) == "missing" and ended.outcome == "never began":
                continue
            yield Move(way, after(_code(ended)))

    return step


def _code(run: Run) -> int:
    if run.fate in {"retire", "park"} and run.outcome != "succeeded":
        return 1
    return 75 if run.outcome == "deferred" else 0


def ended_live(run: Run, *, end: bool = True, asked: bool = False, by: str = "drain") -> Program:
    """What a dispatcher does that watched over a mission which was let end; without `end` its keeper was killed.

    A `daemon` has been asked to stop, so it settles what has ended and leaves; a `told` drain says how it was told.
    """

    def after(code: int) -> Program:
        def let_go(now: Now, world: World) -> list[Move]:
            del now
            left: Program = {"drain": (done(code),), "told": (done(*TOLD),), "daemon": (recover, done(0))}[by]
            return [Move((world._replace(hold=-1),), left)]

        return (let_go,)

    return *((keeper_ends(run, asked=asked),) if end else ()), keeper_leaves(run), settle_run(run, after)


def left_live(run: Run) -> Program:
    """What is left when the dispatcher was killed and the mission has ended by itself."""

    def step(now: Now, world: World) -> list[Move]:
        left = world._replace(hold=-1, alive=frozenset())
        return [Move((next(iter(keeper_ends(run)(now, left))).worlds[-1],))]

    return (step,)
