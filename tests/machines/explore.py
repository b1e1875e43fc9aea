"""All that may come of programs that work at once, one of which may be killed: the worlds in which they can end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.machines.world import DAMAGED, Done, Move, Now, Program, World

Codes = tuple[frozenset[int] | None, ...]
MOST = 20_000
"""More ways than these mean that a rule asks for too much at once."""


def ends(
    world: World,
    programs: Sequence[Program],
    now: Now,
    *,
    narrow: Callable[[World], World | None],
    killed: bool = False,
    refused: bool = False,
) -> set[tuple[World, Codes]]:
    """The worlds at the end, each with the exit codes that go with it; None for a program that was killed.

    With `killed` the first program may die at any instant, or live; with `refused` it gives up between two steps, and
    has at most taken a number. `narrow` tells which ways need not be followed.
    """
    found: set[tuple[World, Codes]] = set()
    start: Codes = tuple(None for _ in programs)
    ways = [(world, tuple(map(tuple, programs)), start, False)]
    seen = set(ways)

    def follow(world: World, left: tuple[Program, ...], codes: Codes, *, dead: bool) -> None:
        narrowed = narrow(world)
        if narrowed is not None and (way := (narrowed, left, codes, dead)) not in seen:
            seen.add(way)
            ways.append(way)

    while ways:
        assert len(seen) < MOST, "too many ways to follow"
        at, left, codes, dead = ways.pop()
        if not any(left):
            found.add((at._replace(hold=-1) if dead else at, codes))
            continue
        for who, program in enumerate(left):
            for move, rest, code in _steps(program, now._replace(who=who), at):
                after = (*left[:who], rest, *left[who + 1 :])
                coded = codes if code is None else (*codes[:who], code, *codes[who + 1 :])
                follow(move.worlds[-1], after, coded, dead=dead)
                if (killed or refused) and who == 0:
                    for torn in _torn(at, move) if killed else _given_up(at, move):
                        follow(_after_death(torn), ((), *left[1:]), codes, dead=True)
    return found


def _torn(at: World, move: Move) -> Iterator[World]:
    yield from _hint_set_aside((at, *move.worlds), move)


def _given_up(at: World, move: Move) -> Iterator[World]:
    yield from _hint_set_aside((at, *move.said), move)
    yield from (at.named(world.seq) for world in move.worlds if world.seq != at.seq)


def _hint_set_aside(worlds: Sequence[World], move: Move) -> Iterator[World]:
    """A hint that cannot be read is set aside before a number is given out."""
    yield from worlds
    if worlds[0].seq == DAMAGED != move.worlds[-1].seq:
        yield from (world.without_damaged_hint() for world in worlds)


def _after_death(world: World) -> World:
    return world._replace(hold=-1)


def _steps(program: Program, now: Now, world: World) -> Iterator[tuple[Move, Program, frozenset[int] | None]]:
    if not program:
        return
    head, *rest = program
    if isinstance(head, Done):
        yield Move((world,)), (), head.codes
        return
    for move in head(now, world):
        yield move, (*move.then, *rest), None
