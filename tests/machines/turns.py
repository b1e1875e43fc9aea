"""The model of a turn, from the hold to the fate."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tests.machines.admission import admit_inbox, places_of, recover, set_parked
from tests.machines.ends import due_ways, word_of
from tests.machines.watching import keeper_ends, keeper_leaves, settle_run
from tests.machines.world import MOST_KEPT, Cell, Move, Now, Program, Run, Step, World, done, stay

RUNNING = 999
"""Stands for an exit code where a dispatcher watches over a mission that does not end by itself."""
FRESH_MS = 2000
_WAITS, _SPOILED, _SATISFIED = "waits", "spoiled", "satisfied"


@lru_cache(MOST_KEPT)
def drain(*, once: bool) -> Program:
    """Turns until nothing due is left, or one."""

    def begin(now: Now, world: World) -> list[Move]:
        del now
        if world.paused:
            return stay(world, recover, done(75))
        return stay(world, _tidy, hold)

    def hold(now: Now, world: World) -> list[Move]:
        if world.alive or world.hold != -1:
            return [*stay(world, recover, done(4)), *stay(world, done(4))] if once else []  # ends are settled anyway
        return [Move((world._replace(hold=now.who),), (recover, _admit_due, _admit_after, _scan(after)))]

    @lru_cache(MOST_KEPT)
    def after(code: int) -> Program:
        """What follows when a mission was run, or (with -1) when there was none."""

        def let_go(now: Now, world: World) -> list[Move]:
            free = world._replace(hold=-1)
            if once:
                return [Move((free,), (done(max(code, 0)),))]
            return [Move((free,), (done(0, 1, 75),) if code == -1 else (admit_inbox, begin))]

        return (let_go,)

    return admit_inbox, begin


def _admit_due(now: Now, world: World) -> Iterator[Move]:
    waiting = [cell for cell in world.in_state("waiting") if cell.due is not None]
    for due in due_ways(now, waiting):
        worlds = [world]
        for cell in due:
            at = worlds[-1]
            new = cell._replace(state="queued", due=None)
            worlds.append(set_parked(at, cell) if at.taken("queued", new) else at.drop(cell).put(new))
        yield Move(tuple(worlds))


def _admit_after(now: Now, world: World) -> list[Move]:
    del now
    waiting = [cell for cell in world.in_state("waiting") if cell.due is None and not cell.job.bad]
    judged = [(cell, judge(world, cell)) for cell in waiting]
    return stay(world, *(_let_go(cell, verdict) for cell, verdict in judged if verdict != _WAITS))


@lru_cache(MOST_KEPT)
def _let_go(cell: Cell, verdict: str) -> Step:
    def step(now: Now, world: World) -> Iterator[Move]:
        if cell not in world.cells or judge(world, cell) != verdict:
            yield Move((world,))
        elif verdict == _SPOILED:
            yield Move((set_parked(world, cell),))
        else:
            for state, due in places_of(now, cell.job._replace(after=())):
                new = cell._replace(state=state, due=due)
                taken = new.state == "queued" and world.taken("queued", new)
                yield Move((set_parked(world, cell) if taken else world.drop(cell).put(new),))

    return step


def judge(world: World, cell: Cell) -> str:
    """Whether the missions that an entry waits for have succeeded."""
    found = [_judge_one(world, mission, cell.number) for mission in cell.job.after]
    if _SPOILED in found:
        return _SPOILED
    return _WAITS if _WAITS in found else _SATISFIED


def _judge_one(world: World, mission: str, number: int) -> str:
    there = world.of(mission)
    if any(one.state == "claimed" or one.number < number for one in there):
        return _WAITS
    last = world.last(mission)
    if last is not None and last.outcome == "succeeded":
        return _SATISFIED
    if there or last is None or not last.outcome or last.fate != "retire":
        return _WAITS
    return _SPOILED


def _tidy(now: Now, world: World) -> list[Move]:
    """What waits or is parked and is no entry is set aside."""
    del now
    return stay(
        world, *(_odd_name(cell) for cell in world.cells if cell.state in {"waiting", "parked"} and cell.job.bad)
    )


@lru_cache(MOST_KEPT)
def _scan(after: object) -> Step:
    """Names once, then one entry after the other until one may run."""
    assert callable(after)

    def step(now: Now, world: World) -> list[Move]:
        del now
        queued = world.in_state("queued")
        odd = [_odd_name(cell) for cell in queued if cell.name]
        keys = sorted({(cell.key, cell.life) for cell in queued if not cell.name})
        tries = [_candidate(key, life, step, after) for key, life in keys]
        return stay(world, *odd, *tries, *after(-1))

    return step


@lru_cache(MOST_KEPT)
def _odd_name(cell: Cell) -> Step:
    def step(now: Now, world: World) -> Iterator[Move]:
        if cell not in world.cells:
            yield Move((world,))
            return
        for old in _is_old(now, cell):
            yield Move((world.drop(cell).set_aside(_shown(cell)) if old else world,))

    return step


def _is_old(now: Now, cell: Cell) -> set[bool]:
    if cell.job.word != "partial" or cell.touched is None:
        return {True}
    earliest, latest = cell.touched if isinstance(cell.touched, tuple) else (cell.touched, cell.touched)
    return now.is_due((earliest + FRESH_MS, latest + FRESH_MS))


@lru_cache(MOST_KEPT)
def _candidate(key: tuple[int, int, str], life: int, again: Step, after: object) -> Step:
    assert callable(after)

    def step(now: Now, world: World) -> Iterator[Move]:
        there = [cell for cell in world.in_state("queued") if cell.key == key and not cell.name]
        cell = next((one for one in there if one.life == life), there[0] if there else None)
        if cell is None:
            yield Move((world,))
        elif cell.job.bad:
            for old in _is_old(now, cell):
                yield Move((world.drop(cell).set_aside(_shown(cell)) if old else world,))
        elif not _may_run(world, cell):
            yield Move((world,))
        else:
            settled_before = _settled_before(world, cell)
            if cell in settled_before.cells:
                yield from _ready(now, settled_before, cell)
            else:
                yield Move((world, settled_before))

    def _ready(now: Now, world: World, cell: Cell) -> Iterator[Move]:
        if cell.job.own and cell.job.after and (verdict := judge(world, cell)) != _SATISFIED:
            parked = verdict == _SPOILED
            yield Move((set_parked(world, cell) if parked else world.change(cell, state="waiting", due=None),))
            return
        for due in now.is_due(None if cell.job.signed or not cell.job.own else cell.job.not_before):
            if not due:
                yield Move((world.change(cell, state="waiting", due=cell.job.not_before),))
            else:
                yield from _only_one(world, cell)

    def _only_one(world: World, cell: Cell) -> Iterator[Move]:
        others = [one for one in world.of(cell.mission) if one != cell and one.state != "parked"]
        others = [one for one in others if one.state != "waiting" or one.job.bad or _may_run(world, one)]
        if any(one.state != "queued" for one in others):
            yield Move((world if cell.job.again else set_parked(world, cell),))
            return
        worlds = [world]
        for other in others:
            if not other.job.bad and not other.job.again:
                worlds.append(set_parked(worlds[-1], other))
        # a new run's folder, its record, and then the claim
        number = 1 + max([0, *(run.run for run in world.runs if run.mission == cell.mission)])
        empty = worlds[-1].put_run(Run(cell.mission, number))
        run = Run(cell.mission, number, cell.number, cell.priority, cell.life, cell.job, "claiming")
        yield Move((*worlds, empty, empty.put_run(run)), (_claim(cell, run, again, after),))

    return step


def _settled_before(world: World, cell: Cell) -> World:
    """A try that never began is recorded as one, and the entry runs; one whose recorded end is to go goes."""
    last = next((run for run in world.runs_of(cell.mission)[::-1] if run.life == cell.life), None)
    if last is None or (last.state == "ended" and last.fate != "retire"):
        return world
    if last.state == "ended":
        return world.drop(cell)
    assert not last.wish
    return world.put_run(last._replace(state="ended", outcome="never began", fate="return"))


def _may_run(world: World, cell: Cell) -> bool:
    return cell.job.signed or world.trusted


def _shown(cell: Cell) -> str:
    return cell.name or f"{cell.priority}-{cell.number}-{cell.mission}"


@lru_cache(MOST_KEPT)
def _claim(cell: Cell, run: Run, again: Step, after: object) -> Step:
    assert callable(after)

    def step(now: Now, world: World) -> Iterator[Move]:
        if cell not in world.cells:
            yield Move((world.drop_run(run),), (_admit_due, _admit_after, again))  # as one that begins to choose
            return
        alive = world._replace(alive=world.alive | {(run.mission, run.run)})
        claimed = alive.change(cell, state="claimed", run=run.run)
        kept = claimed.put_run(run._replace(kept=True))
        if word_of(run.job) == "missing":
            yield Move((world, claimed, kept), (keeper_leaves(run), settle_run(run, after)))
            return
        begun = kept.put_run(run._replace(kept=True, state="begun"))
        if word_of(run.job) == "hang" and not now.released:
            yield Move((world, claimed, kept, begun), (done(RUNNING),))
        elif word_of(run.job) == "killer":
            yield Move((world, claimed, kept, begun), (keeper_leaves(run), settle_run(run, after)))
        else:
            over = keeper_ends(run), keeper_leaves(run), settle_run(run, after)
            yield Move((world, claimed, kept, begun), over)

    return step
