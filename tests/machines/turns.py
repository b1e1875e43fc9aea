"""The model of a turn, from the hold to the fate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from tests.machines.admission import admit_inbox, places_of, recover, set_parked
from tests.machines.ends import due_ways, word_of
from tests.machines.halfway import finish_moves
from tests.machines.watching import TOLD, keeper_ends, keeper_leaves, settle_run
from tests.machines.world import MOST_KEPT, Cell, Move, Now, Program, Run, Step, World, done, stay

RUNNING = 999
"""Stands for an exit code where a dispatcher watches over a mission that does not end by itself."""
FRESH_MS = 2000
_LEAVES = -2
"""Stands for an exit code of a dispatcher that was told to stop before its mission began."""
_WAITS, _SPOILED, _SATISFIED = "waits", "spoiled", "satisfied"


@lru_cache(MOST_KEPT)
def drain(*, once: bool) -> Program:
    """Turns until nothing due is left, or one."""

    def start(now: Now, world: World) -> list[Move]:
        return [*stay(world, admit_inbox, begin), *_stopped(now, world)]

    def begin(now: Now, world: World) -> list[Move]:
        del now
        if world.paused:
            return stay(world, recover, done(75))
        return stay(world, finish_moves, _tidy, hold)

    def hold(now: Now, world: World) -> list[Move]:
        if world.alive or world.hold != -1:
            return [*stay(world, recover, done(4)), *stay(world, done(4))] if once else []  # ends are settled anyway
        held = world._replace(hold=now.who)
        turn = Move((held,), (recover, *choose(_beginning(after), after(-1))))
        return [turn, Move((held,), (recover, *after(-1)))] if now.told else [turn]

    @lru_cache(MOST_KEPT)
    def after(code: int) -> Program:
        """What follows when a mission was run, or (with -1) when there was none."""

        def let_go(now: Now, world: World) -> list[Move]:
            free = world._replace(hold=-1)
            if code == _LEAVES:
                return _stopped(now, free)
            if once:
                return [Move((free,), (done(max(code, 0), *(TOLD if now.told else ())),))]
            then = stay(free, *((done(0, 1, 75),) if code == -1 else (admit_inbox, begin)))
            return [*then, *_stopped(now, free)]

        return (let_go,)

    return (start,)


def _stopped(now: Now, world: World) -> list[Move]:
    """A dispatcher that was told to stop leaves; a daemon settles before it what has ended."""
    return [*stay(world, done(*TOLD)), *stay(world, recover, done(*TOLD))] if now.told else []


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


Begin = Callable[[tuple[World, ...], Cell, Program], Move]
"""What follows when an entry was chosen, behind what choosing it came by; the program chooses once more."""


@lru_cache(MOST_KEPT)
def choose(begin: Begin, nothing: Program, missions: frozenset[str] | None = None) -> Program:
    """Let go what waits no longer; then names once, and one entry after the other until one may run."""

    def scan(now: Now, world: World) -> list[Move]:
        queued = world.in_state("queued")
        odd = [_odd_name(cell) for cell in queued if cell.name]
        wanted = [cell for cell in queued if not cell.name and (missions is None or cell.mission in missions)]
        tries = [_candidate(key, life, begin, again) for key, life in sorted({(one.key, one.life) for one in wanted})]
        chosen = stay(world, *odd, *tries, *nothing)
        return [*chosen, *stay(world, *nothing)] if now.told else chosen

    again: Program = (_admit_due, _admit_after, scan)
    return again


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
def _candidate(key: tuple[int, int, str], life: int, begin: Begin, again: Program) -> Step:
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
        yield begin(tuple(worlds), cell, again)

    return step


@lru_cache(MOST_KEPT)
def _beginning(after: Callable[[int], Program]) -> Begin:
    def begin(worlds: tuple[World, ...], cell: Cell, again: Program) -> Move:
        """A new run's folder, its record, and then the claim."""
        run = new_run(worlds[-1], cell)
        empty = worlds[-1].put_run(Run(run.mission, run.run))
        return Move((*worlds, empty, empty.put_run(run)), (_claim(cell, run, again, after),))

    return begin


def new_run(world: World, cell: Cell) -> Run:
    """The record of a new try."""
    number = 1 + max([0, *(run.run for run in world.runs if run.mission == cell.mission)])
    return Run(cell.mission, number, cell.number, cell.priority, cell.life, cell.job, "claiming")


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
def _leaving(after: Callable[[int], Program]) -> Callable[[int], Program]:
    return lambda code: after(_LEAVES if code >= 0 else code)


@lru_cache(MOST_KEPT)
def _claim(cell: Cell, run: Run, again: Program, after: Callable[[int], Program]) -> Step:
    def step(now: Now, world: World) -> Iterator[Move]:
        if cell not in world.cells:
            yield Move((world.drop_run(run),), again)
            return
        alive = world._replace(alive=world.alive | {(run.mission, run.run)})
        claimed = alive.change(cell, state="claimed", run=run.run)
        current = next(one for one in world.runs if one[:2] == run[:2])
        kept = claimed.put_run(current._replace(kept=True))
        if current.state == "ended":  # the library took it for one that never began
            yield Move((world, claimed, kept), (settle_run(run, after),))
            return
        if now.told:
            sent_back = kept.put_run(run._replace(kept=True, asked=True))
            yield Move((world, claimed, kept, sent_back), (settle_run(run, _leaving(after)),))
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
