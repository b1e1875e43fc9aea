"""The model of a change of content and name, which a kill may part; whoever comes next ends what was begun."""

from __future__ import annotations

from collections.abc import Iterator

from tests.machines.world import Cell, Move, Now, World, done


def moved(before: tuple[World, ...], mended: World, old: Cell, new: Cell) -> Move:
    """`old` has its new content in `mended`, and then becomes `new`; where that name is taken it stays where it is."""
    if (old.state, old.due, old.key) == (new.state, new.due, new.key):
        return Move((*before, mended), (done(0),))
    half = mended.half_moved(old, new)
    if is_taken(mended, new):
        return Move((*before, half, mended), (done(4),))
    return Move((*before, half, mended.drop(old).put(new)), (done(0),))


def finish_moves(now: Now, world: World) -> Iterator[Move]:
    """What has its content gets its name, unless that is taken or somebody has moved the entry since."""
    del now
    worlds = [world]
    for old, new in world.moving:
        at = worlds[-1]._replace(moving=tuple(one for one in worlds[-1].moving if one != (old, new)))
        there = next((cell for cell in at.cells if _is_as_left(cell, old)), None)
        worlds.append(at if there is None or is_taken(at, new) else at.drop(there).put(new))
    yield Move(tuple(worlds))


def is_taken(world: World, new: Cell) -> bool:
    """Whether another entry has the name."""
    return any(
        one.state == new.state and one.key == new.key and one.due == new.due and not one.name for one in world.cells
    )


def _is_as_left(cell: Cell, old: Cell) -> bool:
    """A due time that was only bounded is known once it was seen."""
    return cell._replace(due=None, touched=0) == old._replace(due=None, touched=0)
