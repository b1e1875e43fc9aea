"""The model of what is done by the way: the inbox is admitted, claims of gone holders go where they belong."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tests.machines.ends import settle
from tests.machines.world import MOST_KEPT, Cell, Job, Move, Now, Program, Step, World, stay


def admit_inbox(now: Now, world: World) -> list[Move]:
    """Whoever looks next makes entries of what was dropped, in the order in which it came."""
    del now
    if not (world.in_state("inbox") or world.in_state("admitting")):
        return stay(world)
    missions = sorted({cell.mission for cell in world.cells if cell.state in {"inbox", "admitting"}})
    settled = [step for mission in missions if mission for step in settle_unattended(mission)]
    return stay(world, *settled, _finish_left, _admit_all)


@lru_cache(MOST_KEPT)
def settle_unattended(mission: str) -> Program:
    """Ends of a mission that are recorded and that nobody settled: of what a cancel has ended, and of what ran."""

    def finish_cancel(now: Now, world: World) -> Iterator[Move]:
        del now
        ended = {run.life for run in world.runs_of(mission) if (run.outcome, run.fate) == ("cancelled", "retire")}
        worlds = [world]
        for cell in world.of(mission, "queued", "waiting", "parked", "admitting", "inbox"):
            if cell.life in ended:
                worlds.append(worlds[-1].drop(cell))
        yield Move(tuple(worlds))

    return finish_cancel, settle_claims(mission)


@lru_cache(MOST_KEPT)
def settle_claims(mission: str) -> Step:
    """The same, of what ran."""

    def step(now: Now, world: World) -> list[Move]:
        del now
        over = [cell for cell in _gone(world) if cell.mission == mission]
        over = [cell for cell in over if (run := world.run_of(cell)).end or run.state == "ended"]
        return stay(world, *map(settle, over))

    return step


def recover(now: Now, world: World) -> list[Move]:
    """Every claim of a gone holder goes where it belongs."""
    del now
    return stay(world, *map(settle, _gone(world)))


def _gone(world: World) -> list[Cell]:
    return [cell for cell in world.in_state("claimed") if (cell.mission, cell.run) not in world.alive]


def _finish_left(now: Now, world: World) -> list[Move]:
    del now
    return stay(world, *(_finish(cell, f"inbox.{cell.number}") for cell in world.in_state("admitting")))


def _admit_all(now: Now, world: World) -> list[Move]:
    del now
    dropped = sorted(world.in_state("inbox"), key=lambda cell: cell.came)
    return stay(world, *map(_admit, dropped))


@lru_cache(MOST_KEPT)
def _admit(dropped: Cell) -> Step:
    def step(now: Now, world: World) -> Iterator[Move]:
        if dropped not in world.cells:
            yield Move((world,))
            return
        number = world.next_number(dropped.mission)
        named = world.named(number)
        hidden = dropped._replace(state="admitting", number=number, name="")
        on_its_way = named.drop(dropped).put(hidden)
        for move in _finish(hidden, f"inbox.{dropped.name}")(now, on_its_way):
            yield Move((world, named, on_its_way, *move.worlds))

    return step


@lru_cache(MOST_KEPT)
def _finish(hidden: Cell, shown: str) -> Step:
    def step(now: Now, world: World) -> Iterator[Move]:
        if hidden not in world.cells:
            yield Move((world,))
            return
        if hidden.job.bad:
            yield Move((world.drop(hidden).set_aside(shown),))
            return
        same = [one for one in world.of(hidden.mission, "queued", "waiting") if one.job.word == hidden.job.word]
        if same:
            yield Move((world.drop(hidden),))
            return
        renumbered, life = world.new_life() if not hidden.job.own else (world, hidden.life)
        mended = renumbered.change(hidden, life=life)
        cell = hidden._replace(life=life)
        in_the_way = [one for one in mended.of(cell.mission) if not (one.state == "claimed" and cell.job.again)]
        if in_the_way or (cell.beside and not cell.job.again):
            yield Move((world, mended, set_parked(mended, cell)))
        if not in_the_way:
            for state, due in places_of(now, cell.job):
                to = cell._replace(came=0, beside=False, state=state, due=due)
                yield Move((world, mended, mended.drop(cell).put(to)))

    return step


def places_of(now: Now, job: Job) -> Iterator[tuple[str, int | None]]:
    """Where an entry that nobody holds up belongs."""
    if job.after:
        yield "waiting", None
        return
    for due in now.is_due(job.not_before):
        yield ("queued", None) if due else ("waiting", job.not_before)


def set_parked(world: World, cell: Cell) -> World:
    """After an entry was set aside."""
    return world.drop(cell).put(cell._replace(state="parked", due=None, run=0, came=0, beside=False, name=""))
