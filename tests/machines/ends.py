"""The model of a run's end: from what is recorded to a fate, and the moves that carry it out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

from tests.machines.bench import SLOW_S
from tests.machines.world import DEFAULT, MOST_KEPT, Cell, Due, Job, Move, Now, Run, Step, World

FAR_MS = 4_070_908_800_000
"""The year 2099."""
INTERRUPTIONS = 3
_BACK = frozenset({"interrupted", "not started", "never began"})
_NATURAL = {"ok": "succeeded", "fail": "failed", "defer": "deferred", "later": "deferred", "hang": "succeeded"}


def word_of(job: Job) -> str:
    """What really runs: an unsigned entry names a mission and nothing else."""
    return job.word if job.signed and job.word else DEFAULT


def natural(job: Job) -> str:
    """How a run of it ends when nobody disturbs it."""
    word = word_of(job)
    if word == "slow":
        return "timed out" if 0 < job.limit < SLOW_S * 1000 else "succeeded"
    return "succeeded" if word == DEFAULT else _NATURAL[word]


@lru_cache(MOST_KEPT)
def settle(who: Cell) -> Step:
    """Decide about a claim, if nobody has, and carry it out; nothing where it is gone."""

    def step(now: Now, world: World) -> Iterator[Move]:
        there = [cell for cell in world.of(who.mission, "claimed") if cell.run == who.run]
        if not there:
            yield Move((world,))
            return
        for way in settled(now, world, there[0]):
            yield Move(way)

    return step


def settled(now: Now, world: World, claim: Cell) -> Iterator[tuple[World, ...]]:
    """The ways to settle a claim, each with what it comes by."""
    run = world.run_of(claim)
    world = world._replace(alive=world.alive - {(run.mission, run.run)})
    if run.state == "ended":
        yield (carried_out(world, claim, run),)
        return
    for outcome in _outcomes(run):
        for way, decided in _decided(now, world, run, outcome):
            recorded = way[-1].put_run(decided)
            yield (*way, recorded, *_half_carried(recorded, claim, decided), carried_out(recorded, claim, decided))


def carried_out(world: World, claim: Cell, run: Run) -> World:
    """After the fate in a record."""
    match run.fate:
        case "retire":
            return world.drop(claim)
        case "park":
            return world.change(claim, state="parked", run=0, due=None)
        case "return":
            return _back(world, claim, claim._replace(state="queued", run=0))
        case "wait":
            return _back(world, claim, claim._replace(state="waiting", run=0, due=run.until))
        case _:
            world, life = _life_after_rewrite(world, claim)
            new = claim._replace(state="waiting", run=0, due=run.until, number=run.new_number, life=life)
            return _back(world, claim, new)


def _half_carried(world: World, claim: Cell, run: Run) -> tuple[World, ...]:
    """A rotation killed between content and name; for an unsigned one that is another file already."""
    if run.fate != "rotate":
        return ()
    world, life = _life_after_rewrite(world, claim)
    return (world.change(claim, life=life),)


def _life_after_rewrite(world: World, cell: Cell) -> tuple[World, int]:
    return (world, cell.life) if cell.job.own else world.new_life()


def _back(world: World, claim: Cell, new: Cell) -> World:
    if new.state == "queued" and world.taken("queued", new):
        return world.change(claim, state="parked", run=0, due=None)
    return world.drop(claim).put(new)


def _outcomes(run: Run) -> list[str]:
    if run.state == "claiming" and run.asked:
        return ["cancelled"] if run.wish else ["not started"]
    if run.state == "claiming" and word_of(run.job) == "missing":
        return ["cancelled"] if run.wish else ["not started", "never began"]
    if run.end and run.asked:
        return ["cancelled"] if run.wish else ["interrupted"]
    if run.end:
        own = natural(run.job)
        if not run.wish:
            return [own]
        return ["cancelled"] if word_of(run.job) == "hang" else ["cancelled", own]
    found = "never began" if run.state == "claiming" else "interrupted"
    return ["cancelled"] if run.wish else [found]


def _decided(now: Now, world: World, run: Run, outcome: str) -> Iterator[tuple[tuple[World, ...], Run]]:
    fate, until = _fate(now, world, run, outcome)
    if run.wish:
        fate, until = "retire", None
    ended = run._replace(state="ended", outcome=outcome, fate=fate, until=until)
    if fate != "rotate":
        yield (world,), ended
        return
    number = world.next_number(run.mission)
    yield (world, world.named(number)), ended._replace(new_number=number)


def _fate(now: Now, world: World, run: Run, outcome: str) -> tuple[str, Due]:
    before = [one for one in world.runs_of(run.mission) if one.life == run.life and one.run != run.run]
    before = [one for one in before if one.state == "ended"]
    failures = sum(one.outcome in {"failed", "timed out"} for one in before)
    match outcome:
        case "succeeded" | "cancelled":
            return "retire", None
        case "failed" | "timed out":
            return ("retire", None) if failures >= run.job.retries else ("wait", _window(now, failures))
        case "deferred":
            if word_of(run.job) == "later":
                return "rotate", FAR_MS
            return "rotate", _window(now, sum(one.outcome == "deferred" for one in before))
        case "interrupted" if not run.asked:
            times = 1 + sum(one.outcome == "interrupted" and not one.asked for one in before)
            return ("park", None) if times >= INTERRUPTIONS else ("return", None)
        case "not started" if not run.asked:
            return "park", None
        case _:
            assert outcome in _BACK
            return "return", None


def _window(now: Now, tries: int) -> tuple[int, int]:
    length = min(now.backoff * 2**tries, 900_000)
    return now.begun + int(length * 0.75) - 2, now.over + length + 2


def due_ways(now: Now, cells: list[Cell]) -> Iterator[list[Cell]]:
    """Which of them may be due, in every combination that the clock allows."""
    for choice in itertools.product(*(sorted(now.is_due(cell.due)) for cell in cells)):
        yield [cell for cell, due in zip(cells, choice, strict=True) if due]
