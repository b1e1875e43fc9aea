"""The model of the verbs by which people and programs change the queue. Each is a chain of steps under the lock."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tests.machines.admission import admit_inbox, settle_unattended
from tests.machines.halfway import finish_moves, moved
from tests.machines.world import MOST_KEPT, Cell, Due, Job, Move, Now, Program, Step, World, done, stay

_OPEN = ("queued", "waiting", "parked")


class Wanted(NamedTuple):
    """What `enqueue` is asked for."""

    mission: str
    priority: int
    job: Job
    once: bool = False
    future: bool = False
    source: bool = False


@lru_cache(MOST_KEPT)
def enqueue(wanted: Wanted) -> Program:
    """Approve a mission."""

    def step(now: Now, world: World) -> Iterator[Move]:
        mission, job = wanted.mission, wanted.job
        if (code := _already(world, wanted)) is not None:
            yield Move((world,), (done(*code),))
            return
        last = world.last(mission)
        if wanted.once and last is not None and last.state == "ended" and last.fate == "retire":
            yield Move((world,), (done(0),))
            return
        if (refused := _refused(world, mission, job.after, future=wanted.future)) is not None:
            yield Move((world,), (done(refused),))
            return
        bound = world._replace(sources=world.sources | {(mission, "bound")}) if wanted.source else world
        named = bound.named(bound.next_number(mission))
        taken_back = named._replace(sources=world.sources)  # whoever is interrupted unbinds it; the number stays taken
        born, life = named.new_life()
        for due in now.is_due(job.not_before):
            place: tuple[str, Due] = ("queued", None) if due else ("waiting", job.not_before)
            state, at = ("waiting", None) if job.after else place
            cell = Cell(state, mission, wanted.priority, named.seq, job, life, at)
            yield Move((world, bound, named, taken_back, born.put(cell)), (done(0),))

    return admit_inbox, *settle_unattended(wanted.mission), step


def _already(world: World, wanted: Wanted) -> tuple[int, ...] | None:
    """The exit codes where an entry of the mission is the answer."""
    there = world.of(wanted.mission)
    if wanted.job.again:
        there = [cell for cell in there if cell.state != "claimed"]
    for state in ("queued", "waiting", "parked", "claimed"):
        codes = {_code_for(cell, wanted.job) for cell in there if cell.state == state}
        if codes:
            return tuple(codes)
    return None


def _code_for(cell: Cell, job: Job) -> int:
    return 0 if cell.state != "parked" and not cell.job.bad and cell.job.word == job.word else 4


def _refused(world: World, mission: str, after: tuple[str, ...], *, future: bool) -> int | None:
    if mission in after:
        return 2
    if _leads_back(world, mission, after):
        return 4
    unknown = any(not world.of(one) and world.last(one) is None for one in after)
    return 3 if unknown and not future else None


def _leads_back(world: World, mission: str, after: tuple[str, ...]) -> bool:
    seen: set[str] = set()
    ways = list(after)
    while ways:
        one = ways.pop()
        if one == mission:
            return True
        if one not in seen:
            seen.add(one)
            ways += [name for cell in world.of(one) if not cell.job.bad for name in cell.job.after]
    return False


@lru_cache(MOST_KEPT)
def park(mission: str) -> Program:
    """Set what is queued or waits aside."""

    def step(now: Now, world: World) -> list[Move]:
        there = world.of(mission)
        open_ = [cell for cell in there if cell.state in {"queued", "waiting"}]
        if not open_:
            code = 3 if not there else 4 if all(cell.state == "claimed" for cell in there) else 0
            return stay(world, done(code))
        worlds = [world]
        for cell in open_:
            worlds.append(worlds[-1].change(cell, state="parked", due=None, touched=now.instant))
        return [Move(tuple(worlds), (done(0),), said=tuple(worlds[1:-1]))]

    return *settle_unattended(mission), finish_moves, step


@lru_cache(MOST_KEPT)
def unpark(mission: str) -> Program:
    """Let what is parked back to its place."""

    def step(now: Now, world: World) -> Iterator[Move]:
        there = world.of(mission)
        if not there or not any(cell.state == "parked" for cell in there):
            yield Move((world,), (done(0 if there else 3),))
            return
        yield from _unparked(now, world, there)

    return *settle_unattended(mission), finish_moves, step


def _unparked(now: Now, world: World, there: list[Cell]) -> Iterator[Move]:
    """The first of what is parked goes back; which one is first is not said where two have one name."""
    cell = next(cell for cell in there if cell.state == "parked")
    if cell.job.bad:
        yield Move((world,), (done(4),))
        return
    beside = any(one.state != "parked" for one in there) and cell.job.own
    for same in [one for one in there if one.state == "parked" and one.key == cell.key]:
        born, life = world.new_life()
        again = same.job.again or beside
        renewed = same._replace(life=life, job=same.job._replace(again=again))
        born = born.drop(same).put(renewed)
        for state, due in _place_for(now, same.job):
            new = renewed._replace(state=state, due=due)
            yield moved((world,), born, renewed, new)


def _place_for(now: Now, job: Job) -> Iterator[tuple[str, Due]]:
    if job.own and job.after:
        yield "waiting", None
        return
    for due in now.is_due(job.not_before if job.own else None):
        yield ("queued", None) if due else ("waiting", job.not_before)


class Edits(NamedTuple):
    """What `edit` is asked for; a due time of 0 is *now*, a limit of 0 is *none*."""

    priority: int | None = None
    not_before: int | None = None
    limit: int | None = None


@lru_cache(MOST_KEPT)
def edit(mission: str, edits: Edits) -> Program:
    """Change what has not begun."""

    def step(now: Now, world: World) -> Iterator[Move]:
        there = world.of(mission)
        cell = next((one for one in there if one.state != "claimed"), None)
        if cell is None:
            yield Move((world,), (done(4 if there else 3),))
            return
        for same in [one for one in there if one.state == cell.state and one.key == cell.key]:
            yield from _edited(now, world, same, edits)

    return *settle_unattended(mission), finish_moves, step


def _edited(now: Now, world: World, cell: Cell, edits: Edits) -> Iterator[Move]:
    if cell.job.bad:
        yield Move((world,), (done(4),))
        return
    job = cell.job
    if edits.not_before is not None:
        job = job._replace(not_before=edits.not_before or None, own=True)
    if edits.limit is not None and edits.limit != job.limit:
        job = job._replace(limit=edits.limit, own=True)
    named = world
    priority, number = cell.priority, cell.number
    if edits.priority is not None and edits.priority != priority:
        priority, number = edits.priority, world.next_number(cell.mission)
        named = world.named(number)
    born, life = (named, cell.life) if cell.job.own else named.new_life()
    content = cell._replace(job=job, life=life)
    mended = born.drop(cell).put(content)
    for state, due in _edited_places(now, cell, job, edits):
        new = content._replace(state=state, due=due, priority=priority, number=number)
        yield moved((world, named), mended, content, new)


def _edited_places(now: Now, cell: Cell, job: Job, edits: Edits) -> Iterator[tuple[str, Due]]:
    waits_for_others = cell.state == "waiting" and cell.due is None
    if edits.not_before is None or cell.state == "parked" or waits_for_others:
        yield cell.state, cell.due
        return
    for due in now.is_due(job.not_before):
        yield ("queued", None) if due else ("waiting", job.not_before)


@lru_cache(MOST_KEPT)
def retry(mission: str) -> Program:
    """Once more."""

    def step(now: Now, world: World) -> Iterator[Move]:
        there = world.of(mission)
        open_ = [cell for cell in there if cell.state != "claimed"]
        waiting = next((cell for cell in open_ if cell.state == "waiting"), None)
        if not there:
            yield Move((world,), (_once_more(mission),))
        elif not open_:
            yield Move((world,), (done(4),))
        elif any(cell.state == "queued" for cell in open_):
            yield Move((world,), (done(0),))
        elif waiting is None:
            yield from _unparked(now, world, there)
        else:
            yield from _not_backing_off_any_more(world, waiting)

    return *settle_unattended(mission), finish_moves, step


def _not_backing_off_any_more(world: World, waiting: Cell) -> Iterator[Move]:
    last = world.last(waiting.mission)
    backs_off = last is not None and last.fate in {"wait", "rotate"}
    if waiting.due is None or not backs_off or waiting.job.bad:
        yield Move((world,), (done(4),))
        return
    born, life = world.new_life()
    renewed = waiting._replace(life=life)
    born = born.drop(waiting).put(renewed)
    new = renewed._replace(state="queued", due=None)
    yield moved((world,), born, renewed, new)


@lru_cache(MOST_KEPT)
def _once_more(mission: str) -> Step:
    def step(now: Now, world: World) -> list[Move]:
        del now
        last = world.last(mission)
        if last is None:
            return stay(world, done(3))
        same = [run for run in world.runs_of(mission)[::-1] if run.life == last.life]
        kept = next((run for run in same if run.kept and not run.job.bad), None)
        whole = kept is not None and kept.job.signed
        job, priority = Job(""), last.priority
        if kept is not None:
            priority = kept.priority
            job = kept.job._replace(again=False, not_before=None) if whole else Job("")
        there = world.of(mission)
        if there:
            codes = {_code_for(cell, job) for cell in there}
            return stay(world, done(*codes))
        if mission in job.after or _leads_back(world, mission, job.after):
            return stay(world, done(2 if mission in job.after else 4))
        named = world.named(world.next_number(mission))
        born, life = named.new_life()
        cell = Cell("waiting" if job.after else "queued", mission, priority, named.seq, job, life)
        return [Move((world, named, born.put(cell)), (done(0),))]

    return step
